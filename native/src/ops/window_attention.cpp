#include "window_attention.h"
#include "history.h"
#include <algorithm>
#include <cmath>

namespace ks {

std::vector<float> attention_mask(const AttentionShape &shape, int64_t past, int64_t frames) {
    const int64_t left = shape.left(), keys = left + frames;
    std::vector<float> mask(size_t(keys * frames), -INFINITY);
    for (int64_t t = 0; t < frames; t++)
        for (int64_t key = std::max(t, left - past); key <= t + left; key++) mask[size_t(t * keys + key)] = 0.0f;
    return mask;
}

namespace {

struct AttentionNode {
    AttentionShape shape;
    Scratch *scratch;
};

// Rotates the query and key heads of each frame, copies the values.
void rotate(ggml_tensor *dst, int ith, int nth, void *userdata) {
    const AttentionShape &shape = static_cast<const AttentionNode *>(userdata)->shape;
    const int64_t width = dst->ne[0], frames = dst->ne[1], head_dim = shape.head_dim;
    const int64_t rotated = (shape.heads + shape.kv_heads) * head_dim;
    for (int64_t t = frames * ith / nth; t < frames * (ith + 1) / nth; t++) {
        const float *x = static_cast<const float *>(dst->src[0]->data) + t * width;
        const float *rotation = static_cast<const float *>(dst->src[1]->data) + t * head_dim;
        float *y = static_cast<float *>(dst->data) + t * width;
        for (int64_t head = 0; head < rotated; head += head_dim)
            for (int64_t d = 0; d < head_dim; d += 2) {
                const float a = x[head + d], b = x[head + d + 1], c = rotation[d], s = rotation[d + 1];
                y[head + d] = a * c - b * s;
                y[head + d + 1] = b * c + a * s;
            }
        std::copy(x + rotated, x + width, y + rotated);
    }
}

// Eight partial sums in a fixed pattern: vectorises without reassociation.
float dot(const float *a, const float *b, int64_t n) {
    float part[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++) part[j] += a[i + j] * b[i + j];
    for (; i < n; i++) part[i % 8] += a[i] * b[i];
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

void add_scaled(float *__restrict y, const float *__restrict x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

void attend(ggml_tensor *dst, int ith, int nth, void *userdata) {
    const auto *node = static_cast<const AttentionNode *>(userdata);
    const AttentionShape &shape = node->shape;
    const float *qkv = static_cast<const float *>(dst->src[0]->data);
    const int64_t past = *static_cast<const int32_t *>(dst->src[1]->data);
    const float *history = dst->src[2] ? static_cast<const float *>(dst->src[2]->data) : nullptr;
    const int64_t frames = dst->ne[1], head_dim = shape.head_dim, left = shape.left();
    const int64_t group = shape.heads / shape.kv_heads, kv_begin = shape.heads * head_dim;
    const float scale = float(1.0 / std::sqrt(double(head_dim)));
    float *weights = node->scratch->of(ThreadPool::worker());
    const int64_t units = frames * shape.heads;
    for (int64_t unit = units * ith / nth; unit < units * (ith + 1) / nth; unit++) {
        const int64_t t = unit / shape.heads, head = unit % shape.heads, kv = head / group * head_dim;
        const float *q = qkv + t * shape.width() + head * head_dim;
        // Key or value row of frame f, counted from the first frame of this graph.
        const auto row = [&](int64_t f, int64_t offset) {
            return f < 0 ? history + (left + f) * shape.kv_width() + offset
                         : qkv + f * shape.width() + kv_begin + offset;
        };
        const int64_t first = std::max(t - left, -past), n = t - first + 1;
        float highest = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            weights[j] = scale * dot(q, row(first + j, kv), head_dim);
            highest = std::max(highest, weights[j]);
        }
        float total = 0.0f;
        for (int64_t j = 0; j < n; j++) total += weights[j] = std::exp(weights[j] - highest);
        float *y = static_cast<float *>(dst->data) + t * dst->ne[0] + head * head_dim;
        std::fill_n(y, head_dim, 0.0f);
        for (int64_t j = 0; j < n; j++)
            add_scaled(y, row(first + j, shape.kv_heads * head_dim + kv), weights[j] / total, head_dim);
    }
}

} // namespace

ggml_tensor *window_attention(Graph &graph, const AttentionShape &shape, Scratch &scratch,
                              const AttentionInputs &inputs, ggml_tensor *qkv, ggml_tensor *history) {
    GGML_ASSERT(qkv->ne[0] == shape.width() && ggml_is_contiguous(qkv));
    GGML_ASSERT(history ? history->ne[0] == shape.kv_width() && history->ne[1] == shape.left() : shape.left() == 0);
    ggml_context *ctx = graph.ctx();
    const int64_t frames = qkv->ne[1];
    AttentionNode *node = graph.keep(AttentionNode{shape, &scratch});
    scratch.reserve(size_t(shape.window));
    ggml_tensor *rotate_args[] = {qkv, inputs.rotation};
    ggml_tensor *rotated = graph.custom(rotate, node, shape.width(), frames, rotate_args, 2, 6 * ggml_nelements(qkv));
    ggml_tensor *args[] = {rotated, inputs.past, history};
    const int64_t width = shape.heads * shape.head_dim;
    ggml_tensor *y =
        graph.custom(attend, node, width, frames, args, history ? 3 : 2, 4 * width * shape.window * frames);
    graph.add(y);
    if (history)
        history_push(graph, history,
                     ggml_view_2d(ctx, rotated, shape.kv_width(), frames, rotated->nb[1],
                                  size_t(shape.heads * shape.head_dim) * sizeof(float)));
    return y;
}

ggml_tensor *window_attention_plain(Graph &graph, const AttentionShape &shape, const AttentionInputs &inputs,
                                    ggml_tensor *qkv, ggml_tensor *history) {
    ggml_context *ctx = graph.ctx();
    const int64_t frames = qkv->ne[1], half = shape.head_dim / 2, head_dim = shape.head_dim;
    const size_t size = sizeof(float), column = qkv->nb[1];
    // Both halves of every pair of the query and key heads: [1, half, heads + kv_heads, frames]
    const auto half_of = [&](size_t which) {
        return ggml_view_4d(ctx, qkv, 1, half, shape.heads + shape.kv_heads, frames, 2 * size, size_t(head_dim) * size,
                            column, which * size);
    };
    const auto table_of = [&](size_t which) { // [1, half, 1, frames]
        return ggml_view_4d(ctx, inputs.rotation, 1, half, 1, frames, 2 * size, inputs.rotation->nb[1],
                            inputs.rotation->nb[1], which * size);
    };
    ggml_tensor *a = half_of(0), *b = half_of(1), *c = table_of(0), *s = table_of(1);
    ggml_tensor *first = ggml_sub(ctx, ggml_mul(ctx, a, c), ggml_mul(ctx, b, s));
    ggml_tensor *second = ggml_add(ctx, ggml_mul(ctx, b, c), ggml_mul(ctx, a, s));
    ggml_tensor *rotated = ggml_concat(ctx, first, second, 0); // [2, half, heads + kv_heads, frames]
    rotated = ggml_reshape_3d(ctx, rotated, head_dim, shape.heads + shape.kv_heads, frames);

    ggml_tensor *q = ggml_view_3d(ctx, rotated, head_dim, shape.heads, frames, rotated->nb[1], rotated->nb[2], 0);
    ggml_tensor *k = ggml_cont_2d(ctx,
                                  ggml_view_3d(ctx, rotated, head_dim, shape.kv_heads, frames, rotated->nb[1],
                                               rotated->nb[2], size_t(shape.heads) * rotated->nb[1]),
                                  shape.kv_heads * head_dim, frames);
    ggml_tensor *v = ggml_view_2d(ctx, qkv, shape.kv_heads * head_dim, frames, column,
                                  size_t((shape.heads + shape.kv_heads) * head_dim) * size);
    ggml_tensor *kv = ggml_concat(ctx, k, v, 0);                // [kv_width, frames]
    if (history) kv = history_concat_plain(graph, history, kv); // [kv_width, left + frames]
    const int64_t keys = kv->ne[1];
    const auto heads_of = [&](size_t offset) { // [head_dim, keys, kv_heads]
        return ggml_view_3d(ctx, kv, head_dim, keys, shape.kv_heads, kv->nb[1], size_t(head_dim) * size, offset);
    };
    k = heads_of(0);
    v = heads_of(size_t(shape.kv_heads * head_dim) * size);
    q = ggml_permute(ctx, q, 0, 2, 1, 3);          // [head_dim, frames, heads]
    ggml_tensor *scores = ggml_mul_mat(ctx, k, q); // [keys, frames, heads]
    const float scale = float(1.0 / std::sqrt(double(head_dim)));
    ggml_tensor *weights = ggml_soft_max_ext(ctx, scores, inputs.mask, scale, 0.0f);
    ggml_tensor *by_key = ggml_cont(ctx, ggml_permute(ctx, v, 1, 0, 2, 3)); // [keys, head_dim, kv_heads]
    ggml_tensor *y = ggml_mul_mat(ctx, by_key, weights);                    // [head_dim, frames, heads]
    y = ggml_cont_2d(ctx, ggml_permute(ctx, y, 0, 2, 1, 3), shape.heads * head_dim, frames);
    graph.add(y);
    return y;
}

} // namespace ks
