#include "norm.h"

namespace ks {

ggml_tensor *rms_norm(Graph &graph, ggml_tensor *x, ggml_tensor *weight, float eps) {
    return ggml_mul(graph.ctx(), ggml_rms_norm(graph.ctx(), x, eps), weight);
}

ggml_tensor *layer_norm(Graph &graph, ggml_tensor *x, ggml_tensor *weight, ggml_tensor *bias, float eps) {
    ggml_tensor *scaled = ggml_mul(graph.ctx(), ggml_norm(graph.ctx(), x, eps), weight);
    return ggml_add(graph.ctx(), scaled, bias);
}

} // namespace ks
