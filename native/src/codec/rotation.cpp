#include "rotation.h"
#include "ggml.h"
#include <cmath>

namespace ks {

std::vector<float> rotation_table(int64_t first, int64_t frames, int64_t head_dim, float base, bool bf16) {
    std::vector<float> table;
    table.reserve(size_t(frames * head_dim));
    for (int64_t t = 0; t < frames; t++)
        for (int64_t i = 0; i < head_dim; i += 2) {
            const double angle = double(first + t) * std::pow(double(base), -double(i) / double(head_dim));
            table.push_back(float(std::cos(angle)));
            table.push_back(float(std::sin(angle)));
        }
    if (bf16)
        for (float &value : table) value = ggml_bf16_to_fp32(ggml_fp32_to_bf16(value));
    return table;
}

} // namespace ks
