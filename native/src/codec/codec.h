// Codec decoder: frames of codes to PCM, one stateful stream a slot.
#pragma once

#include "backend.h"
#include "model_file.h"
#include <cstdint>
#include <memory>
#include <vector>

namespace ks {

struct CodecClock {
    uint64_t build_ns = 0, builds = 0;     // planning graphs
    uint64_t compute_ns = 0, computes = 0; // running them
};

class Codec {
  public:
    // Reads the codec.* keys and tensors of `file` and allocates the state of n_slots streams.
    // plain_ops: OR of ks_plain (KS_PLAIN_CONV, KS_PLAIN_SNAKE); forced to plain on a GPU backend.
    Codec(ModelFile &file, Backend &backend, int n_slots, uint32_t plain_ops);
    ~Codec();

    int sample_rate() const;
    int frame_size() const;  // samples a frame
    int n_codebooks() const; // codes a frame

    // Forgets what the slot decoded before: the next decode is the start of a stream.
    void reset(int slot);
    // codes: [n_codebooks][n_frames], clamped into their codebooks; pcm: n_frames * frame_size samples, full scale 1.
    // Any split of a sequence into calls gives the same samples, bit for bit with our own kernels.
    void decode(int slot, const int32_t *codes, int n_frames, float *pcm, CodecClock &clock);

    int64_t packed_bytes() const;
    int64_t state_bytes() const;
    int64_t compute_bytes() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace ks
