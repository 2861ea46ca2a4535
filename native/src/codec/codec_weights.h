// Weights of the codec decoder in the form its graph needs: packed for our kernels, or tensors on the codec's backend
// for the plain twins. Only the form in use is kept.
#pragma once

#include "codec_config.h"
#include "codec_state.h"
#include "ops/conv1d.h"
#include "ops/depthwise.h"
#include "ops/snake.h"
#include "tensor_store.h"
#include <memory>
#include <vector>

namespace ks {

struct ConvWeights { // also every linear layer and transposed convolution
    ConvShape shape;
    std::unique_ptr<PackedConv> packed; // null: plain
    ggml_tensor *taps = nullptr, *bias = nullptr;
    int history = -1;
};

struct DepthwiseWeights {
    DepthwiseTaps own;
    ggml_tensor *taps = nullptr, *bias = nullptr;
    int history = -1;
};

struct SnakeWeights {
    SnakeTaps own;
    ggml_tensor *alpha = nullptr, *divisor = nullptr;
};

struct ScaleWeights { // LayerScale
    std::vector<float> own;
    ggml_tensor *plain = nullptr;
};

struct PostLayer {
    ggml_tensor *attn_norm, *ffn_norm;
    ConvWeights qkv, o, gate_up, down;
    ScaleWeights attn_scale, ffn_scale;
    int history;
};

struct UpsampleStage {
    int64_t stride;
    ConvWeights conv;
    DepthwiseWeights depthwise;
    ggml_tensor *norm_weight, *norm_bias;
    ConvWeights pw1, pw2;
    ScaleWeights scale;
};

struct ResidualUnit {
    SnakeWeights snake1, snake2;
    ConvWeights conv1, conv2;
};

struct DecoderBlock {
    int64_t stride;
    SnakeWeights snake;
    ConvWeights up;
    std::vector<ResidualUnit> units;
};

struct CodecWeights {
    std::vector<PostLayer> post;
    ggml_tensor *post_norm = nullptr;
    std::vector<UpsampleStage> upsample;
    ConvWeights stem;
    std::vector<DecoderBlock> blocks;
    SnakeWeights tail_snake;
    ConvWeights tail;

    int64_t packed_bytes = 0;
    TensorStore tensors;

    // Reads, checks and converts every tensor of the decoder but the codebooks, and adds the histories to `state`.
    void load(ModelFile &file, const CodecConfig &config, ggml_backend_t backend, uint32_t plain_ops,
              CodecState &state);
};

} // namespace ks
