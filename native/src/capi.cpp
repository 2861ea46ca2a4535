// The C ABI: argument checks, and the border no exception crosses.
#include "error.h"
#include "ops/op_run.h"
#include "session/model.h"
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>

using ks::Error;

struct ks_model {
    ks::Model model;
    std::set<ks_session *> sessions;
    std::set<ks_decoder *> decoders;
    ks_model(const char *path, const ks_load_params &params) : model(path, params) {}
    ~ks_model();
};

struct ks_session {
    ks_model *owner;
    ks::Session *session;
};

struct ks_decoder {
    ks_model *owner;
    int slot;
};

ks_model::~ks_model() {
    for (ks_session *s : sessions) delete s;
    for (ks_decoder *d : decoders) delete d;
}

namespace {

thread_local std::string last_error;
thread_local int guard_depth = 0;     // > 0: this thread is inside guarded()
thread_local std::string ggml_detail; // what ggml logged during the call

void on_abort(const char *message) {
    // Leaves ggml_abort by exception where this library's caller can be told; on any other thread ggml aborts.
    if (guard_depth > 0) throw Error(KS_ERROR_INTERNAL, std::string("ggml: ") + message);
}

void on_log(ggml_log_level level, const char *text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR && ggml_detail.size() < 1000) ggml_detail += text;
}

void install_callbacks() {
    static std::once_flag once;
    std::call_once(once, [] {
        ggml_set_abort_callback(on_abort);
        ggml_log_set(on_log, nullptr);
    });
}

int32_t failed(ks_status status, const std::string &message) {
    last_error = message;
    while (!ggml_detail.empty() && (ggml_detail.back() == '\n' || ggml_detail.back() == ' ')) ggml_detail.pop_back();
    if (!ggml_detail.empty()) last_error += " (" + ggml_detail + ")";
    return status;
}

template <class Call> int32_t guarded(Call call) noexcept {
    try {
        install_callbacks();
        ggml_detail.clear();
        guard_depth++;
        try {
            call();
        } catch (...) {
            guard_depth--;
            throw;
        }
        guard_depth--;
        return KS_OK;
    } catch (const Error &e) {
        return failed(e.status, e.what());
    } catch (const std::bad_alloc &) {
        return failed(KS_ERROR_MEMORY, "out of memory");
    } catch (const std::exception &e) {
        return failed(KS_ERROR_INTERNAL, e.what());
    } catch (...) {
        return failed(KS_ERROR_INTERNAL, "unknown failure");
    }
}

void need(bool given, const char *what) {
    if (!given) throw Error(KS_ERROR_ARGUMENT, std::string(what) + " is missing");
}

} // namespace

extern "C" {

const char *ks_version(void) {
    return KESTREL_VERSION;
}
const char *ks_last_error(void) {
    return last_error.c_str();
}

void ks_load_params_default(ks_load_params *params) {
    if (!params) return;
    *params = {};
    params->n_slots = 4;
}

int32_t ks_model_load(const char *path, const ks_load_params *params, ks_model **out) {
    return guarded([&] {
        need(path && out, "path or out");
        *out = nullptr;
        ks_load_params p;
        ks_load_params_default(&p);
        if (params) p = *params;
        if (p.n_slots < 1 || p.n_slots > 64) throw Error(KS_ERROR_ARGUMENT, "n_slots must be 1 to 64");
        if (p.n_threads < 0 || p.n_threads > 512) throw Error(KS_ERROR_ARGUMENT, "n_threads must be 0 to 512");
        if (p.backend < KS_BACKEND_AUTO || p.backend > KS_BACKEND_METAL)
            throw Error(KS_ERROR_ARGUMENT, "backend must be 0 (auto), 1 (cpu) or 2 (metal)");
        if (p.max_positions < 0) throw Error(KS_ERROR_ARGUMENT, "max_positions must not be negative");
        *out = new ks_model(path, p);
    });
}

void ks_model_free(ks_model *model) {
    guarded([&] { delete model; });
}

int32_t ks_model_get_info(const ks_model *model, ks_model_info *out) {
    return guarded([&] {
        need(model && out, "model or out");
        *out = model->model.info();
    });
}

int32_t ks_model_sampling(const ks_model *model, ks_sampling *out) {
    return guarded([&] {
        need(model && out, "model or out");
        *out = model->model.sampling();
    });
}

int32_t ks_model_metadata(const ks_model *model, const char *key, const void **data, int64_t *size) {
    return guarded([&] {
        need(model && key && data && size, "model, key, data or size");
        const auto bytes = model->model.file().bytes(key);
        *data = bytes.first;
        *size = int64_t(bytes.second);
    });
}

int32_t ks_model_phases(const ks_model *model, ks_phase_clock out[6]) {
    return guarded([&] {
        need(model && out, "model or out");
        std::copy(model->model.phases(), model->model.phases() + KS_PHASE_COUNT, out);
    });
}

int32_t ks_session_open(ks_model *model, const ks_session_params *params, ks_session **out) {
    return guarded([&] {
        need(model && params && out, "model, params or out");
        *out = nullptr;
        auto handle = std::make_unique<ks_session>(ks_session{model, nullptr});
        model->sessions.insert(handle.get());
        try {
            handle->session = model->model.open(*params);
        } catch (...) {
            model->sessions.erase(handle.get());
            throw;
        }
        *out = handle.release();
    });
}

int32_t ks_session_push(ks_session *session, const int32_t *ids, int32_t n) {
    return guarded([&] {
        need(session, "session");
        session->owner->model.push(*session->session, ids, n);
    });
}

int32_t ks_session_end_text(ks_session *session) {
    return guarded([&] {
        need(session, "session");
        session->owner->model.end_text(*session->session);
    });
}

int32_t ks_step(ks_model *model, ks_session *const *sessions, int32_t n) {
    return guarded([&] {
        need(model && (sessions || n == 0), "model or sessions");
        std::vector<ks::Session *> set;
        for (int32_t i = 0; i < n; i++) {
            need(sessions[i], "a session");
            if (sessions[i]->owner != model) throw Error(KS_ERROR_ARGUMENT, "a session belongs to another model");
            if (std::find(set.begin(), set.end(), sessions[i]->session) != set.end())
                throw Error(KS_ERROR_ARGUMENT, "a session is listed twice");
            set.push_back(sessions[i]->session);
        }
        model->model.step(set);
    });
}

int32_t ks_session_get_status(const ks_session *session, ks_session_status *out) {
    return guarded([&] {
        need(session && out, "session or out");
        const ks::Session &s = *session->session;
        *out = {};
        out->finish = s.finish;
        out->frames = s.frames();
        out->samples = int32_t(s.pcm.size() - s.pcm_read);
        out->segments = int32_t(s.segment_starts.size());
        out->starved = s.running() && s.wants_segment && s.segments.empty() && !s.text_ended;
        out->positions = s.position;
        std::copy(s.phases, s.phases + KS_PHASE_COUNT, out->phases);
    });
}

int32_t ks_session_read(ks_session *session, float *out, int32_t max, int32_t *n) {
    return guarded([&] {
        need(session && n && (out || max == 0), "session, out or n");
        if (max < 0) throw Error(KS_ERROR_ARGUMENT, "max must not be negative");
        ks::Session &s = *session->session;
        *n = int32_t(std::min<size_t>(size_t(max), s.pcm.size() - s.pcm_read));
        if (*n) std::memcpy(out, s.pcm.data() + s.pcm_read, size_t(*n) * sizeof(float));
        s.pcm_read += size_t(*n);
        if (s.pcm_read == s.pcm.size()) {
            s.pcm.clear();
            s.pcm_read = 0;
        }
    });
}

int32_t ks_session_codes(const ks_session *session, int32_t first, int32_t count, int32_t *out) {
    return guarded([&] {
        need(session && (out || count == 0), "session or out");
        const ks::Session &s = *session->session;
        if (first < 0 || count < 0 || count > s.frames() - first)
            throw Error(KS_ERROR_ARGUMENT, "frames " + std::to_string(first) + " + " + std::to_string(count) +
                                               " do not exist; there are " + std::to_string(s.frames()));
        std::copy_n(s.codes.begin() + ptrdiff_t(first) * s.n_codebooks, size_t(count) * size_t(s.n_codebooks), out);
    });
}

int32_t ks_session_segment_frames(const ks_session *session, int32_t *out, int32_t max) {
    return guarded([&] {
        need(session && (out || max == 0), "session or out");
        const auto &starts = session->session->segment_starts;
        std::copy_n(starts.begin(), std::min<size_t>(starts.size(), size_t(std::max(0, max))), out);
    });
}

void ks_session_cancel(ks_session *session) {
    if (session) session->session->cancelled = true;
}

void ks_session_close(ks_session *session) {
    guarded([&] {
        if (!session) return;
        session->owner->model.close(session->session);
        session->owner->sessions.erase(session);
        delete session;
    });
}

int32_t ks_session_state(const ks_session *session, int32_t state, int32_t layer, float *out, int64_t max, int64_t *n) {
    return guarded([&] {
        need(session && n, "session or n");
        if (state < KS_STATE_CONV || state > KS_STATE_LAYER)
            throw Error(KS_ERROR_ARGUMENT, "state is " + std::to_string(state) + "; valid: 0 to 7");
        const std::vector<float> values = session->owner->model.state(*session->session, ks_state(state), layer);
        *n = int64_t(values.size());
        if (!out) return;
        if (max < *n) throw Error(KS_ERROR_ARGUMENT, "out holds fewer than " + std::to_string(*n) + " values");
        std::copy(values.begin(), values.end(), out);
    });
}

int32_t ks_decoder_open(ks_model *model, ks_decoder **out) {
    return guarded([&] {
        need(model && out, "model or out");
        *out = nullptr;
        auto decoder = std::make_unique<ks_decoder>(ks_decoder{model, -1});
        model->decoders.insert(decoder.get());
        try {
            decoder->slot = model->model.take_slot();
        } catch (...) {
            model->decoders.erase(decoder.get());
            throw;
        }
        model->model.codec().reset(decoder->slot);
        *out = decoder.release();
    });
}

int32_t ks_decoder_run(ks_decoder *decoder, const int32_t *codes, int32_t n_frames, float *pcm) {
    return guarded([&] {
        need(decoder && codes && pcm, "decoder, codes or pcm");
        if (n_frames < 1) throw Error(KS_ERROR_ARGUMENT, "n_frames must be positive");
        ks::CodecClock clock;
        decoder->owner->model.codec().decode(decoder->slot, codes, n_frames, pcm, clock);
    });
}

void ks_decoder_close(ks_decoder *decoder) {
    guarded([&] {
        if (!decoder) return;
        decoder->owner->model.free_slot(decoder->slot);
        decoder->owner->decoders.erase(decoder);
        delete decoder;
    });
}

int32_t ks_op_run(const char *name, const ks_array *inputs, int32_t n_inputs, const int32_t *options, int32_t n_options,
                  int32_t plain, int32_t n_threads, float *out, int64_t n_out) {
    return guarded([&] {
        need(name && inputs && out, "name, inputs or out");
        ks::op_run(name, inputs, n_inputs, options, n_options, plain != 0, n_threads, out, n_out);
    });
}

} // extern "C"
