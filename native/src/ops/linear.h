// Matrix-vector products of the AR stages, whose result for a column does not depend on how many columns run beside it.
#pragma once

#include "graph.h"

namespace ks {

// y[n_out, columns] = w[n_in, n_out]^T x[n_in, columns]   (ggml order: fastest axis first)
// w: f32, f16, bf16 or q8_0, as mapped; x: contiguous f32. (ks_op_run: x [columns, in], w [out, in].)
// Own kernel: weights are expanded to f32 in registers and each weight read serves all columns. Every (row, column) sum
// runs over n_in in one order, so one column and several give the same bits. ggml's own mul_mat changes its kernel at
// two columns (llamafile GEMM) and quantises activations for q8_0.
// plain: ggml_mul_mat.
ggml_tensor *linear(Graph &graph, ggml_tensor *w, ggml_tensor *x, bool plain);

} // namespace ks
