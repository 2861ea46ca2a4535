// Left context of a causal operation: its last `columns` input columns, oldest first, kept between graph runs.
#pragma once

#include "graph.h"

namespace ks {

// x: [channels, frames] f32, columns may lie apart (a view of rows of a wider tensor).
// history: [channels, columns] f32, contiguous; holds the columns before x.
//
// Adds a node that makes history the last `columns` columns of (history | x). It runs after everything added before it,
// so the readers of the old history must be added first.
void history_push(Graph &graph, ggml_tensor *history, ggml_tensor *x);

// Plain twin: returns (history | x), [channels, columns + frames], and adds the copy back into history.
ggml_tensor *history_concat_plain(Graph &graph, ggml_tensor *history, ggml_tensor *x);

} // namespace ks
