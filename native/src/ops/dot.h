// Dot products of the AR kernels: loads of the narrow weight types, and the one order every sum runs in.
#pragma once

#include "ops/simd.h"
#include <cstring>

namespace ks {

using Vec = simd::Vector;
constexpr int LANES = simd::lanes;
static_assert(32 % LANES == 0, "a q8_0 block must hold whole vectors");

inline Vec load_f32(const float *p) {
    return simd::load(p);
}
inline void store_f32(float *p, Vec v) {
    simd::store(p, v);
}
inline Vec splat(float x) {
    return x - Vec{};
}

// Halves are added onto each other: one fixed tree, so the result does not depend on the caller.
inline float sum_lanes(Vec v) {
    float lane[LANES];
    std::memcpy(lane, &v, sizeof lane);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

inline Vec load_bf16(const ggml_bf16_t *p) {
    typedef uint16_t Half __attribute__((vector_size(LANES * 2)));
    typedef uint32_t Word __attribute__((vector_size(LANES * 4)));
    Half h;
    std::memcpy(&h, p, sizeof h);
    return (Vec)(__builtin_convertvector(h, Word) << 16);
}

// One half-precision number; ggml's own conversion is a function call, which a q8_0 block cannot afford.
inline float half_to_float(ggml_fp16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#elif defined(__ARM_NEON)
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
#else
    return ggml_fp16_to_fp32(h);
#endif
}

inline Vec load_i8(const int8_t *p) {
#if defined(__AVX512F__)
    return (Vec)_mm512_maskz_cvtepi32_ps(
        0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX2__)
    return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
#else
    typedef int8_t Byte __attribute__((vector_size(LANES)));
    Byte b;
    std::memcpy(&b, p, sizeof b);
    return __builtin_convertvector(b, Vec);
#endif
}

// Two float rows of n: lanes first, then the tail.
inline float dot(const float *a, const float *b, int64_t n) {
    Vec acc = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) acc += load_f32(a + i) * load_f32(b + i);
    float sum = sum_lanes(acc);
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

} // namespace ks
