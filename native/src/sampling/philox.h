// Counter-based random numbers: the same (seed, counter) gives the same number on every platform and in any order.
#pragma once

#include <array>
#include <cstdint>

namespace ks {

// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = uint64_t(0xD2511F53u) * counter[0], b = uint64_t(0xCD9E8D57u) * counter[2];
        counter = {uint32_t(b >> 32) ^ counter[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ k1, uint32_t(a)};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return counter;
}

// Uniform in [0, 1) with 53 bits. `draw` counts the distributions a session has drawn its semantic tokens from;
// `purpose`: 0 = normal semantic draw, 1 = high draw of repetition-aware sampling, 1 + j = codebook j >= 1.
inline double uniform(uint64_t seed, uint64_t draw, uint32_t purpose) {
    const auto bits = philox({uint32_t(draw), uint32_t(draw >> 32), purpose, 0}, seed);
    return double((uint64_t(bits[0] >> 5) << 26) | (bits[1] >> 6)) * (1.0 / 9007199254740992.0);
}

} // namespace ks
