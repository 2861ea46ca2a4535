// Causal depthwise convolution: y[t][c] = bias[c] + sum_k w[c][k] * x[t - (kernel - 1 - k)][c]       (k = 0: oldest
// tap)
//
// ks_op_run "depthwise", f32, shapes slowest axis first: x [frames, channels], weight [channels, kernel],
// bias [channels], optional history [kernel - 1, channels] (without it zeros); no options; out [frames, channels].
#pragma once

#include "graph.h"
#include <cstdint>
#include <vector>

namespace ks {

struct DepthwiseTaps {
    int64_t channels = 0, kernel = 1;
    std::vector<float> weights; // [kernel][channels]
    std::vector<float> bias;    // [channels]
    int64_t left() const { return kernel - 1; }
};

// weight: torch-style [channels, kernel].
DepthwiseTaps taps_of_depthwise(const ggml_tensor *weight, const ggml_tensor *bias);

// x: [channels, frames] contiguous; history: [channels, kernel - 1] or null. Adds the history update after the reader.
// `taps` must outlive the graph. One order of additions whatever the chunk or thread count.
ggml_tensor *depthwise(Graph &graph, const DepthwiseTaps &taps, ggml_tensor *x, ggml_tensor *history);

// Plain twin: mul and add a tap. taps: [channels, kernel], bias: [channels]; history needed when kernel > 1.
ggml_tensor *depthwise_plain(Graph &graph, ggml_tensor *taps, ggml_tensor *bias, ggml_tensor *x, ggml_tensor *history);

} // namespace ks
