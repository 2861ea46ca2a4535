#include "graph.h"
#include "error.h"

namespace ks {

Graph::Graph(size_t max_nodes) {
    ggml_init_params params = {};
    params.mem_size = ggml_tensor_overhead() * max_nodes * 2 + ggml_graph_overhead_custom(max_nodes, false);
    params.no_alloc = true;
    ctx_ = ggml_init(params);
    if (!ctx_) throw Error(KS_ERROR_MEMORY, "cannot allocate a graph of " + std::to_string(max_nodes) + " nodes");
    graph_ = ggml_new_graph_custom(ctx_, max_nodes, false);
}

Graph::~Graph() {
    if (alloc_) ggml_gallocr_free(alloc_);
    if (ctx_) ggml_free(ctx_);
}

ggml_tensor *Graph::input(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    ggml_tensor *t = ggml_new_tensor_3d(ctx_, type, ne0, ne1, ne2);
    ggml_set_input(t);
    return t;
}

void Graph::plan(ggml_backend_t backend) {
    backend_ = backend;
    alloc_ = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (!alloc_ || !ggml_gallocr_alloc_graph(alloc_, graph_))
        throw Error(KS_ERROR_MEMORY, "cannot allocate the working memory of a graph");
}

void Graph::compute() {
    Backend::compute(backend_, graph_);
}

size_t Graph::compute_bytes() const {
    return alloc_ ? ggml_gallocr_get_buffer_size(alloc_, 0) : 0;
}

} // namespace ks
