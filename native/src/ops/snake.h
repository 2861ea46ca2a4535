// Snake activation: y = x + sin^2(alpha x) / (alpha + 1e-9), alpha a channel, used as it is.
//
// ks_op_run "snake", f32, shapes slowest axis first: x [frames, channels], alpha [channels]; no options;
// out [frames, channels].
#pragma once

#include "graph.h"
#include <vector>

namespace ks {

struct SnakeTaps {
    std::vector<float> alpha;
    std::vector<float> inverse; // 1 / (alpha + 1e-9)
};

SnakeTaps snake_taps(std::vector<float> alpha);

// x: [channels, frames] contiguous. sin^2 by a polynomial (absolute error of sin^2 below 1e-6 for |alpha x| < 1e4,
// never above 1), which compilers vectorise; sinf would be the whole cost of the codec's activations. `taps` must
// outlive the graph.
ggml_tensor *snake(Graph &graph, const SnakeTaps &taps, ggml_tensor *x);

// Plain twin: mul, sin, sqr, div, add. alpha, divisor (= alpha + 1e-9): [channels].
ggml_tensor *snake_plain(Graph &graph, ggml_tensor *alpha, ggml_tensor *divisor, ggml_tensor *x);

} // namespace ks
