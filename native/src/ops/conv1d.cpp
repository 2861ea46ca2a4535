#include "conv1d.h"
#include "error.h"
#include "history.h"
#include "model_file.h"
#include "simd.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace ks {

namespace {

using simd::lanes;
using simd::Vector;

constexpr int64_t block_steps = 1024;  // multiply-add steps between stores: one block of a panel stays in the L2 cache
constexpr int64_t tile_floats = 32768; // input of one time tile: 128 kB
constexpr int64_t narrow_vectors = 4;  // time vectors the narrow kernel advances together

// One register tile: `M` frames x `V` vectors of output channels over steps [begin, end) of the kernel * in chain.
// x: [in][stride], time-fast, first frame of the tile at the oldest tap. init: bias (init_stride 0) or earlier partial
// sums; an f32 store and load between blocks changes no bit.
struct TileArgs {
    float *y;
    int64_t y_stride;
    const float *x;
    int64_t x_stride;
    const float *init;
    int64_t init_stride;
    int64_t in, dilation, begin, end;
};

template <int M, int V, class W> void tile(const TileArgs &a, const W *w) {
    Vector acc[M][V];
    for (int m = 0; m < M; m++)
        for (int v = 0; v < V; v++) acc[m][v] = simd::load(a.init + m * a.init_stride + v * lanes);
    const int64_t x_stride = a.x_stride;
    w += a.begin * V * lanes;
    for (int64_t step = a.begin; step < a.end;) {
        const int64_t tap = step / a.in, first = step % a.in;
        const int64_t n = std::min(a.in - first, a.end - step);
        const float *x = a.x + first * x_stride + tap * a.dilation;
        for (int64_t i = 0; i < n; i++) {
            Vector weights[V];
            for (int v = 0; v < V; v++) weights[v] = simd::load(w + v * lanes);
#pragma GCC unroll 16
            for (int m = 0; m < M; m++)
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) acc[m][v] += x[m] * weights[v];
            w += V * lanes;
            x += x_stride;
        }
        step += n;
    }
    for (int m = 0; m < M; m++)
        for (int v = 0; v < V; v++) simd::store(a.y + m * a.y_stride + v * lanes, acc[m][v]);
}

template <class W> using Tile = void (*)(const TileArgs &, const W *);

template <class W, int V, size_t... M> constexpr std::array<Tile<W>, simd::rows> tile_row(std::index_sequence<M...>) {
    return {tile<int(M) + 1, V, W>...};
}

template <class W, size_t... V>
constexpr std::array<std::array<Tile<W>, simd::rows>, simd::vectors> tile_table(std::index_sequence<V...>) {
    return {tile_row<W, int(V) + 1>(std::make_index_sequence<simd::rows>{})...};
}

// tiles<W>[vectors - 1][frames - 1]
template <class W> constexpr auto tiles = tile_table<W>(std::make_index_sequence<simd::vectors>{});

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

#if defined(__clang__)
#define KS_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int FourInts __attribute__((vector_size(16)));
#define KS_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, FourInts{i, j, k, l})
#endif

// Rows of `n` channels to a time-fast tile: out[c * stride + r] = rows[r][c], r < 4.
void transpose_four(float *out, int64_t stride, const float *const rows[4], int64_t n) {
    int64_t c = 0;
    for (; c + 4 <= n; c += 4) {
        const Four a = *reinterpret_cast<const Four *>(rows[0] + c), b = *reinterpret_cast<const Four *>(rows[1] + c);
        const Four d = *reinterpret_cast<const Four *>(rows[2] + c), e = *reinterpret_cast<const Four *>(rows[3] + c);
        const Four ab_low = KS_SHUFFLE(a, b, 0, 4, 1, 5), ab_high = KS_SHUFFLE(a, b, 2, 6, 3, 7);
        const Four de_low = KS_SHUFFLE(d, e, 0, 4, 1, 5), de_high = KS_SHUFFLE(d, e, 2, 6, 3, 7);
        float *o = out + c * stride;
        *reinterpret_cast<Four *>(o) = KS_SHUFFLE(ab_low, de_low, 0, 1, 4, 5);
        *reinterpret_cast<Four *>(o + stride) = KS_SHUFFLE(ab_low, de_low, 2, 3, 6, 7);
        *reinterpret_cast<Four *>(o + 2 * stride) = KS_SHUFFLE(ab_high, de_high, 0, 1, 4, 5);
        *reinterpret_cast<Four *>(o + 3 * stride) = KS_SHUFFLE(ab_high, de_high, 2, 3, 6, 7);
    }
    for (; c < n; c++)
        for (int r = 0; r < 4; r++) out[c * stride + r] = rows[r][c];
}

// Input columns [begin, begin + n) as a time-fast tile [in][stride]; columns below 0 come from the history of `left`
// columns (null: zeros). Columns up to the stride are zeroed: the narrow kernel reads whole vectors.
void pack_input(float *out, int64_t stride, const float *x, const float *history, int64_t left, int64_t in,
                int64_t begin, int64_t n, int64_t frames, const float *zeros) {
    const int64_t padded = std::min(stride, (n + 3) / 4 * 4);
    for (int64_t r = 0; r < padded; r += 4) {
        const float *rows[4];
        for (int64_t j = 0; j < 4; j++) {
            const int64_t t = begin + r + j;
            if (r + j >= n || t >= frames || (t < 0 && !history))
                rows[j] = zeros;
            else
                rows[j] = t < 0 ? history + (left + t) * in : x + t * in;
        }
        transpose_four(out + r, stride, rows, in);
    }
}

int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

} // namespace

ConvTaps taps_of_conv(const ggml_tensor *weight, const ggml_tensor *bias, int64_t dilation) {
    ConvTaps taps;
    const int64_t kernel = weight->ne[0], in = weight->ne[1], out = weight->ne[2];
    taps.shape = {in, out, kernel, dilation};
    taps.half = weight->type == GGML_TYPE_F16;
    const std::vector<float> w = to_f32(weight);
    taps.weights.resize(w.size());
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t k = 0; k < kernel; k++)
                taps.weights[size_t((k * out + o) * in + i)] = w[size_t((o * in + i) * kernel + k)];
    if (bias) taps.bias = to_f32(bias);
    return taps;
}

ConvTaps taps_of_conv_transpose(const ggml_tensor *weight, const ggml_tensor *bias, int64_t stride) {
    ConvTaps taps;
    const int64_t kernel = weight->ne[0], out = weight->ne[1], in = weight->ne[2];
    const int64_t n_taps = kernel / stride, wide = stride * out;
    taps.shape = {in, wide, n_taps, 1};
    taps.half = weight->type == GGML_TYPE_F16;
    const std::vector<float> w = to_f32(weight);
    taps.weights.resize(w.size());
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t k = 0; k < kernel; k++) {
                const int64_t phase = k % stride, tap = n_taps - 1 - k / stride; // oldest input frame first
                taps.weights[size_t((tap * wide + phase * out + o) * in + i)] = w[size_t((i * out + o) * kernel + k)];
            }
    if (bias) {
        const std::vector<float> b = to_f32(bias);
        for (int64_t phase = 0; phase < stride; phase++) taps.bias.insert(taps.bias.end(), b.begin(), b.end());
    }
    return taps;
}

ConvTaps taps_of_linear(const std::vector<const ggml_tensor *> &weights, const ggml_tensor *bias) {
    ConvTaps taps;
    taps.shape = {weights.front()->ne[0], 0, 1, 1};
    taps.half = true;
    for (const ggml_tensor *weight : weights) {
        const std::vector<float> w = to_f32(weight);
        taps.weights.insert(taps.weights.end(), w.begin(), w.end());
        taps.shape.out += weight->ne[1];
        // q8_0 to f16: the rounding is 16 times below that of q8_0 itself
        taps.half = taps.half && (weight->type == GGML_TYPE_F16 || weight->type == GGML_TYPE_Q8_0);
    }
    if (bias) taps.bias = to_f32(bias);
    return taps;
}

PackedConv::PackedConv(const ConvTaps &taps) : shape_(taps.shape) {
    const int64_t in = shape_.in, out = shape_.out, kernel = shape_.kernel;
    const int64_t padded = round_up(out, lanes);
    bias_.assign(size_t(padded), 0.0f);
    std::copy(taps.bias.begin(), taps.bias.end(), bias_.begin());
    if (narrow()) {
        full_.resize(size_t(out * kernel * in));
        for (int64_t o = 0; o < out; o++)
            for (int64_t k = 0; k < kernel; k++)
                std::copy_n(&taps.weights[size_t((k * out + o) * in)], in, &full_[size_t((o * kernel + k) * in)]);
        return;
    }
    panels_ = (padded + simd::panel - 1) / simd::panel;
    std::vector<float> packed(size_t(padded * kernel * in), 0.0f);
    for (int64_t panel = 0; panel < panels_; panel++) {
        const int64_t first = panel * simd::panel, width = std::min<int64_t>(simd::panel, padded - first);
        float *to = packed.data() + first * kernel * in;
        for (int64_t k = 0; k < kernel; k++)
            for (int64_t j = 0; j < width && first + j < out; j++) {
                const float *from = &taps.weights[size_t((k * out + first + j) * in)];
                for (int64_t i = 0; i < in; i++) to[(k * in + i) * width + j] = from[i];
            }
    }
    if (!taps.half || !simd::fast_half) {
        full_ = std::move(packed);
        return;
    }
    half_.resize(packed.size());
    ggml_fp32_to_fp16_row(packed.data(), half_.data(), int64_t(packed.size()));
    for (size_t i = 0; i < half_.size(); i++)
        if ((half_[i] & 0x7c00) == 0x7c00) throw Error(KS_ERROR_MODEL, "a codec weight is beyond the range of f16");
}

// Frames of one time tile: what fits the cache, but at least two register tiles.
int64_t PackedConv::tile_frames(int64_t frames) const {
    const int64_t fitting = (tile_floats / shape_.in - shape_.left()) / simd::rows * simd::rows;
    const int64_t unit = narrow() ? narrow_vectors * lanes : simd::rows;
    return std::min(std::max<int64_t>(fitting, 2 * unit), frames);
}

// An odd number of cache lines, so that consecutive channels fall into different cache sets.
int64_t PackedConv::tile_stride(int64_t tile) const {
    const int64_t n = tile + shape_.left() + (narrow() ? narrow_vectors * lanes : 0);
    return ((n + 15) / 16 | 1) * 16;
}

size_t PackedConv::scratch_floats(int64_t frames) const {
    const int64_t tile = tile_frames(frames);
    return size_t(shape_.in * (tile_stride(tile) + 1) + tile * simd::panel + 64);
}

template <class W>
void PackedConv::run_panel(const W *weights, int64_t panel, float *y, const float *packed_x, int64_t stride,
                           int64_t frames, float *tail) const {
    const int64_t first = panel * simd::panel, steps = shape_.kernel * shape_.in;
    const int64_t width = std::min<int64_t>(simd::panel, int64_t(bias_.size()) - first);
    const bool cut = first + width > shape_.out; // the last vector reaches beyond the output row
    const auto &table = tiles<W>[size_t(width / lanes - 1)];
    TileArgs args = {};
    args.x_stride = stride;
    args.in = shape_.in;
    args.dilation = shape_.dilation;
    args.y_stride = cut ? width : shape_.out;
    float *out = cut ? tail : y + first;
    for (args.begin = 0; args.begin < steps; args.begin = args.end) {
        args.end = std::min(steps, args.begin + block_steps);
        for (int64_t t = 0; t < frames; t += simd::rows) {
            args.x = packed_x + t;
            args.y = out + t * args.y_stride;
            args.init = args.begin == 0 ? bias_.data() + first : args.y;
            args.init_stride = args.begin == 0 ? 0 : args.y_stride;
            table[size_t(std::min<int64_t>(simd::rows, frames - t) - 1)](args, weights + first * steps);
        }
    }
    if (cut)
        for (int64_t t = 0; t < frames; t++)
            std::copy_n(tail + t * width, shape_.out - first, y + t * shape_.out + first);
}

void PackedConv::run_narrow(float *y, const float *packed_x, int64_t stride, int64_t frames) const {
    const int64_t in = shape_.in, kernel = shape_.kernel;
    for (int64_t o = 0; o < shape_.out; o++)
        for (int64_t t = 0; t < frames; t += narrow_vectors * lanes) {
            Vector acc[narrow_vectors];
            for (int v = 0; v < narrow_vectors; v++) acc[v] = Vector{} + bias_[size_t(o)];
            const float *w = full_.data() + o * kernel * in;
            for (int64_t k = 0; k < kernel; k++) {
                const float *x = packed_x + t + k * shape_.dilation;
                for (int64_t i = 0; i < in; i++, x += stride, w++)
                    for (int v = 0; v < narrow_vectors; v++) acc[v] += *w * simd::load(x + v * lanes);
            }
            float out[narrow_vectors * lanes];
            for (int v = 0; v < narrow_vectors; v++) simd::store(out + v * lanes, acc[v]);
            for (int64_t j = 0; j < std::min<int64_t>(narrow_vectors * lanes, frames - t); j++)
                y[(t + j) * shape_.out + o] = out[j];
        }
}

void PackedConv::run(float *y, const float *x, const float *history, int64_t frames, const float *scale,
                     const float *residual, int ith, int nth, float *scratch) const {
    const int64_t tile = tile_frames(frames), n_tiles = (frames + tile - 1) / tile;
    const int64_t stride = tile_stride(tile), left = shape_.left(), out = shape_.out;
    float *packed_x = scratch, *zeros = packed_x + shape_.in * stride, *tail = zeros + round_up(shape_.in, 16);
    std::fill_n(zeros, shape_.in, 0.0f);
    // Units are (time tile, panel), tile-major: few frames with many channels keep all threads busy too.
    const int64_t units = n_tiles * panels_;
    int64_t packed_tile = -1;
    for (int64_t unit = units * ith / nth; unit < units * (ith + 1) / nth; unit++) {
        const int64_t which = unit / panels_, panel = unit % panels_, begin = which * tile;
        const int64_t n = std::min(tile, frames - begin);
        if (which != packed_tile) {
            const int64_t columns = n + left + (narrow() ? narrow_vectors * lanes : 0);
            pack_input(packed_x, stride, x, history, left, shape_.in, begin - left, columns, begin + n, zeros);
            packed_tile = which;
        }
        float *to = y + begin * out;
        int64_t first = 0, width = out;
        if (narrow()) {
            run_narrow(to, packed_x, stride, n);
        } else {
            first = panel * simd::panel;
            width = std::min<int64_t>(simd::panel, out - first);
            if (half_.empty())
                run_panel(full_.data(), panel, to, packed_x, stride, n, tail);
            else
                run_panel(half_.data(), panel, to, packed_x, stride, n, tail);
        }
        if (!scale && !residual) continue;
        for (int64_t t = 0; t < n; t++) {
            float *row = to + t * out + first;
            const float *add = residual ? residual + (begin + t) * out + first : nullptr;
            if (scale && add)
                for (int64_t c = 0; c < width; c++) row[c] = add[c] + scale[first + c] * row[c];
            else if (add)
                for (int64_t c = 0; c < width; c++) row[c] += add[c];
            else
                for (int64_t c = 0; c < width; c++) row[c] *= scale[first + c];
        }
    }
}

namespace {

struct ConvNode {
    const PackedConv *packed;
    Scratch *scratch;
    const float *scale;
    int history, residual; // index of the source, -1 = none
};

void run_node(ggml_tensor *dst, int ith, int nth, void *userdata) {
    const auto *node = static_cast<const ConvNode *>(userdata);
    const auto source = [&](int i) { return i < 0 ? nullptr : static_cast<const float *>(dst->src[i]->data); };
    node->packed->run(static_cast<float *>(dst->data), source(0), source(node->history), dst->ne[1], node->scale,
                      source(node->residual), ith, nth, node->scratch->of(ThreadPool::worker()));
}

} // namespace

ggml_tensor *conv1d(Graph &graph, const PackedConv &packed, Scratch &scratch, ggml_tensor *x, ggml_tensor *history,
                    const ConvEpilogue &epilogue) {
    const ConvShape &shape = packed.shape();
    GGML_ASSERT(x->ne[0] == shape.in && ggml_is_contiguous(x));
    GGML_ASSERT(!history || (history->ne[0] == shape.in && history->ne[1] == shape.left()));
    ConvNode node = {&packed, &scratch, epilogue.scale, -1, -1};
    ggml_tensor *args[3] = {x};
    int n_args = 1;
    if (history) args[node.history = n_args++] = history;
    if (epilogue.residual) args[node.residual = n_args++] = epilogue.residual;
    scratch.reserve(packed.scratch_floats(x->ne[1]));
    const int64_t flops = 2 * shape.kernel * shape.in * shape.out * x->ne[1];
    ggml_tensor *y = graph.custom(run_node, graph.keep(node), shape.out, x->ne[1], args, n_args, flops);
    graph.add(y);
    if (history) history_push(graph, history, x);
    return y;
}

ggml_tensor *conv1d_plain(Graph &graph, const ConvShape &shape, ggml_tensor *taps, ggml_tensor *bias, ggml_tensor *x,
                          ggml_tensor *history, const ConvEpilogue &epilogue) {
    GGML_ASSERT(history || shape.left() == 0);
    ggml_context *ctx = graph.ctx();
    const int64_t frames = x->ne[1];
    ggml_tensor *all = history ? history_concat_plain(graph, history, x) : x; // [in, left + frames]
    ggml_tensor *y = nullptr;
    for (int64_t k = 0; k < shape.kernel; k++) {
        ggml_tensor *w = ggml_view_2d(ctx, taps, shape.in, shape.out, taps->nb[1], size_t(k) * taps->nb[2]);
        ggml_tensor *shifted =
            ggml_view_2d(ctx, all, shape.in, frames, all->nb[1], size_t(k * shape.dilation) * all->nb[1]);
        ggml_tensor *part = ggml_mul_mat(ctx, w, shifted); // [out, frames]
        y = y ? ggml_add(ctx, y, part) : part;
    }
    if (bias) y = ggml_add(ctx, y, bias);
    if (epilogue.scale_plain) y = ggml_mul(ctx, y, epilogue.scale_plain);
    if (epilogue.residual) y = ggml_add(ctx, epilogue.residual, y);
    graph.add(y);
    return y;
}

} // namespace ks
