#include "history.h"
#include <algorithm>
#include <cstring>

namespace ks {

namespace {

void push(ggml_tensor *dst, int, int, void *) {
    const ggml_tensor *history = dst->src[0], *x = dst->src[1];
    const int64_t columns = history->ne[1], frames = x->ne[1];
    const size_t row = size_t(x->ne[0]) * sizeof(float);
    char *to = static_cast<char *>(history->data);
    const char *from = static_cast<const char *>(x->data);
    const int64_t kept = std::max<int64_t>(0, columns - frames);
    if (kept > 0) std::memmove(to, to + size_t(columns - kept) * row, size_t(kept) * row);
    for (int64_t c = kept; c < columns; c++)
        std::memcpy(to + size_t(c) * row, from + size_t(frames - columns + c) * x->nb[1], row);
}

} // namespace

void history_push(Graph &graph, ggml_tensor *history, ggml_tensor *x) {
    ggml_tensor *args[] = {history, x};
    graph.add(graph.custom(push, nullptr, 1, 1, args, 2, 0)); // on one thread: a few hundred kilobytes at most
}

ggml_tensor *history_concat_plain(Graph &graph, ggml_tensor *history, ggml_tensor *x) {
    ggml_context *ctx = graph.ctx();
    ggml_tensor *all = ggml_concat(ctx, history, x, 1); // [channels, columns + frames]
    graph.add(all);
    ggml_tensor *last = ggml_view_2d(ctx, all, all->ne[0], history->ne[1], all->nb[1], size_t(x->ne[1]) * all->nb[1]);
    graph.add(ggml_cpy(ctx, last, history));
    return all;
}

} // namespace ks
