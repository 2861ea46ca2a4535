#include "depthwise.h"
#include "history.h"
#include "model_file.h"
#include <algorithm>

namespace ks {

DepthwiseTaps taps_of_depthwise(const ggml_tensor *weight, const ggml_tensor *bias) {
    DepthwiseTaps taps;
    taps.kernel = weight->ne[0];
    taps.channels = weight->ne[1];
    const std::vector<float> w = to_f32(weight);
    taps.weights.resize(w.size());
    for (int64_t c = 0; c < taps.channels; c++)
        for (int64_t k = 0; k < taps.kernel; k++)
            taps.weights[size_t(k * taps.channels + c)] = w[size_t(c * taps.kernel + k)];
    taps.bias = to_f32(bias);
    return taps;
}

namespace {

void add_tap(float *__restrict y, const float *__restrict x, const float *__restrict w, int64_t n) {
    for (int64_t c = 0; c < n; c++) y[c] += w[c] * x[c];
}

void run(ggml_tensor *dst, int ith, int nth, void *userdata) {
    const auto *taps = static_cast<const DepthwiseTaps *>(userdata);
    const float *x = static_cast<const float *>(dst->src[0]->data);
    const float *history = dst->src[1] ? static_cast<const float *>(dst->src[1]->data) : nullptr;
    float *y = static_cast<float *>(dst->data);
    const int64_t channels = taps->channels, frames = dst->ne[1], left = taps->left();
    for (int64_t t = frames * ith / nth; t < frames * (ith + 1) / nth; t++) {
        float *row = y + t * channels;
        std::copy(taps->bias.begin(), taps->bias.end(), row);
        for (int64_t k = 0; k < taps->kernel; k++) {
            const int64_t from = t + k - left;
            if (from < 0 && !history) continue; // adds zeros
            add_tap(row, from < 0 ? history + (left + from) * channels : x + from * channels,
                    taps->weights.data() + k * channels, channels);
        }
    }
}

} // namespace

ggml_tensor *depthwise(Graph &graph, const DepthwiseTaps &taps, ggml_tensor *x, ggml_tensor *history) {
    GGML_ASSERT(x->ne[0] == taps.channels && ggml_is_contiguous(x));
    GGML_ASSERT(!history || (history->ne[0] == taps.channels && history->ne[1] == taps.left()));
    ggml_tensor *args[] = {x, history};
    ggml_tensor *y = graph.custom(run, const_cast<DepthwiseTaps *>(&taps), x->ne[0], x->ne[1], args, history ? 2 : 1,
                                  20 * ggml_nelements(x));
    graph.add(y);
    if (history) history_push(graph, history, x);
    return y;
}

ggml_tensor *depthwise_plain(Graph &graph, ggml_tensor *taps, ggml_tensor *bias, ggml_tensor *x, ggml_tensor *history) {
    GGML_ASSERT(history || taps->ne[1] == 1);
    ggml_context *ctx = graph.ctx();
    ggml_tensor *all = history ? history_concat_plain(graph, history, x) : x; // [channels, kernel - 1 + frames]
    ggml_tensor *y = nullptr;
    for (int64_t k = 0; k < taps->ne[1]; k++) {
        ggml_tensor *w = ggml_view_1d(ctx, taps, taps->ne[0], size_t(k) * taps->nb[1]);
        ggml_tensor *shifted = ggml_view_2d(ctx, all, x->ne[0], x->ne[1], all->nb[1], size_t(k) * all->nb[1]);
        ggml_tensor *part = ggml_mul(ctx, shifted, w);
        y = y ? ggml_add(ctx, y, part) : part;
    }
    y = ggml_add(ctx, y, bias);
    graph.add(y);
    return y;
}

} // namespace ks
