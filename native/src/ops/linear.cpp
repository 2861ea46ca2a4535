#include "ops/linear.h"
#include "ops/dot.h"
#include <algorithm>

namespace ks {

namespace {

struct BlockQ8 { // ggml's q8_0: 32 weights = d * qs
    ggml_fp16_t d;
    int8_t qs[32];
};
static_assert(sizeof(BlockQ8) == 34, "q8_0 block layout");

// Each row type adds its products to one Vec accumulator a column, in ascending order of the input index.
struct RowF32 {
    const float *w;
    float at(int64_t i) const { return w[i]; }
    Vec load(int64_t i) const { return load_f32(w + i); }
};
struct RowF16 {
    const ggml_fp16_t *w;
    float at(int64_t i) const { return ggml_fp16_to_fp32(w[i]); }
    Vec load(int64_t i) const { return simd::load(w + i); }
};
struct RowBF16 {
    const ggml_bf16_t *w;
    float at(int64_t i) const { return ggml_bf16_to_fp32(w[i]); }
    Vec load(int64_t i) const { return load_bf16(w + i); }
};

// Sums of one row and column run over PARTS accumulators in turn, which hides the latency of a fused multiply-add;
// their number is fixed, so a sum has the same order in every tile. One row at a time: several rows side by side were
// three times slower, because their interleaved reads defeat the hardware's prefetching.
constexpr int PARTS = LANES == 16 ? 4 : 2;

// y[c * n_out] for one row and COLS columns of x.
template <class Row, int COLS> void tile(const char *w, const float *x, int64_t n_in, float *y, int64_t n_out) {
    const Row row = {reinterpret_cast<decltype(Row::w)>(w)};
    Vec acc[COLS][PARTS] = {};
    int64_t i = 0;
    for (; i + PARTS * LANES <= n_in; i += PARTS * LANES)
        for (int p = 0; p < PARTS; p++) {
            const Vec wv = row.load(i + p * LANES);
            for (int c = 0; c < COLS; c++) acc[c][p] += wv * load_f32(x + c * n_in + i + p * LANES);
        }
    for (int p = 0; i + LANES <= n_in; i += LANES, p++) {
        const Vec wv = row.load(i);
        for (int c = 0; c < COLS; c++) acc[c][p] += wv * load_f32(x + c * n_in + i);
    }
    for (int c = 0; c < COLS; c++) {
        Vec total = acc[c][0];
        for (int p = 1; p < PARTS; p++) total += acc[c][p];
        float sum = sum_lanes(total);
        for (int64_t t = i; t < n_in; t++) sum += row.at(t) * x[c * n_in + t];
        y[c * n_out] = sum;
    }
}

// A block's products are summed as q x before its scale d is applied once: d (q x) instead of (d q) x.
template <int COLS> void tile_q8(const char *w, const float *x, int64_t n_in, float *y, int64_t n_out) {
    const BlockQ8 *blocks = reinterpret_cast<const BlockQ8 *>(w);
    Vec acc[COLS] = {};
    for (int64_t b = 0; b < n_in / 32; b++) {
        const Vec d = splat(half_to_float(blocks[b].d));
        Vec part[COLS] = {};
        for (int j = 0; j < 32; j += LANES) {
            const Vec q = load_i8(blocks[b].qs + j);
            for (int c = 0; c < COLS; c++) part[c] += q * load_f32(x + c * n_in + b * 32 + j);
        }
        for (int c = 0; c < COLS; c++) acc[c] += d * part[c];
    }
    for (int c = 0; c < COLS; c++) y[c * n_out] = sum_lanes(acc[c]);
}

typedef void (*Tile)(const char *, const float *, int64_t, float *, int64_t);

template <int COLS> Tile tile_for(ggml_type type) {
    switch (type) {
    case GGML_TYPE_F16:
        return tile<RowF16, COLS>;
    case GGML_TYPE_BF16:
        return tile<RowBF16, COLS>;
    case GGML_TYPE_Q8_0:
        return tile_q8<COLS>;
    default:
        return tile<RowF32, COLS>;
    }
}

// Rows [first, last) for `columns` columns, COLS at a time.
template <int COLS>
void rows_for(const ggml_tensor *w, const float *x, float *y, int64_t columns, int64_t first, int64_t last) {
    const Tile run = tile_for<COLS>(w->type);
    const int64_t n_in = w->ne[0], n_out = w->ne[1];
    for (int64_t r = first; r < last; r++)
        for (int64_t c = 0; c + COLS <= columns; c += COLS)
            run(static_cast<const char *>(w->data) + r * w->nb[1], x + c * n_in, n_in, y + c * n_out + r, n_out);
}

void run_linear(ggml_tensor *dst, int ith, int nth, void *) {
    const ggml_tensor *x = dst->src[0], *w = dst->src[1];
    const int64_t n_out = w->ne[1], columns = x->ne[1];
    const int64_t blocks = (n_out + 7) / 8;
    const int64_t first = std::min(n_out, blocks * ith / nth * 8), last = std::min(n_out, blocks * (ith + 1) / nth * 8);
    const float *in = static_cast<const float *>(x->data);
    float *out = static_cast<float *>(dst->data);
    int64_t done = columns / 4 * 4;
    if (done) rows_for<4>(w, in, out, done, first, last);
    in += done * w->ne[0];
    out += done * n_out;
    switch (columns - done) {
    case 1:
        rows_for<1>(w, in, out, 1, first, last);
        break;
    case 2:
        rows_for<2>(w, in, out, 2, first, last);
        break;
    case 3:
        rows_for<3>(w, in, out, 3, first, last);
        break;
    default:
        break;
    }
}

} // namespace

ggml_tensor *linear(Graph &graph, ggml_tensor *w, ggml_tensor *x, bool plain) {
    if (plain) return ggml_mul_mat(graph.ctx(), w, x);
    ggml_tensor *args[] = {x, w};
    return graph.custom(run_linear, nullptr, w->ne[1], x->ne[1], args, 2, 2 * ggml_nelements(w) * x->ne[1]);
}

} // namespace ks
