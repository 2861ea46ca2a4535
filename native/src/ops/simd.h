// Vector width and register tile of the target, on GCC/clang vector extensions.
#pragma once

#include "ggml.h"
#include <cstdint>
#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace ks::simd {

// lanes: floats a vector. vectors x rows: accumulators of one register tile; with the weight vectors and one broadcast
// they fill the register file (32 registers on AVX-512 and NEON, 16 on AVX and SSE) without spilling.
#if defined(__AVX512F__)
constexpr int lanes = 16, vectors = 2, rows = 14;
#elif defined(__AVX__)
constexpr int lanes = 8, vectors = 2, rows = 6;
#elif defined(__ARM_NEON)
constexpr int lanes = 4, vectors = 4, rows = 6;
#else
constexpr int lanes = 4, vectors = 2, rows = 6;
#endif
constexpr int panel = lanes * vectors; // output channels a packed panel holds

// Whether load() of f16 is an instruction or two. Where it is not, weights are packed as f32: converting them lane by
// lane inside the kernel is eight times slower than the whole product.
#if defined(__AVX512F__) || (defined(__AVX__) && defined(__F16C__)) || (!defined(__AVX__) && defined(__ARM_NEON))
constexpr bool fast_half = true;
#else
constexpr bool fast_half = false;
#endif

typedef float Vector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

inline __attribute__((always_inline)) Vector load(const float *p) {
    return *reinterpret_cast<const Vector *>(p);
}

inline __attribute__((always_inline)) Vector load(const ggml_fp16_t *p) {
#if defined(__AVX512F__)
    // The unmasked form reads an undefined register in gcc's header, which -Wall takes for ours.
    return (Vector)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
#elif defined(__AVX__) && defined(__F16C__)
    return (Vector)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
#elif defined(__ARM_NEON)
    return (Vector)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    Vector v;
    for (int i = 0; i < lanes; i++) v[i] = ggml_fp16_to_fp32(p[i]);
    return v;
#endif
}

inline __attribute__((always_inline)) void store(float *p, Vector v) {
    *reinterpret_cast<Vector *>(p) = v;
}

} // namespace ks::simd
