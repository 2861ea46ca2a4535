// A loaded model: weights, stages, codec, slots and the sessions that occupy them.
#pragma once

#include "ar/fast.h"
#include "ar/slow.h"
#include "codec/codec.h"
#include "session/session.h"
#include <memory>
#include <string>
#include <vector>

namespace ks {

class Model {
  public:
    Model(const std::string &path, const ks_load_params &params);

    ks_model_info info() const;
    const ks_sampling &sampling() const { return sampling_; }
    const ModelFile &file() const { return file_; }
    const ks_phase_clock *phases() const { return phases_; }
    const LmDims &lm() const { return lm_; }
    const SlowDims &slow_dims() const { return slow_dims_; }
    Codec &codec() { return codec_; }

    Session *open(const ks_session_params &params);
    void close(Session *session);
    void push(Session &session, const int32_t *ids, int n);
    void end_text(Session &session);
    // One frame for each running session; see ks_step. On failure all of them end as cancelled and the error is thrown.
    void step(const std::vector<Session *> &sessions);
    std::vector<float> state(const Session &session, ks_state which, int layer) const;

    int take_slot(); // throws Error(KS_ERROR_BUSY)
    void free_slot(int slot) { slot_used_[size_t(slot)] = false; }

  private:
    void check(const ks_session_params &params) const;
    void check_ids(const int32_t *ids, int n, const char *what) const;
    void advance(const std::vector<Session *> &sessions);
    void prefill(Session &session);
    void slow_step(const std::vector<Session *> &sessions);
    int next_semantic(Session &session); // a code, or -1 if the session ended or waits for text
    int draw(Session &session);          // -1 if the scores are not finite
    void fast_frames(const std::vector<Session *> &sessions, const std::vector<int> &semantic);
    void decode_ready(Session &session);
    void charge(Session &session, ks_phase phase, uint64_t ns, uint64_t count);

    ks_load_params params_;
    ModelFile file_;
    LmDims lm_; // the dimensions come before the backend: a file that does not fit starts no thread
    SlowDims slow_dims_;
    FastDims fast_dims_;
    Backend backend_;
    SlowStage slow_;
    FastStage fast_;
    Codec codec_;
    ks_sampling sampling_;
    int max_segment_frames_ = 0;
    std::vector<bool> slot_used_;
    std::vector<std::unique_ptr<Session>> sessions_;
    ks_phase_clock phases_[KS_PHASE_COUNT] = {};
};

} // namespace ks
