// Causal convolution, and everything that is one: dilated, pointwise (linear layer) and transposed convolution.
//
//   y[t][o] = bias[o] + sum_k sum_i w[k][o][i] * x[t - (kernel - 1 - k) * dilation][i]          (k = 0: oldest tap)
//
// A transposed convolution of kernel m * stride is the causal convolution with m taps that makes stride * out channels
// an input frame: y[stride * t + r] = sum_j w[:, :, r + j * stride] x[t - j]; its output [stride * out, frames] is
// [out, stride * frames] by reshape (right-trimmed form, docs: causal transposed convolution drops kernel - stride).
//
// ks_op_run, all f32 unless said otherwise, shapes slowest axis first:
//   conv1d            x [frames, in], weight [out, in, kernel] (f32 or f16), bias [out],
//                     optional history [(kernel - 1) * dilation, in]; option: dilation; out [frames, out]
//   conv_transpose1d  x [frames, in], weight [in, out, kernel] (f32 or f16), bias [out],
//                     optional history [kernel / stride - 1, in]; option: stride; out [frames * stride, out]
//   Without history the columns before x are zeros.
#pragma once

#include "graph.h"
#include "scratch.h"
#include <cstdint>
#include <vector>

namespace ks {

struct ConvShape {
    int64_t in = 0, out = 0, kernel = 1, dilation = 1;
    int64_t left() const { return (kernel - 1) * dilation; } // input columns needed before x
};

// Weights in the order of the formula above, independent of how the file stores them.
struct ConvTaps {
    ConvShape shape;
    bool half = false;          // stored as f16, so packing to f16 loses nothing
    std::vector<float> weights; // [kernel][out][in]
    std::vector<float> bias;    // [out], empty = none
};

// weight: torch-style [out, in, kernel].
ConvTaps taps_of_conv(const ggml_tensor *weight, const ggml_tensor *bias, int64_t dilation);
// weight: torch-style [in, out, kernel], kernel a multiple of stride; the result has stride * out channels.
ConvTaps taps_of_conv_transpose(const ggml_tensor *weight, const ggml_tensor *bias, int64_t stride);
// weights: one or more torch-style [out_n, in], stacked along out; bias of the first only.
ConvTaps taps_of_linear(const std::vector<const ggml_tensor *> &weights, const ggml_tensor *bias);

// Weights packed for our kernel: panels of simd::panel output channels, [panel][kernel][in][channel], the last one as
// wide as whole vectors need. Up to two output channels are kept as [out][kernel][in] and vectorised over time.
class PackedConv {
  public:
    // f16 panels where the taps came from f16 (half the bytes to read when there are few frames) and the target loads
    // f16 fast, else f32.
    // Throws Error(KS_ERROR_MODEL) if a value does not fit into f16.
    explicit PackedConv(const ConvTaps &taps);

    const ConvShape &shape() const { return shape_; }
    bool narrow() const { return shape_.out <= 2; }
    int64_t bytes() const {
        return int64_t(full_.size() * sizeof(float) + half_.size() * sizeof(ggml_fp16_t) +
                       bias_.size() * sizeof(float));
    }
    // Computes frames of the whole tensor on thread ith of nth. history may be null (zeros); scale and residual too:
    // y = residual + scale * conv. Every output is one chain of multiply-adds from the bias through taps and input
    // channels, whatever the tile, thread count or chunk: results are the same bit for bit.
    void run(float *y, const float *x, const float *history, int64_t frames, const float *scale, const float *residual,
             int ith, int nth, float *scratch) const;
    // Floats of scratch a thread needs for `frames`.
    size_t scratch_floats(int64_t frames) const;

  private:
    int64_t tile_frames(int64_t frames) const;
    int64_t tile_stride(int64_t tile) const;
    template <class W>
    void run_panel(const W *weights, int64_t panel, float *y, const float *packed_x, int64_t stride, int64_t frames,
                   float *tail) const;
    void run_narrow(float *y, const float *packed_x, int64_t stride, int64_t frames) const;

    ConvShape shape_;
    int64_t panels_ = 1;
    std::vector<float> full_;
    std::vector<ggml_fp16_t> half_;
    std::vector<float> bias_; // padded to whole vectors
};

struct ConvEpilogue {
    const float *scale = nullptr;       // [out], our kernel
    ggml_tensor *scale_plain = nullptr; // the same as a tensor, plain twin
    ggml_tensor *residual = nullptr;    // [out, frames]
};

// x: [in, frames] contiguous. history: [in, left()] or null. Result: [out, frames].
// Adds the history update after the reader. `packed` and `scratch` must outlive the graph.
ggml_tensor *conv1d(Graph &graph, const PackedConv &packed, Scratch &scratch, ggml_tensor *x, ggml_tensor *history,
                    const ConvEpilogue &epilogue = {});

// Plain twin: one ggml_mul_mat a tap. taps: [in, out, kernel], bias: [out] or null. Without history the frames before x
// are not there, so left() must be 0.
ggml_tensor *conv1d_plain(Graph &graph, const ConvShape &shape, ggml_tensor *taps, ggml_tensor *bias, ggml_tensor *x,
                          ggml_tensor *history, const ConvEpilogue &epilogue = {});

} // namespace ks
