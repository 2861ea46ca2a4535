#include "ops/mamba.h"
#include "ops/dot.h"
#include <algorithm>
#include <cmath>

namespace ks {

namespace {

struct MambaOp {
    MambaDims dims;
    float multiplier[5];
    int tokens_each;
};

float silu(float x) {
    return x / (1.0f + std::exp(-x));
}
float softplus(float x) {
    return x > 20.0f ? x : std::log1p(std::exp(x));
}

const float *f32(const ggml_tensor *t) {
    return static_cast<const float *>(t->data);
}

// src: projected, conv_state, slot, conv_weight, conv_bias -> SiLU(conv(x | B | C)), [channels, columns].
// A thread owns a range of channels and with it their part of every state, so reads and writes never race.
void run_conv(ggml_tensor *dst, int ith, int nth, void *user) {
    const MambaOp &op = *static_cast<const MambaOp *>(user);
    const MambaDims &m = op.dims;
    const int channels = m.channels(), past = m.conv - 1;
    const int first = channels * ith / nth, last = channels * (ith + 1) / nth;
    const int32_t *slots = static_cast<const int32_t *>(dst->src[2]->data);
    const float *weight = f32(dst->src[3]), *bias = f32(dst->src[4]);
    const int n_sequences = int(dst->src[2]->ne[0]);
    const int x_end = m.inner, b_end = m.inner + m.groups * m.state;
    for (int s = 0; s < n_sequences; s++) {
        float *state = static_cast<float *>(dst->src[1]->data) + slots[s] * m.conv_state(); // [channels][past]
        for (int t = 0; t < op.tokens_each; t++) {
            const int64_t column = int64_t(s) * op.tokens_each + t;
            const float *in = f32(dst->src[0]) + column * m.projected() + m.inner; // skip z
            float *out = static_cast<float *>(dst->data) + column * channels;
            for (int c = first; c < last; c++) {
                const float mult = op.multiplier[c < x_end ? 1 : c < b_end ? 2 : 3];
                const float newest = in[c] * mult;
                float *window = state + int64_t(c) * past;
                const float *w = weight + int64_t(c) * m.conv;
                float sum = bias[c];
                for (int k = 0; k < past; k++) sum += w[k] * window[k];
                sum += w[past] * newest;
                for (int k = 0; k + 1 < past; k++) window[k] = window[k + 1];
                if (past > 0) window[past - 1] = newest;
                out[c] = silu(sum);
            }
        }
    }
}

// src: projected, conv output, ssm_state, slot, dt_bias, a, d -> [inner, columns]. A thread owns a range of heads.
void run_scan(ggml_tensor *dst, int ith, int nth, void *user) {
    const MambaOp &op = *static_cast<const MambaOp *>(user);
    const MambaDims &m = op.dims;
    const int first = m.heads * ith / nth, last = m.heads * (ith + 1) / nth;
    const int32_t *slots = static_cast<const int32_t *>(dst->src[3]->data);
    const float *dt_bias = f32(dst->src[4]), *a = f32(dst->src[5]), *d = f32(dst->src[6]);
    const int n_sequences = int(dst->src[3]->ne[0]), channels = m.channels();
    const int vectors = m.state / LANES * LANES;
    for (int s = 0; s < n_sequences; s++) {
        float *states = static_cast<float *>(dst->src[2]->data) + slots[s] * m.ssm_state();
        for (int t = 0; t < op.tokens_each; t++) {
            const int64_t column = int64_t(s) * op.tokens_each + t;
            const float *z = f32(dst->src[0]) + column * m.projected();
            const float *dt_in = z + m.inner + channels;
            const float *x = f32(dst->src[1]) + column * channels;
            float *out = static_cast<float *>(dst->data) + column * m.inner;
            for (int h = first; h < last; h++) {
                const int group = h / (m.heads / m.groups);
                const float *b = x + m.inner + group * m.state;
                const float *c = b + m.groups * m.state;
                const float dt = softplus(dt_in[h] * op.multiplier[4] + dt_bias[h]);
                const float decay = std::exp(dt * a[h]);
                for (int p = 0; p < m.head_dim; p++) {
                    float *row = states + (int64_t(h) * m.head_dim + p) * m.state; // [state]
                    const int i = h * m.head_dim + p;
                    const float input = dt * x[i];
                    Vec acc = {};
                    for (int n = 0; n < vectors; n += LANES) {
                        const Vec next = load_f32(row + n) * splat(decay) + splat(input) * load_f32(b + n);
                        store_f32(row + n, next);
                        acc += next * load_f32(c + n);
                    }
                    float y = sum_lanes(acc);
                    for (int n = vectors; n < m.state; n++) {
                        row[n] = row[n] * decay + input * b[n];
                        y += row[n] * c[n];
                    }
                    out[i] = (y + d[h] * x[i]) * silu(z[i] * op.multiplier[0]);
                }
            }
        }
    }
}

ggml_tensor *scaled(ggml_context *ctx, ggml_tensor *t, float by) {
    return by == 1.0f ? t : ggml_scale(ctx, t, by);
}

// One sequence with stock operations; everything is a view of this sequence's columns and of its slot's state.
ggml_tensor *plain_sequence(Graph &graph, const MambaDims &m, const MambaWeights &w, ggml_tensor *projected,
                            ggml_tensor *conv_state, ggml_tensor *ssm_state, int sequence, int tokens, int slot,
                            ggml_tensor *zero) {
    ggml_context *ctx = graph.ctx();
    const size_t f = sizeof(float);
    const int channels = m.channels(), past = m.conv - 1;
    const size_t column0 = size_t(sequence) * tokens * projected->nb[1];
    auto segment = [&](int64_t first, int64_t rows, float by) {
        ggml_tensor *v = ggml_view_2d(ctx, projected, rows, tokens, projected->nb[1], column0 + first * f);
        return scaled(ctx, ggml_cont(ctx, v), by);
    };
    const int bc = m.groups * m.state;
    ggml_tensor *z = segment(0, m.inner, w.multiplier[0]);
    ggml_tensor *xbc = ggml_concat(
        ctx, ggml_concat(ctx, segment(m.inner, m.inner, w.multiplier[1]), segment(2 * m.inner, bc, w.multiplier[2]), 0),
        segment(2 * m.inner + bc, bc, w.multiplier[3]), 0); // [channels, tokens]
    ggml_tensor *dt = segment(m.inner + channels, m.heads, w.multiplier[4]);

    ggml_tensor *home = ggml_view_2d(ctx, conv_state, past, channels, past * f, size_t(slot) * conv_state->nb[1]);
    ggml_tensor *window =
        ggml_concat(ctx, home, ggml_cont(ctx, ggml_transpose(ctx, xbc)), 0); // [past + tokens, channels]
    graph.add(ggml_cpy(ctx, ggml_view_2d(ctx, window, past, channels, window->nb[1], size_t(tokens) * f), home));
    ggml_tensor *window3 = ggml_reshape_3d(ctx, window, past + tokens, channels, 1);
    ggml_tensor *conv = ggml_silu(ctx, ggml_add(ctx, ggml_ssm_conv(ctx, window3, w.conv_weight), w.conv_bias));

    auto part = [&](int64_t first, int64_t ne0, int64_t ne1) {
        return ggml_view_4d(ctx, conv, ne0, ne1, tokens, 1, ne0 * f, conv->nb[1], conv->nb[2], first * f);
    };
    ggml_tensor *x = part(0, m.head_dim, m.heads), *b = part(m.inner, m.state, m.groups),
                *c = part(m.inner + bc, m.state, m.groups);
    ggml_tensor *state =
        ggml_view_4d(ctx, ssm_state, m.state, m.head_dim, m.heads, 1, m.state * f, size_t(m.state) * m.head_dim * f,
                     m.ssm_state() * f, size_t(slot) * ssm_state->nb[1]);
    dt = ggml_reshape_3d(ctx, ggml_add(ctx, dt, w.dt_bias), m.heads, tokens, 1);
    ggml_tensor *scan = ggml_ssm_scan(ctx, state, x, dt, w.a, b, c, zero, 1); // y, then the final state
    const int64_t n_y = int64_t(m.inner) * tokens;
    graph.add(ggml_cpy(ctx, ggml_view_1d(ctx, scan, m.ssm_state(), n_y * f),
                       ggml_view_1d(ctx, ssm_state, m.ssm_state(), size_t(slot) * ssm_state->nb[1])));
    ggml_tensor *y = ggml_view_3d(ctx, scan, m.head_dim, m.heads, tokens, m.head_dim * f, m.inner * f, 0);
    ggml_tensor *x3 = ggml_view_3d(ctx, conv, m.head_dim, m.heads, tokens, m.head_dim * f, conv->nb[1], 0);
    ggml_tensor *skip = ggml_mul(ctx, ggml_cont(ctx, x3), ggml_reshape_2d(ctx, w.d, 1, m.heads));
    ggml_tensor *sum = ggml_reshape_2d(ctx, ggml_add(ctx, y, skip), m.inner, tokens);
    return ggml_mul(ctx, sum, ggml_silu(ctx, z));
}

} // namespace

ggml_tensor *mamba_mix(Graph &graph, const MambaDims &dims, const MambaWeights &weights, ggml_tensor *projected,
                       ggml_tensor *conv_state, ggml_tensor *ssm_state, const Columns &columns, bool plain) {
    ggml_context *ctx = graph.ctx();
    if (plain) {
        ggml_tensor *all = nullptr;
        for (int s = 0; s < columns.n_sequences; s++) {
            ggml_tensor *one = plain_sequence(graph, dims, weights, projected, conv_state, ssm_state, s,
                                              columns.tokens_each, columns.slots[s], columns.zero);
            all = all ? ggml_concat(ctx, all, one, 1) : one;
        }
        return all;
    }
    MambaOp op = {dims, {}, columns.tokens_each};
    std::copy(weights.multiplier, weights.multiplier + 5, op.multiplier);
    MambaOp *user = graph.keep(op);
    ggml_tensor *conv_args[] = {projected, conv_state, columns.slot, weights.conv_weight, weights.conv_bias};
    const int64_t n = columns.count();
    ggml_tensor *conv = graph.custom(run_conv, user, dims.channels(), n, conv_args, 5, 20 * dims.channels() * n);
    ggml_tensor *scan_args[] = {projected, conv, ssm_state, columns.slot, weights.dt_bias, weights.a, weights.d};
    return graph.custom(run_scan, user, dims.inner, n, scan_args, 7, 6 * dims.ssm_state() * n);
}

} // namespace ks
