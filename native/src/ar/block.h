// Pieces that both autoregressive stages build their graphs from.
#pragma once

#include "ggml-backend.h"
#include "graph.h"
#include "model_file.h"
#include "ops/linear.h"
#include <vector>

namespace ks {

inline ggml_tensor *rms_norm(ggml_context *ctx, ggml_tensor *x, ggml_tensor *weight, float eps) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, eps), weight);
}

inline ggml_tensor *scaled(ggml_context *ctx, ggml_tensor *x, float by) {
    return by == 1.0f ? x : ggml_scale(ctx, x, by);
}

struct GatedFfn { // down( SiLU(gate x) * up x )
    ggml_tensor *gate, *up, *down;
    float gate_multiplier = 1.0f, down_multiplier = 1.0f;

    ggml_tensor *build(Graph &graph, ggml_tensor *x, bool plain) const {
        ggml_context *ctx = graph.ctx();
        ggml_tensor *g = scaled(ctx, linear(graph, gate, x, plain), gate_multiplier);
        ggml_tensor *h = ggml_swiglu_split(ctx, g, linear(graph, up, x, plain));
        return scaled(ctx, linear(graph, down, h, plain), down_multiplier);
    }
};

// Tensors that live as long as the model in one zeroed backend buffer: slot state and constants.
class Home {
  public:
    explicit Home(size_t max_tensors);
    ~Home();
    Home(const Home &) = delete;
    Home &operator=(const Home &) = delete;
    ggml_tensor *add(ggml_type type, int64_t ne0, int64_t ne1 = 1);
    void allocate(ggml_backend_t backend); // once, after the last add
    size_t bytes() const;

  private:
    ggml_context *ctx_;
    ggml_backend_buffer_t buffer_ = nullptr;
};

// Column `row` of an embedding table as f32, added to out[0 .. dim).
void add_row(const ggml_tensor *table, int64_t row, float *out);

} // namespace ks
