// Codes to latents: the sum over codebooks of a codebook row through its output projection. Runs on the host: it is
// 0.003 % of the codec's arithmetic.
#pragma once

#include "codec_config.h"
#include "model_file.h"
#include <cstdint>
#include <vector>

namespace ks {

class Codebooks {
  public:
    Codebooks(ModelFile &file, const CodecConfig &config);

    // codes: codebook q of frame t at codes[q * stride + t], clamped into its codebook. latents: [frames][dim].
    void lookup(const int32_t *codes, int64_t stride, int64_t frames, float *latents) const;

  private:
    struct Codebook {
        int32_t size;
        std::vector<float> rows; // [size][code_dim]
        std::vector<float> out;  // [code_dim][dim]
        std::vector<float> bias; // [dim]
    };
    int64_t code_dim_, dim_;
    std::vector<Codebook> books_;
};

} // namespace ks
