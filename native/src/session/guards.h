// Guards that end a runaway. Pure bookkeeping: they see frames and levels, and say whether to stop.
#pragma once

#include <array>
#include <vector>

namespace ks {

// Sees every semantic token; trips once the last `frames` of them repeat with one period of 1 to 8.
// Semantic tokens alone, because sampled residual codes go on varying inside a loop.
class RepetitionGuard {
  public:
    explicit RepetitionGuard(int frames) : frames_(frames) {}
    bool trips(int token) {
        if (frames_ <= 0) return false;
        bool trip = false;
        for (size_t period = 1; period <= MAX_PERIOD; period++) {
            const bool repeats = tokens_.size() >= period && tokens_[tokens_.size() - period] == token;
            run_[period] = repeats ? run_[period] + 1 : 0;
            trip = trip || run_[period] >= frames_;
        }
        tokens_.push_back(token);
        if (tokens_.size() > MAX_PERIOD) tokens_.erase(tokens_.begin());
        return trip;
    }

  private:
    static constexpr size_t MAX_PERIOD = 8;
    int frames_;
    std::vector<int> tokens_; // the last MAX_PERIOD
    std::array<int, MAX_PERIOD + 1> run_{};
};

// Sees the level of every decoded frame; trips after `frames` in a row below `rms`.
class SilenceGuard {
  public:
    SilenceGuard(int frames, float rms) : frames_(frames), rms_(rms) {}
    bool trips(float frame_rms) {
        run_ = frame_rms < rms_ ? run_ + 1 : 0;
        return frames_ > 0 && run_ >= frames_;
    }

  private:
    int frames_;
    float rms_;
    int run_ = 0;
};

} // namespace ks
