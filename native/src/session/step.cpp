// One frame for a set of sessions: read what is pending, draw the semantic token, fill the frame, decode what is due.
#include "error.h"
#include "session/model.h"
#include <algorithm>
#include <chrono>
#include <cmath>

namespace ks {

namespace {

uint64_t now_ns() {
    return uint64_t(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// A model can overflow on one text: that utterance ends, and its numbers touch nobody else's.
bool finite(const float *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!std::isfinite(values[i])) return false;
    return true;
}

float level(const float *pcm, int n) { // root mean square
    double sum = 0;
    for (int i = 0; i < n; i++) sum += double(pcm[i]) * double(pcm[i]);
    return float(std::sqrt(sum / n));
}

} // namespace

void Model::charge(Session &session, ks_phase phase, uint64_t ns, uint64_t count) {
    session.phases[phase].ns += ns;
    session.phases[phase].count += count;
    phases_[phase].ns += ns;
    phases_[phase].count += count;
}

void Model::step(const std::vector<Session *> &sessions) {
    try {
        advance(sessions);
    } catch (...) {
        // Some states may have moved and others not: none of these can go on.
        for (Session *s : sessions)
            if (s->running()) s->finish = KS_FINISH_CANCELLED;
        throw;
    }
}

void Model::advance(const std::vector<Session *> &all) {
    std::vector<Session *> reading;  // one column pending: they share a batched step
    std::vector<Session *> speaking; // have fresh logits, a frame follows
    for (Session *s : all) {
        if (!s->running()) continue;
        if (s->cancelled) {
            s->finish = KS_FINISH_CANCELLED;
            continue;
        }
        if (s->wants_segment) { // starved at its last step
            if (s->segments.empty() && !s->text_ended) continue;
            if (!s->segments.empty()) s->queue_segment();
            s->wants_segment = false;
        }
        if (s->position + s->pending_columns() > slow_dims_.attention.capacity)
            s->finish = KS_FINISH_CONTEXT;
        else if (s->frames() > 0 && s->pending_columns() == 1)
            reading.push_back(s);
        else if (s->pending_columns() > 0)
            prefill(*s);
        if (s->running())
            speaking.push_back(s);
        else
            decode_ready(*s);
    }
    if (!reading.empty()) slow_step(reading);

    std::vector<Session *> frames;
    std::vector<int> semantic;
    for (Session *s : speaking) {
        const int code = next_semantic(*s);
        if (code >= 0) {
            frames.push_back(s);
            semantic.push_back(code);
        }
    }
    if (!frames.empty()) fast_frames(frames, semantic);
    for (Session *s : speaking) decode_ready(*s);
}

// Runs everything pending of one session, in bounded calls. One session at a time: its result cannot depend on others.
void Model::prefill(Session &session) {
    const uint64_t start = now_ns();
    const int rows = 1 + session.n_codebooks, total = session.pending_columns();
    SlowInput input;
    SlowOutput output;
    input.slots = {session.slot};
    uint64_t calls = 0;
    for (int done = 0; done < total;) {
        const int n = std::min(total - done, SlowStage::PREFILL_COLUMNS);
        input.positions = {session.position};
        input.tokens_each = n;
        input.embedded.resize(size_t(n) * size_t(slow_dims_.dim));
        for (int t = 0; t < n; t++)
            slow_.embed(&session.pending[size_t(done + t) * rows], &input.embedded[size_t(t) * slow_dims_.dim]);
        slow_.run(input, output);
        session.position += n;
        done += n;
        calls++;
    }
    session.pending.clear();
    session.hidden = output.hidden;
    session.logits = output.logits;
    session.layers = output.layers;
    charge(session, KS_PHASE_PREFILL, now_ns() - start, calls);
}

// The last frames of several sessions in one graph.
void Model::slow_step(const std::vector<Session *> &sessions) {
    const uint64_t start = now_ns();
    const size_t n = sessions.size(), d = size_t(slow_dims_.dim), rows = size_t(lm_.head_rows());
    SlowInput input;
    SlowOutput output;
    input.embedded.resize(n * d);
    for (size_t i = 0; i < n; i++) {
        input.slots.push_back(sessions[i]->slot);
        input.positions.push_back(sessions[i]->position);
        slow_.embed(sessions[i]->pending.data(), &input.embedded[i * d]);
    }
    slow_.run(input, output);
    const uint64_t share = (now_ns() - start) / n;
    for (size_t i = 0; i < n; i++) {
        Session &s = *sessions[i];
        s.position++;
        s.pending.clear();
        s.hidden.assign(&output.hidden[i * d], &output.hidden[i * d] + d);
        s.logits.assign(&output.logits[i * rows], &output.logits[i * rows] + rows);
        s.layers.clear();
        for (size_t l = 0; l * n * d < output.layers.size(); l++)
            s.layers.insert(s.layers.end(), &output.layers[(l * n + i) * d], &output.layers[(l * n + i) * d] + d);
        charge(s, KS_PHASE_SLOW_STEP, share, 1);
    }
}

int Model::draw(Session &s) {
    const uint64_t start = now_ns();
    if (!finite(s.logits.data(), s.logits.size())) return -1;
    std::vector<float> scores = s.logits;
    if (lm_.has_next) { // NEXT while text is left, the end only after it
        const bool text_left = !s.segments.empty() || !s.text_ended;
        scores[size_t(text_left ? lm_.eos_class() : lm_.next_class())] = -INFINITY;
    }
    const int token =
        draw_semantic(scores.data(), int(scores.size()), lm_.eos_class(), s.sampling, s.recent, s.seed, s.draws);
    s.draws++;
    charge(s, KS_PHASE_SAMPLE, now_ns() - start, 1);
    return token;
}

int Model::next_semantic(Session &s) {
    for (;;) {
        const bool overdue =
            lm_.has_next && s.limits.max_segment_frames > 0 && s.segment_frames >= s.limits.max_segment_frames;
        const bool text_left = !s.segments.empty() || !s.text_ended;
        const int token = overdue ? (text_left ? lm_.next_class() : lm_.eos_class()) : draw(s);
        if (token < 0) {
            s.finish = KS_FINISH_NUMERIC;
            return -1;
        }
        if (token == lm_.eos_class()) {
            s.finish = overdue ? KS_FINISH_LENGTH : KS_FINISH_EOS; // forced: the model itself has not ended
            return -1;
        }
        if (token < lm_.semantic_size) {
            s.recent.push(token);
            return token;
        }
        // NEXT: read the next segment and draw again from the position after it.
        if (s.segments.empty()) {
            s.wants_segment = true;
            return -1;
        }
        s.queue_segment();
        if (s.position + s.pending_columns() > slow_dims_.attention.capacity) {
            s.finish = KS_FINISH_CONTEXT;
            return -1;
        }
        prefill(s);
    }
}

void Model::fast_frames(const std::vector<Session *> &sessions, const std::vector<int> &semantic) {
    const uint64_t start = now_ns();
    const size_t n = sessions.size(), d = size_t(slow_dims_.dim);
    const int n_codebooks = lm_.n_codebooks();
    std::vector<int> slots;
    std::vector<float> hidden;
    for (Session *s : sessions) {
        slots.push_back(s->slot);
        hidden.insert(hidden.end(), s->hidden.begin(), s->hidden.begin() + ptrdiff_t(d));
        s->fast_logits.clear();
    }
    std::vector<int32_t> codes(n * size_t(n_codebooks));
    uint64_t sampling_ns = 0;
    fast_.run(
        slots, hidden.data(), semantic.data(),
        [&](int i, int codebook, const float *logits) {
            const uint64_t begin = now_ns();
            Session &s = *sessions[size_t(i)];
            if (!finite(logits, size_t(lm_.residual_size))) {
                s.finish = KS_FINISH_NUMERIC; // its frame is dropped below
                return 0;
            }
            if (params_.record) s.fast_logits.insert(s.fast_logits.end(), logits, logits + lm_.residual_size);
            const int code = draw_code(logits, lm_.residual_size, s.sampling, s.seed, s.draws, codebook);
            const uint64_t ns = now_ns() - begin;
            charge(s, KS_PHASE_SAMPLE, ns, 1);
            sampling_ns += ns;
            return code;
        },
        codes.data());
    const uint64_t share = (now_ns() - start - sampling_ns) / n;
    for (size_t i = 0; i < n; i++) {
        Session &s = *sessions[i];
        charge(s, KS_PHASE_FAST_GRAPH, share, uint64_t(std::max(1, n_codebooks - 1)));
        if (!s.running()) continue;
        const int32_t *frame = &codes[i * size_t(n_codebooks)];
        s.codes.insert(s.codes.end(), frame, frame + n_codebooks);
        s.segment_frames++;
        s.pending.push_back(lm_.semantic_begin + frame[0]); // the column the next step reads
        s.pending.insert(s.pending.end(), frame, frame + n_codebooks);
        if (s.repetition.trips(frame[0]))
            s.finish = KS_FINISH_REPETITION;
        else if (s.frames() >= s.limits.max_frames)
            s.finish = KS_FINISH_LENGTH;
    }
}

// Decodes once a chunk is complete, and all that is left when the session has ended.
void Model::decode_ready(Session &s) {
    if (!s.decode || s.finish == KS_FINISH_CANCELLED) return;
    for (;;) {
        const int left = s.frames() - s.decoded_frames;
        if (left <= 0 || (s.running() && left < s.chunk_frames)) return;
        const int n = std::min(left, s.chunk_frames);
        std::vector<int32_t> codes(size_t(n) * size_t(s.n_codebooks)); // [n_codebooks][n]
        for (int t = 0; t < n; t++)
            for (int j = 0; j < s.n_codebooks; j++)
                codes[size_t(j) * n + t] = s.codes[size_t(s.decoded_frames + t) * s.n_codebooks + j];
        const size_t before = s.pcm.size();
        s.pcm.resize(before + size_t(n) * size_t(codec_.frame_size()));
        CodecClock clock;
        codec_.decode(s.slot, codes.data(), n, &s.pcm[before], clock);
        charge(s, KS_PHASE_CODEC_BUILD, clock.build_ns, clock.builds);
        charge(s, KS_PHASE_CODEC_COMPUTE, clock.compute_ns, clock.computes);
        s.decoded_frames += n;
        s.chunk_frames = std::min(s.max_chunk_frames, s.chunk_frames * 2);
        for (int t = 0; t < n; t++)
            if (s.silence.trips(level(&s.pcm[before + size_t(t) * codec_.frame_size()], codec_.frame_size())) &&
                s.running())
                s.finish = KS_FINISH_SILENCE;
    }
}

} // namespace ks
