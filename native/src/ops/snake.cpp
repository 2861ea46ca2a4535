#include "snake.h"
#include <algorithm>

// Fast-math would reassociate the reduction below: error 0.8 instead of 1e-6.
#ifdef __FAST_MATH__
#error "snake.cpp must not be compiled with -ffast-math"
#endif

namespace ks {

SnakeTaps snake_taps(std::vector<float> alpha) {
    SnakeTaps taps;
    for (float a : alpha) taps.inverse.push_back(1.0f / (a + 1e-9f));
    taps.alpha = std::move(alpha);
    return taps;
}

namespace {

// sin^2 has period pi: reduce by the nearest multiple of pi, in three parts that keep the difference exact, then an odd
// polynomial for the sine on [-pi/2, pi/2]; its sign does not matter.
inline float sine_squared(float x) {
    const float round = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const float k = (x * 0.318309886183790672f + round) - round;
    float r = x - k * 3.140625f;
    r = r - k * 9.67502593994140625e-4f;
    r = r - k * 1.509957990978376432e-7f;
    const float z = r * r;
    float p = -2.3889859e-08f;
    p = p * z + 2.7525562e-06f;
    p = p * z - 1.9840874e-04f;
    p = p * z + 8.3333310e-03f;
    p = p * z - 1.6666667e-01f;
    p = p * z * r + r;
    return std::min(p * p, 1.0f); // far outside the reduction's range the polynomial would run away
}

void snake_row(float *__restrict y, const float *__restrict x, const float *__restrict alpha,
               const float *__restrict inverse, int64_t n) {
    for (int64_t c = 0; c < n; c++) y[c] = x[c] + sine_squared(alpha[c] * x[c]) * inverse[c];
}

void run(ggml_tensor *dst, int ith, int nth, void *userdata) {
    const auto *taps = static_cast<const SnakeTaps *>(userdata);
    const float *x = static_cast<const float *>(dst->src[0]->data);
    float *y = static_cast<float *>(dst->data);
    const int64_t n = dst->ne[0], frames = dst->ne[1];
    for (int64_t t = frames * ith / nth; t < frames * (ith + 1) / nth; t++)
        snake_row(y + t * n, x + t * n, taps->alpha.data(), taps->inverse.data(), n);
}

} // namespace

ggml_tensor *snake(Graph &graph, const SnakeTaps &taps, ggml_tensor *x) {
    GGML_ASSERT(x->ne[0] == int64_t(taps.alpha.size()) && ggml_is_contiguous(x));
    ggml_tensor *y =
        graph.custom(run, const_cast<SnakeTaps *>(&taps), x->ne[0], x->ne[1], &x, 1, 20 * ggml_nelements(x));
    graph.add(y);
    return y;
}

ggml_tensor *snake_plain(Graph &graph, ggml_tensor *alpha, ggml_tensor *divisor, ggml_tensor *x) {
    ggml_context *ctx = graph.ctx();
    ggml_tensor *squared = ggml_sqr(ctx, ggml_sin(ctx, ggml_mul(ctx, x, alpha)));
    ggml_tensor *y = ggml_add(ctx, x, ggml_div(ctx, squared, divisor));
    graph.add(y);
    return y;
}

} // namespace ks
