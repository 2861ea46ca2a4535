// One entry of a rotary position table, as torch computes it.
#pragma once

#include "ggml.h"
#include <cmath>
#include <utility>

namespace ks {

// Cosine and sine for dimension pair i (0 ... head_dim / 2 - 1) at a position: angle = position * base^(-2i /
// head_dim). float32 throughout: a table computed in double rounds a few entries to the other bfloat16 (head size 8,
// position 230), which moves samples by 1e-3. bf16: both rounded to bfloat16, as the published fast AR and codec tables
// are.
inline std::pair<float, float> rope_entry(int64_t position, int64_t i, int64_t head_dim, float base, bool bf16) {
    const float frequency = 1.0f / std::pow(base, float(2 * i) / float(head_dim));
    const float angle = float(position) * frequency;
    float cosine = std::cos(angle), sine = std::sin(angle);
    if (bf16) {
        cosine = ggml_bf16_to_fp32(ggml_fp32_to_bf16(cosine));
        sine = ggml_bf16_to_fp32(ggml_fp32_to_bf16(sine));
    }
    return {cosine, sine};
}

} // namespace ks
