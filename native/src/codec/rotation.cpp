#include "rotation.h"
#include "ops/rope.h"

namespace ks {

std::vector<float> rotation_table(int64_t first, int64_t frames, int64_t head_dim, float base, bool bf16) {
    std::vector<float> table;
    table.reserve(size_t(frames * head_dim));
    for (int64_t t = 0; t < frames; t++)
        for (int64_t i = 0; i < head_dim / 2; i++) {
            const auto [cosine, sine] = rope_entry(first + t, i, head_dim, base, bf16);
            table.push_back(cosine);
            table.push_back(sine);
        }
    return table;
}

} // namespace ks
