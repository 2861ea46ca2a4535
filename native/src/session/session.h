// One utterance in a slot: what it still has to read, what it has said, and why it ended.
#pragma once

#include "kestrel.h"
#include "sampling/sampler.h"
#include "session/guards.h"
#include <atomic>
#include <deque>
#include <vector>

namespace ks {

struct Session {
    Session(const ks_session_params &params, int slot, int n_codebooks);

    const int slot, n_codebooks;
    const uint64_t seed;
    const ks_sampling sampling;
    const ks_limits limits;
    const int max_chunk_frames;
    const bool decode;
    std::atomic<bool> cancelled{false};
    ks_finish finish = KS_FINISH_NONE;

    // Input the slow stage has not seen: matrix columns [1 + n_codebooks] each, one after another.
    std::vector<int32_t> pending;
    int position = 0; // context positions used
    int pending_columns() const { return int(pending.size()) / (1 + n_codebooks); }

    // Interleaved text
    std::deque<std::vector<int32_t>> segments; // not fed yet
    bool text_ended = false;
    bool wants_segment = false;      // NEXT was drawn and no segment was there
    int segment_frames = 0;          // frames since the last NEXT
    std::vector<int> segment_starts; // frame at which each segment was taken

    // Output
    std::vector<int32_t> codes; // [frames][n_codebooks]
    int frames() const { return int(codes.size()) / n_codebooks; }
    int decoded_frames = 0;
    int chunk_frames; // size of the next PCM chunk
    std::vector<float> pcm;
    size_t pcm_read = 0;

    // Sampling
    std::vector<float> hidden, logits; // of the last position
    uint64_t draws = 0;
    RecentTokens recent;
    RepetitionGuard repetition;
    SilenceGuard silence;

    ks_phase_clock phases[KS_PHASE_COUNT] = {};
    std::vector<float> layers;      // [slow_layers][dim] when recording
    std::vector<float> fast_logits; // [n_codebooks - 1][rows] when recording

    bool running() const { return finish == KS_FINISH_NONE; }
    // Appends one text-vocabulary id as a column with zero codes.
    void queue_text(int32_t id);
    void queue_segment(); // moves the next segment to `pending`
};

} // namespace ks
