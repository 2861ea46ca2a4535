#include "codec_graph.h"
#include "kestrel.h"
#include "ops/norm.h"

namespace ks {

namespace {

struct Builder {
    const CodecConfig &config;
    const CodecState &state;
    Scratch &scratch;
    Graph &graph;
    bool plain_conv, plain_snake;

    ggml_tensor *conv(const ConvWeights &w, ggml_tensor *x, ggml_tensor *residual = nullptr,
                      const ScaleWeights *scale = nullptr) {
        ConvEpilogue epilogue;
        epilogue.residual = residual;
        if (scale) {
            epilogue.scale = scale->own.data();
            epilogue.scale_plain = scale->plain;
        }
        ggml_tensor *history = state.view(graph, w.history);
        if (w.packed) return conv1d(graph, *w.packed, scratch, x, history, epilogue);
        return conv1d_plain(graph, w.shape, w.taps, w.bias, x, history, epilogue);
    }

    // [stride * channels, frames] is [channels, stride * frames].
    ggml_tensor *transposed(const ConvWeights &w, int64_t stride, ggml_tensor *x) {
        ggml_tensor *y = conv(w, x);
        return ggml_reshape_2d(graph.ctx(), y, y->ne[0] / stride, y->ne[1] * stride);
    }

    ggml_tensor *activation(const SnakeWeights &w, ggml_tensor *x) {
        return plain_snake ? snake_plain(graph, w.alpha, w.divisor, x) : snake(graph, w.own, x);
    }

    ggml_tensor *post_layer(const PostLayer &layer, const AttentionInputs &inputs, ggml_tensor *x) {
        ggml_tensor *qkv = conv(layer.qkv, rms_norm(graph, x, layer.attn_norm, config.post_eps));
        ggml_tensor *history = state.view(graph, layer.history);
        ggml_tensor *attended = plain_conv ? window_attention_plain(graph, config.attention, inputs, qkv, history)
                                           : window_attention(graph, config.attention, scratch, inputs, qkv, history);
        x = conv(layer.o, attended, x, &layer.attn_scale);
        ggml_tensor *hidden = conv(layer.gate_up, rms_norm(graph, x, layer.ffn_norm, config.post_eps));
        return conv(layer.down, ggml_swiglu(graph.ctx(), hidden), x, &layer.ffn_scale);
    }

    ggml_tensor *upsample_stage(const UpsampleStage &stage, ggml_tensor *x) {
        x = transposed(stage.conv, stage.stride, x);
        ggml_tensor *history = state.view(graph, stage.depthwise.history);
        ggml_tensor *y = plain_conv ? depthwise_plain(graph, stage.depthwise.taps, stage.depthwise.bias, x, history)
                                    : depthwise(graph, stage.depthwise.own, x, history);
        y = layer_norm(graph, y, stage.norm_weight, stage.norm_bias, config.upsample_eps);
        y = ggml_gelu_erf(graph.ctx(), conv(stage.pw1, y));
        return conv(stage.pw2, y, x, &stage.scale);
    }

    ggml_tensor *block(const DecoderBlock &block, ggml_tensor *x) {
        x = transposed(block.up, block.stride, activation(block.snake, x));
        for (const ResidualUnit &unit : block.units) {
            ggml_tensor *y = conv(unit.conv1, activation(unit.snake1, x));
            x = conv(unit.conv2, activation(unit.snake2, y), x);
        }
        return x;
    }
};

// A generous bound; the plain form has a handful of nodes a tap.
size_t node_bound(const CodecConfig &c) {
    const auto convs = int64_t(c.strides.size() * (2 + 2 * c.dilations.size()) + 2);
    const auto stages = int64_t(c.upsample_strides.size());
    return size_t(256 + c.post_layers * 96 + stages * (64 + 4 * c.upsample_kernel) + convs * (24 + 4 * c.kernel));
}

} // namespace

CodecGraph build_codec_graph(const CodecConfig &config, const CodecWeights &weights, const CodecState &state,
                             Scratch &scratch, ThreadPool &pool, int64_t frames, uint32_t plain_ops) {
    CodecGraph out;
    out.frames = frames;
    out.graph = std::make_unique<Graph>(node_bound(config), pool);
    Graph &graph = *out.graph;
    Builder build = {
        config, state, scratch, graph, (plain_ops & KS_PLAIN_CONV) != 0, (plain_ops & KS_PLAIN_SNAKE) != 0};

    ggml_tensor *x = out.latents = graph.input(GGML_TYPE_F32, config.dim, frames);
    if (config.post_layers > 0) {
        out.attention.rotation = graph.input(GGML_TYPE_F32, config.attention.head_dim, frames);
        if (build.plain_conv)
            out.attention.mask = graph.input(GGML_TYPE_F32, config.attention.left() + frames, frames);
        else
            out.attention.past = graph.input(GGML_TYPE_I32, 1);
    }
    for (const PostLayer &layer : weights.post) x = build.post_layer(layer, out.attention, x);
    x = rms_norm(graph, x, weights.post_norm, config.post_eps);
    for (const UpsampleStage &stage : weights.upsample) x = build.upsample_stage(stage, x);
    x = build.conv(weights.stem, x);
    for (const DecoderBlock &block : weights.blocks) x = build.block(block, x);
    x = build.conv(weights.tail, build.activation(weights.tail_snake, x));
    out.pcm = ggml_tanh(graph.ctx(), x); // [1, frames * frame_size]
    graph.output(out.pcm);
    return out;
}

} // namespace ks
