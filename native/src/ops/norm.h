// Normalisations over channels, from stock ggml nodes: each frame is reduced by itself, so results do not depend on how
// many frames a graph has.
//
// ks_op_run, f32, shapes slowest axis first:
//   rms_norm    x [frames, channels], weight [channels], eps [1]; no options; out [frames, channels]
//   layer_norm  x [frames, channels], weight [channels], bias [channels], eps [1]; no options; out [frames, channels]
#pragma once

#include "graph.h"

namespace ks {

// x: [channels, frames]; weight, bias: [channels].
ggml_tensor *rms_norm(Graph &graph, ggml_tensor *x, ggml_tensor *weight, float eps);
ggml_tensor *layer_norm(Graph &graph, ggml_tensor *x, ggml_tensor *weight, ggml_tensor *bias, float eps);

} // namespace ks
