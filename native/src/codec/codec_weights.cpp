#include "codec_weights.h"
#include "error.h"
#include "kestrel.h"
#include <cstring>
#include <string>

namespace ks {

namespace {

std::vector<char> raw_bytes(const ggml_tensor *t) {
    const char *data = static_cast<const char *>(t->data);
    return std::vector<char>(data, data + ggml_nbytes(t));
}

// Taps [kernel][out][in] as f16 or f32 bytes.
std::vector<char> tap_bytes(const ConvTaps &taps, ggml_type type) {
    if (type == GGML_TYPE_F32) return bytes_of(taps.weights);
    std::vector<char> out(taps.weights.size() * sizeof(ggml_fp16_t));
    ggml_fp32_to_fp16_row(taps.weights.data(), reinterpret_cast<ggml_fp16_t *>(out.data()),
                          int64_t(taps.weights.size()));
    return out;
}

struct Loader {
    ModelFile &file;
    CodecWeights &weights;
    CodecState &state;
    bool plain_conv, plain_snake;

    std::vector<float> values(const std::string &name, int64_t n) {
        return to_f32(file.tensor(name, {n}, Kind::plain));
    }
    ggml_tensor *vector(const std::string &name, int64_t n) { return weights.tensors.add(values(name, n)); }

    // `make` builds the taps; for the plain form it runs at upload.
    template <class Make>
    ConvWeights convolution(ConvShape shape, ggml_type type, const ggml_tensor *bias, int64_t bias_repeat, Make make) {
        ConvWeights w;
        w.shape = shape;
        w.history = state.add(shape.in, shape.left());
        if (!plain_conv) {
            w.packed = std::make_unique<PackedConv>(make());
            weights.packed_bytes += w.packed->bytes();
            return w;
        }
        w.taps = weights.tensors.add(type, shape.in, shape.out, shape.kernel,
                                     [make, type] { return tap_bytes(make(), type); });
        if (bias) {
            std::vector<float> repeated;
            const std::vector<float> once = to_f32(bias);
            for (int64_t i = 0; i < bias_repeat; i++) repeated.insert(repeated.end(), once.begin(), once.end());
            w.bias = weights.tensors.add(std::move(repeated));
        }
        return w;
    }

    ConvWeights conv(const std::string &name, int64_t in, int64_t out, int64_t kernel, int64_t dilation) {
        const ggml_tensor *w = file.tensor(name + ".weight", {out, in, kernel}, Kind::conv);
        const ggml_tensor *b = file.tensor(name + ".bias", {out}, Kind::plain);
        return convolution({in, out, kernel, dilation}, w->type, b, 1,
                           [w, b, dilation] { return taps_of_conv(w, b, dilation); });
    }

    ConvWeights transposed(const std::string &name, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
        const ggml_tensor *w = file.tensor(name + ".weight", {in, out, kernel}, Kind::conv);
        const ggml_tensor *b = file.tensor(name + ".bias", {out}, Kind::plain);
        return convolution({in, stride * out, kernel / stride, 1}, w->type, b, stride,
                           [w, b, stride] { return taps_of_conv_transpose(w, b, stride); });
    }

    // Linear layers of the same input stacked along their outputs: one pass over the input.
    ConvWeights linear(const std::vector<std::string> &names, int64_t in, int64_t out_each, bool with_bias) {
        std::vector<const ggml_tensor *> parts;
        bool one_type = true;
        for (const std::string &name : names) {
            parts.push_back(file.tensor(name + ".weight", {out_each, in}, Kind::linear));
            one_type = one_type && parts.back()->type == parts.front()->type;
        }
        const ggml_tensor *b = with_bias ? file.tensor(names.front() + ".bias", {out_each}, Kind::plain) : nullptr;
        const int64_t out = out_each * int64_t(names.size());
        if (!plain_conv || !one_type)
            return convolution({in, out, 1, 1}, GGML_TYPE_F32, b, 1, [parts, b] { return taps_of_linear(parts, b); });
        ConvWeights w; // plain: the file's own storage type, q8_0 included
        w.shape = {in, out, 1, 1};
        w.taps = weights.tensors.add(parts.front()->type, in, out, 1, [parts] {
            std::vector<char> all;
            for (const ggml_tensor *part : parts) {
                const std::vector<char> bytes = raw_bytes(part);
                all.insert(all.end(), bytes.begin(), bytes.end());
            }
            return all;
        });
        if (b) w.bias = weights.tensors.add(to_f32(b));
        return w;
    }

    SnakeWeights snake(const std::string &name, int64_t channels) {
        SnakeWeights w;
        w.own = snake_taps(values(name, channels));
        if (plain_snake) {
            std::vector<float> divisor = w.own.alpha;
            for (float &d : divisor) d += 1e-9f;
            w.alpha = weights.tensors.add(w.own.alpha);
            w.divisor = weights.tensors.add(std::move(divisor));
        }
        return w;
    }

    ScaleWeights scale(const std::string &name, int64_t channels) {
        ScaleWeights w;
        w.own = values(name, channels);
        if (plain_conv) w.plain = weights.tensors.add(w.own);
        return w;
    }

    DepthwiseWeights depthwise(const std::string &name, int64_t channels, int64_t kernel) {
        DepthwiseWeights w;
        w.own = taps_of_depthwise(file.tensor(name + ".weight", {channels, kernel}, Kind::plain),
                                  file.tensor(name + ".bias", {channels}, Kind::plain));
        w.history = state.add(channels, w.own.left());
        if (plain_conv) {
            w.taps = weights.tensors.add(GGML_TYPE_F32, channels, kernel, 1,
                                         [taps = w.own.weights] { return bytes_of(taps); });
            w.bias = weights.tensors.add(w.own.bias);
        }
        return w;
    }

    PostLayer post_layer(const std::string &name, const CodecConfig &c) {
        PostLayer layer = {};
        const AttentionShape &a = c.attention;
        layer.attn_norm = vector(name + ".attn_norm.weight", c.dim);
        layer.qkv = linear({name + ".attn.qkv"}, c.dim, a.width(), false);
        layer.o = linear({name + ".attn.o"}, a.heads * a.head_dim, c.dim, false);
        layer.attn_scale = scale(name + ".attn_scale", c.dim);
        layer.ffn_norm = vector(name + ".ffn_norm.weight", c.dim);
        layer.gate_up = linear({name + ".ffn.gate", name + ".ffn.up"}, c.dim, c.post_ffn, false);
        layer.down = linear({name + ".ffn.down"}, c.post_ffn, c.dim, false);
        layer.ffn_scale = scale(name + ".ffn_scale", c.dim);
        layer.history = state.add(a.kv_width(), a.left());
        return layer;
    }

    UpsampleStage upsample_stage(const std::string &name, const CodecConfig &c, int64_t stride) {
        UpsampleStage stage = {};
        stage.stride = stride;
        stage.conv = transposed(name + ".conv", c.dim, c.dim, stride, stride);
        stage.depthwise = depthwise(name + ".dw", c.dim, c.upsample_kernel);
        stage.norm_weight = vector(name + ".norm.weight", c.dim);
        stage.norm_bias = vector(name + ".norm.bias", c.dim);
        stage.pw1 = linear({name + ".pw1"}, c.dim, c.upsample_ffn, true);
        stage.pw2 = linear({name + ".pw2"}, c.upsample_ffn, c.dim, true);
        stage.scale = scale(name + ".scale", c.dim);
        return stage;
    }

    DecoderBlock block(const std::string &name, const CodecConfig &c, size_t index) {
        DecoderBlock block = {};
        const int64_t in = c.channels[index], out = c.channels[index + 1];
        block.stride = c.strides[index];
        block.snake = snake(name + ".snake", in);
        block.up = transposed(name + ".up", in, out, 2 * block.stride, block.stride);
        for (size_t r = 0; r < c.dilations.size(); r++) {
            const std::string unit = name + ".res." + std::to_string(r);
            ResidualUnit u;
            u.snake1 = snake(unit + ".snake1", out);
            u.conv1 = conv(unit + ".conv1", out, out, c.kernel, c.dilations[r]);
            u.snake2 = snake(unit + ".snake2", out);
            u.conv2 = conv(unit + ".conv2", out, out, 1, 1);
            block.units.push_back(std::move(u));
        }
        return block;
    }
};

} // namespace

void CodecWeights::load(ModelFile &file, const CodecConfig &config, ggml_backend_t backend, uint32_t plain_ops,
                        CodecState &state) {
    Loader loader = {file, *this, state, (plain_ops & KS_PLAIN_CONV) != 0, (plain_ops & KS_PLAIN_SNAKE) != 0};
    for (int64_t n = 0; n < config.post_layers; n++)
        post.push_back(loader.post_layer("codec.post." + std::to_string(n), config));
    post_norm = loader.vector("codec.post.norm.weight", config.dim);
    for (size_t u = 0; u < config.upsample_strides.size(); u++)
        upsample.push_back(loader.upsample_stage("codec.up." + std::to_string(u), config, config.upsample_strides[u]));
    stem = loader.conv("codec.dec.stem", config.dim, config.channels.front(), config.kernel, 1);
    for (size_t b = 0; b < config.strides.size(); b++)
        blocks.push_back(loader.block("codec.dec." + std::to_string(b), config, b));
    tail_snake = loader.snake("codec.dec.tail.snake", config.channels.back());
    tail = loader.conv("codec.dec.tail", config.channels.back(), 1, config.kernel, 1);
    tensors.upload(backend);
    packed_bytes += tensors.bytes();
}

} // namespace ks
