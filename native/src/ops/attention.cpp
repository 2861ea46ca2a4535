#include "ops/attention.h"
#include "ops/dot.h"
#include "ops/rope.h"
#include <algorithm>
#include <cmath>

namespace ks {

std::vector<float> rope_table(int head_dim, int capacity, float base, bool bf16) {
    const int half = head_dim / 2;
    std::vector<float> table(size_t(head_dim) * capacity);
    for (int p = 0; p < capacity; p++)
        for (int i = 0; i < half; i++) {
            const auto [cosine, sine] = rope_entry(p, i, head_dim, base, bf16);
            table[size_t(p) * head_dim + i] = cosine;
            table[size_t(p) * head_dim + half + i] = sine;
        }
    return table;
}

namespace {

struct AttentionOp {
    AttentionDims dims;
    int tokens_each;
};

const float *f32(const ggml_tensor *t) {
    return static_cast<const float *>(t->data);
}

void rotate(float *out, const float *in, const float *row, int head_dim, Rotation rotation) {
    const int half = head_dim / 2;
    for (int i = 0; i < half; i++) {
        const int a = rotation == Rotation::half_split ? i : 2 * i;
        const int b = rotation == Rotation::half_split ? i + half : 2 * i + 1;
        const float x = in[a], y = in[b], c = row[i], s = row[half + i];
        out[a] = x * c - y * s;
        out[b] = y * c + x * s;
    }
}

// softmax(q k) v for one query over positions 0 ... last of one K/V head.
void attend_one(float *out, const float *q, const float *keys, const float *values, int64_t stride, int head_dim,
                int last, float *scores) {
    const float scale = 1.0f / std::sqrt(float(head_dim));
    float top = -INFINITY;
    for (int p = 0; p <= last; p++) {
        scores[p] = dot(q, keys + p * stride, head_dim) * scale;
        top = std::max(top, scores[p]);
    }
    float total = 0;
    for (int p = 0; p <= last; p++) total += scores[p] = std::exp(scores[p] - top);
    std::fill(out, out + head_dim, 0.0f);
    for (int p = 0; p <= last; p++) {
        const float weight = scores[p] / total;
        const float *v = values + p * stride;
        for (int i = 0; i < head_dim; i++) out[i] += weight * v[i];
    }
}

// src: q, k, v, keys, values, table, slot, position. A thread owns (sequence, K/V head) pairs: it alone writes and
// reads their part of the cache.
void run_attention(ggml_tensor *dst, int ith, int nth, void *user) {
    const AttentionOp &op = *static_cast<const AttentionOp *>(user);
    const AttentionDims &m = op.dims;
    const int n_sequences = int(dst->src[6]->ne[0]);
    const int32_t *slots = static_cast<const int32_t *>(dst->src[6]->data);
    const int32_t *positions = static_cast<const int32_t *>(dst->src[7]->data);
    const int group = m.heads / m.kv_heads;
    const int64_t stride = m.kv_size();
    std::vector<float> scores(size_t(m.capacity)), q(size_t(m.head_dim));
    for (int pair = ith; pair < n_sequences * m.kv_heads; pair += nth) {
        const int s = pair / m.kv_heads, kv = pair % m.kv_heads;
        const int64_t home = int64_t(slots[s]) * m.capacity * stride + int64_t(kv) * m.head_dim;
        float *keys = static_cast<float *>(dst->src[3]->data) + home;
        float *values = static_cast<float *>(dst->src[4]->data) + home;
        for (int t = 0; t < op.tokens_each; t++) {
            const int64_t column = int64_t(s) * op.tokens_each + t;
            const int p = positions[s] + t;
            const float *row = f32(dst->src[5]) + int64_t(p) * m.head_dim;
            rotate(keys + p * stride, f32(dst->src[1]) + column * stride + kv * m.head_dim, row, m.head_dim,
                   m.rotation);
            const float *v = f32(dst->src[2]) + column * stride + kv * m.head_dim;
            std::copy(v, v + m.head_dim, values + p * stride);
            for (int h = kv * group; h < (kv + 1) * group; h++) {
                const int64_t at = column * m.q_size() + int64_t(h) * m.head_dim;
                rotate(q.data(), f32(dst->src[0]) + at, row, m.head_dim, m.rotation);
                attend_one(static_cast<float *>(dst->data) + at, q.data(), keys, values, stride, m.head_dim, p,
                           scores.data());
            }
        }
    }
}

// x: [heads * head_dim, columns] rotated with stock operations; rows: [head_dim, columns] of the table.
ggml_tensor *plain_rotate(ggml_context *ctx, ggml_tensor *x, ggml_tensor *rows, int heads, int head_dim,
                          Rotation rotation) {
    const int64_t columns = x->ne[1];
    const int half = head_dim / 2;
    const size_t f = sizeof(float);
    if (rotation == Rotation::interleaved) { // bring the pairs side by side: [2, half, ...] -> [half, 2, ...]
        ggml_tensor *pairs = ggml_reshape_3d(ctx, ggml_cont(ctx, x), 2, half, heads * columns);
        x = ggml_reshape_2d(ctx, ggml_cont(ctx, ggml_permute(ctx, pairs, 1, 0, 2, 3)), x->ne[0], columns);
    }
    ggml_tensor *x3 = ggml_reshape_3d(ctx, ggml_cont(ctx, x), head_dim, heads, columns);
    auto part = [&](int which) {
        return ggml_cont(ctx, ggml_view_3d(ctx, x3, half, heads, columns, x3->nb[1], x3->nb[2], which * half * f));
    };
    auto table = [&](int which) {
        return ggml_reshape_3d(ctx,
                               ggml_cont(ctx, ggml_view_2d(ctx, rows, half, columns, rows->nb[1], which * half * f)),
                               half, 1, columns);
    };
    ggml_tensor *a = part(0), *b = part(1), *c = table(0), *s = table(1);
    ggml_tensor *first = ggml_sub(ctx, ggml_mul(ctx, a, c), ggml_mul(ctx, b, s));
    ggml_tensor *second = ggml_add(ctx, ggml_mul(ctx, b, c), ggml_mul(ctx, a, s));
    ggml_tensor *out = ggml_concat(ctx, first, second, 0); // [head_dim, heads, columns]
    if (rotation == Rotation::interleaved) {
        ggml_tensor *halves = ggml_reshape_3d(ctx, out, half, 2, heads * columns);
        out = ggml_cont(ctx, ggml_permute(ctx, halves, 1, 0, 2, 3));
    }
    return ggml_reshape_2d(ctx, out, int64_t(heads) * head_dim, columns);
}

ggml_tensor *plain_attend(Graph &graph, const AttentionDims &m, ggml_tensor *q, ggml_tensor *k, ggml_tensor *v,
                          ggml_tensor *keys, ggml_tensor *values, ggml_tensor *table, const Columns &columns) {
    ggml_context *ctx = graph.ctx();
    const size_t f = sizeof(float);
    ggml_tensor *rows = ggml_get_rows(ctx, table, columns.rope_row);
    q = plain_rotate(ctx, q, rows, m.heads, m.head_dim, m.rotation);
    k = plain_rotate(ctx, k, rows, m.kv_heads, m.head_dim, m.rotation);
    // The readers below are views of the set_rows results, so the writes come first.
    ggml_tensor *k_all = ggml_set_rows(ctx, keys, k, columns.kv_row);
    ggml_tensor *v_all = ggml_set_rows(ctx, values, ggml_cont(ctx, v), columns.kv_row);
    const int tokens = columns.tokens_each;
    ggml_tensor *all = nullptr;
    for (int s = 0; s < columns.n_sequences; s++) {
        const size_t home = size_t(columns.slots[s]) * m.capacity * m.kv_size() * f;
        auto prefix = [&](ggml_tensor *cache) { // [head_dim, bucket, kv_heads]
            return ggml_view_3d(ctx, cache, m.head_dim, columns.bucket, m.kv_heads, m.kv_size() * f, m.head_dim * f,
                                home);
        };
        ggml_tensor *q3 =
            ggml_view_3d(ctx, q, m.head_dim, m.heads, tokens, m.head_dim * f, q->nb[1], size_t(s) * tokens * q->nb[1]);
        q3 = ggml_cont(ctx, ggml_permute(ctx, q3, 0, 2, 1, 3));                     // [head_dim, tokens, heads]
        ggml_tensor *scores = ggml_mul_mat(ctx, ggml_cont(ctx, prefix(k_all)), q3); // [bucket, tokens, heads]
        ggml_tensor *mask = ggml_view_2d(ctx, columns.mask, columns.bucket, tokens, columns.mask->nb[1],
                                         size_t(s) * columns.mask->nb[2]);
        scores = ggml_soft_max_ext(ctx, scores, mask, 1.0f / std::sqrt(float(m.head_dim)), 0.0f);
        ggml_tensor *v3 = ggml_cont(ctx, ggml_permute(ctx, prefix(v_all), 1, 0, 2, 3)); // [bucket, head_dim, kv_heads]
        ggml_tensor *mixed = ggml_mul_mat(ctx, v3, scores);                             // [head_dim, tokens, heads]
        ggml_tensor *one = ggml_cont(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3));        // [head_dim, heads, tokens]
        one = ggml_reshape_2d(ctx, one, m.q_size(), tokens);
        all = all ? ggml_concat(ctx, all, one, 1) : one;
    }
    return all;
}

} // namespace

ggml_tensor *attend(Graph &graph, const AttentionDims &dims, ggml_tensor *q, ggml_tensor *k, ggml_tensor *v,
                    ggml_tensor *keys, ggml_tensor *values, ggml_tensor *table, const Columns &columns, bool plain) {
    if (plain) return plain_attend(graph, dims, q, k, v, keys, values, table, columns);
    AttentionOp *user = graph.keep(AttentionOp{dims, columns.tokens_each});
    ggml_tensor *args[] = {q, k, v, keys, values, table, columns.slot, columns.position};
    // the positions in use are not known here; half the capacity stands for them
    const int64_t flops = int64_t(2) * dims.q_size() * dims.capacity * columns.count();
    return graph.custom(run_attention, user, dims.q_size(), columns.count(), args, 8, flops);
}

} // namespace ks
