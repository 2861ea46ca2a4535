// How a token is drawn from a score vector, and when repetition-aware sampling replaces it. Pure functions.
#pragma once

#include "kestrel.h"
#include <cstdint>
#include <deque>
#include <vector>

namespace ks {

struct Candidate {
    int token;
    double weight; // unnormalised probability
};

// The survivors of top-k and top-p in descending order of score, weighted for the draw. Rules of Audio8 (specification
// §6.1), which differ from the usual ones: probabilities for top-p are of the *untempered* scores over the whole
// vector; a token whose cumulative probability, itself included, exceeds top_p is dropped, so the one that crosses is
// not kept; rank 0 always is; only then are scores divided by max(temperature, 1e-5). Equal scores rank by token.
// Scores of -infinity are not allowed tokens. top_k 0 = no limit; top_p >= 1 = no limit.
std::vector<Candidate> candidates(const float *scores, int n, float temperature, float top_p, int top_k);

// Inverse of the cumulative distribution at u in [0, 1): distributed as the exponential race of the specification.
int pick(const std::vector<Candidate> &candidates, double u);

int greedy(const float *scores, int n); // first token of the highest score

// Tokens a session chose last, for repetition-aware sampling: at most `size`, the final choices, the first included
// (specification §6.2, the recommended reading).
class RecentTokens {
  public:
    explicit RecentTokens(int size = 0) : size_(size) {}
    bool contains(int token) const;
    void push(int token);

  private:
    int size_;
    std::deque<int> tokens_;
};

// One semantic draw. scores: [n]; `eos` and everything above it are end or NEXT classes, never subject to the rule.
// The normal draw is replaced by the high one (ras_temperature, ras_top_p) if it is among `recent`.
int draw_semantic(const float *scores, int n, int eos, const ks_sampling &sampling, const RecentTokens &recent,
                  uint64_t seed, uint64_t draw);

// One draw of codebook j >= 1.
int draw_code(const float *scores, int n, const ks_sampling &sampling, uint64_t seed, uint64_t draw, int codebook);

} // namespace ks
