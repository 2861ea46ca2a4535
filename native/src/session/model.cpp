#include "session/model.h"
#include "error.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace ks {

namespace {

ks_sampling read_sampling(const ModelFile &file) {
    ks_sampling s = {};
    s.temperature = file.real("sampling.temperature", 0, 100);
    s.fast_temperature = file.real("sampling.fast_temperature", 0, 100);
    s.top_p = file.real("sampling.top_p", 1e-6f, 1);
    s.top_k = file.integer("sampling.top_k", 0, 1 << 22);
    s.ras_window = file.integer("sampling.ras_window", 0, 4096);
    s.ras_temperature = file.real("sampling.ras_temperature", 0, 100);
    s.ras_top_p = file.real("sampling.ras_top_p", 1e-6f, 1);
    return s;
}

} // namespace

Model::Model(const std::string &path, const ks_load_params &params)
    : params_(params), file_(path), lm_(read_lm_dims(file_)), slow_dims_(read_slow_dims(file_, params.max_positions)),
      fast_dims_(read_fast_dims(file_, lm_)),
      backend_(params.n_threads, ks_backend(params.backend), params.plain_ops != 0),
      slow_(file_, lm_, slow_dims_, backend_, params.n_slots, params.plain_ops, params.record != 0),
      fast_(file_, lm_, fast_dims_, backend_, params.n_slots, params.plain_ops),
      codec_(file_, backend_, params.n_slots, params.plain_ops), sampling_(read_sampling(file_)),
      slot_used_(size_t(params.n_slots), false) {
    max_segment_frames_ = file_.integer("sampling.max_segment_frames", 0, 1 << 20);
    if (codec_.n_codebooks() != lm_.n_codebooks())
        throw Error(KS_ERROR_MODEL, "key 'codec.codebook_sizes' has " + std::to_string(codec_.n_codebooks()) +
                                        " codebooks, 'lm.codebook_sizes' has " + std::to_string(lm_.n_codebooks()));
}

ks_model_info Model::info() const {
    ks_model_info i = {};
    i.sample_rate = codec_.sample_rate();
    i.frame_size = codec_.frame_size();
    i.n_codebooks = lm_.n_codebooks();
    i.n_semantic = lm_.semantic_size;
    i.semantic_begin = lm_.semantic_begin;
    i.n_vocab = lm_.vocab;
    i.text_mode = lm_.interleaved ? KS_TEXT_INTERLEAVED : KS_TEXT_PROMPT;
    i.max_positions = slow_dims_.attention.capacity;
    i.n_slots = params_.n_slots;
    i.n_threads = backend_.n_threads();
    i.backend = backend_.codec_on_gpu() ? KS_BACKEND_METAL : KS_BACKEND_CPU;
    i.slow_layers = slow_dims_.layers;
    i.slow_dim = slow_dims_.dim;
    i.fast_layers = fast_dims_.layers;
    i.fast_dim = fast_dims_.dim;
    i.n_parameters = file_.parameters_used();
    i.weight_bytes = file_.bytes_used();
    i.packed_bytes = codec_.packed_bytes();
    i.state_bytes = int64_t(slow_.state_bytes() + fast_.state_bytes()) + codec_.state_bytes();
    i.compute_bytes = int64_t(slow_.compute_bytes() + fast_.compute_bytes()) + codec_.compute_bytes();
    return i;
}

int Model::take_slot() {
    for (size_t s = 0; s < slot_used_.size(); s++) {
        if (slot_used_[s]) continue;
        slot_used_[s] = true;
        return int(s);
    }
    throw Error(KS_ERROR_BUSY, "all " + std::to_string(slot_used_.size()) + " slots are in use");
}

void Model::check_ids(const int32_t *ids, int n, const char *what) const {
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= lm_.vocab)
            throw Error(KS_ERROR_ARGUMENT, std::string(what) + " " + std::to_string(i) + " is " +
                                               std::to_string(ids[i]) + "; valid: 0 to " +
                                               std::to_string(lm_.vocab - 1));
}

void Model::check(const ks_session_params &p) const {
    auto refuse = [](const std::string &message) { throw Error(KS_ERROR_ARGUMENT, message); };
    const int capacity = slow_dims_.attention.capacity;
    if (!p.prompt || p.n_columns <= 0) refuse("the prompt is empty");
    if (p.n_columns >= capacity)
        refuse("the prompt has " + std::to_string(p.n_columns) + " columns; valid: 1 to " +
               std::to_string(capacity - 1));
    check_ids(p.prompt, p.n_columns, "prompt id");
    for (int j = 0; j < lm_.n_codebooks(); j++)
        for (int t = 0; t < p.n_columns; t++) {
            const int32_t code = p.prompt[int64_t(1 + j) * p.n_columns + t];
            if (code < 0 || code >= lm_.codebook_sizes[size_t(j)])
                refuse("prompt code [" + std::to_string(j) + "][" + std::to_string(t) + "] is " + std::to_string(code) +
                       "; valid: 0 to " + std::to_string(lm_.codebook_sizes[size_t(j)] - 1));
        }
    const ks_sampling &s = p.sampling;
    if (!std::isfinite(s.temperature) || !std::isfinite(s.fast_temperature) || !std::isfinite(s.ras_temperature))
        refuse("a temperature is not finite");
    if (!(s.top_p > 0 && s.top_p <= 1) || !(s.ras_top_p > 0 && s.ras_top_p <= 1)) refuse("top_p must be in (0, 1]");
    if (s.top_k < 0 || s.ras_window < 0) refuse("top_k and ras_window must not be negative");
    if (p.limits.max_frames <= 0) refuse("max_frames must be positive");
    if (p.limits.max_segment_frames < 0 || p.limits.repetition_frames < 0 || p.limits.silence_frames < 0 ||
        !std::isfinite(p.limits.silence_rms))
        refuse("a limit is negative or not finite");
    const int m = p.max_chunk_frames;
    if (m != 1 && m != 2 && m != 4 && m != 8 && m != 16)
        refuse("max_chunk_frames is " + std::to_string(m) + "; valid: 1, 2, 4, 8, 16");
    if (p.first_chunk_frames < 1) refuse("first_chunk_frames must be positive");
}

Session *Model::open(const ks_session_params &params) {
    check(params);
    const int slot = take_slot();
    try {
        auto session = std::make_unique<Session>(params, slot, lm_.n_codebooks());
        slow_.reset(slot);
        codec_.reset(slot);
        sessions_.push_back(std::move(session));
    } catch (...) {
        free_slot(slot);
        throw;
    }
    return sessions_.back().get();
}

void Model::close(Session *session) {
    auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto &s) { return s.get() == session; });
    if (found == sessions_.end()) return;
    free_slot(session->slot);
    sessions_.erase(found);
}

void Model::push(Session &session, const int32_t *ids, int n) {
    if (!lm_.interleaved) throw Error(KS_ERROR_STATE, "this model takes its whole text in the prompt");
    if (session.text_ended) throw Error(KS_ERROR_STATE, "no text can follow: the session was told so");
    if (!session.running()) throw Error(KS_ERROR_STATE, "the session has ended");
    if (!ids || n <= 0) throw Error(KS_ERROR_ARGUMENT, "the segment is empty");
    check_ids(ids, n, "segment id");
    session.segments.emplace_back(ids, ids + n);
}

void Model::end_text(Session &session) {
    if (!lm_.interleaved) throw Error(KS_ERROR_STATE, "this model takes its whole text in the prompt");
    session.text_ended = true;
}

std::vector<float> Model::state(const Session &session, ks_state which, int layer) const {
    auto slice = [&](const std::vector<float> &all, int n_layers) {
        const size_t n = all.size() / size_t(n_layers);
        return std::vector<float>(all.begin() + ptrdiff_t(n * size_t(layer)),
                                  all.begin() + ptrdiff_t(n * size_t(layer + 1)));
    };
    if (layer < 0 || layer >= slow_dims_.layers)
        throw Error(KS_ERROR_ARGUMENT, "layer " + std::to_string(layer) + " does not exist; valid: 0 to " +
                                           std::to_string(slow_dims_.layers - 1));
    switch (which) {
    case KS_STATE_HIDDEN:
        return session.hidden;
    case KS_STATE_LOGITS:
        return session.logits;
    case KS_STATE_FAST_LOGITS:
        return session.fast_logits;
    case KS_STATE_LAYER:
        return slice(session.layers, slow_dims_.layers);
    default:
        return slow_.state(which, layer, session.slot, session.position);
    }
}

} // namespace ks
