#include "sampling/sampler.h"
#include "error.h"
#include "sampling/philox.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace ks {

int greedy(const float *scores, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

std::vector<Candidate> candidates(const float *scores, int n, float temperature, float top_p, int top_k) {
    const float top = scores[greedy(scores, n)];
    if (!std::isfinite(top)) throw Error(KS_ERROR_INTERNAL, "the model produced scores that are not finite");
    double total = 0; // of the untempered softmax, over all allowed tokens
    if (top_p < 1.0f)
        for (int i = 0; i < n; i++) total += std::exp(scores[i] - top);
    const int limit = top_k > 0 ? std::min(top_k, n) : n;
    std::vector<int> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + limit, order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    std::vector<Candidate> kept;
    const double divisor = std::max(double(temperature), 1e-5);
    double cumulative = 0;
    for (int rank = 0; rank < limit; rank++) {
        const int token = order[size_t(rank)];
        if (std::isinf(scores[token])) break; // -infinity: not allowed, and nothing after it is
        if (top_p < 1.0f) {
            cumulative += std::exp(scores[token] - top) / total;
            if (rank > 0 && cumulative > double(top_p)) break;
        }
        kept.push_back({token, std::exp((double(scores[token]) - double(top)) / divisor)});
    }
    return kept;
}

int pick(const std::vector<Candidate> &candidates, double u) {
    double total = 0;
    for (const Candidate &c : candidates) total += c.weight;
    double left = u * total;
    for (const Candidate &c : candidates) {
        left -= c.weight;
        if (left < 0) return c.token;
    }
    return candidates.back().token; // only through rounding of the sum
}

bool RecentTokens::contains(int token) const {
    return std::find(tokens_.begin(), tokens_.end(), token) != tokens_.end();
}

void RecentTokens::push(int token) {
    if (size_ <= 0) return;
    tokens_.push_back(token);
    if (int(tokens_.size()) > size_) tokens_.pop_front();
}

int draw_semantic(const float *scores, int n, int eos, const ks_sampling &sampling, const RecentTokens &recent,
                  uint64_t seed, uint64_t draw) {
    if (sampling.temperature <= 0) return greedy(scores, n);
    const int normal =
        pick(candidates(scores, n, sampling.temperature, sampling.top_p, sampling.top_k), uniform(seed, draw, 0));
    if (normal >= eos || !recent.contains(normal)) return normal;
    return pick(candidates(scores, n, sampling.ras_temperature, sampling.ras_top_p, sampling.top_k),
                uniform(seed, draw, 1));
}

int draw_code(const float *scores, int n, const ks_sampling &sampling, uint64_t seed, uint64_t draw, int codebook) {
    if (sampling.fast_temperature <= 0) return greedy(scores, n);
    return pick(candidates(scores, n, sampling.fast_temperature, sampling.top_p, sampling.top_k),
                uniform(seed, draw, uint32_t(1 + codebook)));
}

} // namespace ks
