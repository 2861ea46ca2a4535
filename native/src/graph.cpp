#include "graph.h"
#include "error.h"

namespace ks {

namespace {

struct CustomNode {
    Graph::Kernel kernel;
    void *user;
    ThreadPool *pool; // nullptr: on the calling thread
};

struct CustomRun {
    const CustomNode *node;
    ggml_tensor *dst;
};

// ggml runs the node on one thread; the pool spreads it.
void run_custom(ggml_tensor *dst, int, int, void *user) {
    CustomRun run = {static_cast<const CustomNode *>(user), dst};
    if (!run.node->pool) {
        run.node->kernel(dst, 0, 1, run.node->user);
        return;
    }
    const auto task = [](int chunk, int n_chunks, void *data) {
        const CustomRun &r = *static_cast<const CustomRun *>(data);
        r.node->kernel(r.dst, chunk, n_chunks, r.node->user);
    };
    run.node->pool->run(task, 2 * run.node->pool->n_threads(), &run);
}

// Below this a kernel is done before a second thread has taken its first chunk (about 20 us of one core).
constexpr int64_t MIN_SHARED_FLOPS = 1000000;

} // namespace

Graph::Graph(size_t max_nodes, ThreadPool &pool) : pool_(pool) {
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

ggml_tensor *Graph::custom(Kernel kernel, void *user, int64_t ne0, int64_t ne1, ggml_tensor **sources, int n_sources,
                           int64_t flops) {
    ThreadPool *pool = flops >= MIN_SHARED_FLOPS && pool_.n_threads() > 1 ? &pool_ : nullptr;
    CustomNode *node = keep(CustomNode{kernel, user, pool});
    return ggml_custom_4d(ctx_, GGML_TYPE_F32, ne0, ne1, 1, 1, sources, n_sources, run_custom, 1, node);
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
