// Rotary position table of the codec's window transformer.
#pragma once

#include <cstdint>
#include <vector>

namespace ks {

// Rows of positions first .. first + frames - 1: cos, sin of pair 0, cos, sin of pair 1, ... ([frames][head_dim]).
// The angle of pair i is position * base^(-2 i / head_dim), see ops/rope.h. bf16: rounded to bfloat16, as the published
// model's table was; that makes the table depend on the absolute position, so positions must never be rebased.
std::vector<float> rotation_table(int64_t first, int64_t frames, int64_t head_dim, float base, bool bf16);

} // namespace ks
