// One planned graph: the ggml context that holds its nodes, the user data of its custom nodes, and its working memory.
#pragma once

#include "backend.h"
#include "ggml-alloc.h"
#include "ggml.h"
#include <memory>
#include <vector>

namespace ks {

class Graph {
  public:
    // max_nodes bounds the nodes and leaves of the graph; pool spreads the kernels of custom nodes.
    Graph(size_t max_nodes, ThreadPool &pool);
    ~Graph();
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    ggml_context *ctx() const { return ctx_; }
    ggml_cgraph *cgraph() const { return graph_; }

    // Keeps an object (a custom node's user data) alive as long as the graph.
    template <class T> T *keep(T value) {
        auto owner = std::make_shared<T>(std::move(value));
        kept_.push_back(owner);
        return owner.get();
    }

    // A node computed by our own kernel: f32 [ne0, ne1]. The kernel is called for chunks ith of nth, on any thread of
    // the pool, and must compute the same whatever nth is. `flops` decides whether more than one thread is worth it.
    // user must live as long as the graph; at most 10 sources.
    using Kernel = void (*)(ggml_tensor *dst, int ith, int nth, void *user);
    ggml_tensor *custom(Kernel kernel, void *user, int64_t ne0, int64_t ne1, ggml_tensor **sources, int n_sources,
                        int64_t flops);

    // A host-fed tensor, written before each compute.
    ggml_tensor *input(ggml_type type, int64_t ne0, int64_t ne1 = 1, int64_t ne2 = 1);
    // Adds `node` (and what it needs) to the graph, in call order: a write-back must be added before or after its
    // readers as the algorithm demands.
    void add(ggml_tensor *node) { ggml_build_forward_expand(graph_, node); }
    // As add, and keeps the node's memory readable after compute.
    void output(ggml_tensor *node) {
        ggml_set_output(node);
        add(node);
    }

    // Gives every node its working memory on `backend`. Call once, after the last add.
    void plan(ggml_backend_t backend);
    void compute();
    size_t compute_bytes() const;

  private:
    ThreadPool &pool_;
    ggml_context *ctx_ = nullptr;
    ggml_cgraph *graph_ = nullptr;
    ggml_gallocr_t alloc_ = nullptr;
    ggml_backend_t backend_ = nullptr;
    std::vector<std::shared_ptr<void>> kept_;
};

} // namespace ks
