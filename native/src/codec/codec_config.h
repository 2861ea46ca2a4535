// Dimensions of a codec decoder, read from the codec.* keys (docs/model-format.md).
#pragma once

#include "model_file.h"
#include "ops/window_attention.h"
#include <cstdint>
#include <vector>

namespace ks {

struct CodecConfig {
    int32_t sample_rate = 0; // Hz
    int64_t frame_size = 0;  // samples a frame
    std::vector<int32_t> codebook_sizes;
    int64_t code_dim = 0, dim = 0;

    int64_t post_layers = 0, post_ffn = 0;
    AttentionShape attention;
    float rope_base = 0, post_eps = 0;
    bool rope_bf16 = false;

    std::vector<int32_t> upsample_strides;
    int64_t upsample_ffn = 0, upsample_kernel = 0;
    float upsample_eps = 0;

    std::vector<int32_t> channels, strides, dilations;
    int64_t kernel = 0;

    // Throws Error(KS_ERROR_MODEL) naming the key that is absent, out of range or at odds with another.
    static CodecConfig read(const ModelFile &file);
};

} // namespace ks
