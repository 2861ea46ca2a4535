/*
 * Kestrel native engine: C ABI.
 *
 * One model holds the memory-mapped weights, the thread pool and the state of `n_slots` sequences; a session is one
 * utterance that occupies a slot. A model and all its sessions belong to one owner thread: no call on them may run at
 * the same time as another, except ks_session_cancel, which any thread may call.
 *
 * Every function that can fail returns a ks_status; ks_last_error() then describes the failure of the calling thread's
 * last failed call. No exception, exit or abort crosses this boundary.
 *
 * The Python binding hands the part between the two "cdef" marks to cffi as it stands: keep it free of preprocessor
 * lines, and of types other than fixed-width integers, float, double, char, structs, enums and pointers.
 */
#ifndef KESTREL_H
#define KESTREL_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define KS_API __declspec(dllexport)
#else
#define KS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* cdef: begin */

typedef struct ks_model ks_model;
typedef struct ks_session ks_session;
typedef struct ks_decoder ks_decoder;

enum ks_status {
    KS_OK = 0,
    KS_ERROR_ARGUMENT = 1, /* the caller passed something invalid; nothing changed */
    KS_ERROR_FILE = 2,     /* the file cannot be opened, is truncated, or is not GGUF */
    KS_ERROR_MODEL = 3,    /* a key or tensor of the model file is missing or wrong; the message names it */
    KS_ERROR_BUSY = 4,     /* no free slot */
    KS_ERROR_MEMORY = 5,   /* an allocation failed */
    KS_ERROR_STATE = 6,    /* the session has ended, or the call does not fit the model's text mode */
    KS_ERROR_INTERNAL = 7  /* a failure inside ggml or this library */
};

enum ks_backend { KS_BACKEND_AUTO = 0, KS_BACKEND_CPU = 1, KS_BACKEND_METAL = 2 };

/* Bits of ks_load_params.plain_ops: build the named part from stock ggml operations instead of our own kernels. */
enum ks_plain {
    KS_PLAIN_LINEAR = 1,    /* ggml_mul_mat instead of the batch-invariant kernel (AR stages) */
    KS_PLAIN_MAMBA = 2,     /* ssm_conv + ssm_scan instead of the fused Mamba-2 step */
    KS_PLAIN_ATTENTION = 4, /* padded K/V prefix under a mask instead of the slot-indexed kernel */
    KS_PLAIN_CONV = 8,      /* one mul_mat a tap instead of the packed convolution */
    KS_PLAIN_SNAKE = 16,    /* mul, sin, sqr, div, add instead of the fused snake */
    KS_PLAIN_ALL = 31
};

enum ks_phase { /* index into the phase arrays; the service adds queue, text, encode and send_wait */
                KS_PHASE_PREFILL = 0,
                KS_PHASE_SLOW_STEP = 1,
                KS_PHASE_SAMPLE = 2,
                KS_PHASE_FAST_GRAPH = 3,
                KS_PHASE_CODEC_BUILD = 4,
                KS_PHASE_CODEC_COMPUTE = 5,
                KS_PHASE_COUNT = 6
};

enum ks_finish {
    KS_FINISH_NONE = 0,       /* still running */
    KS_FINISH_EOS = 1,        /* the model ended the utterance */
    KS_FINISH_LENGTH = 2,     /* limits.max_frames, or limits.max_segment_frames after the last word */
    KS_FINISH_REPETITION = 3, /* the repetition guard ended a loop */
    KS_FINISH_SILENCE = 4,    /* the silence guard ended a murmur */
    KS_FINISH_CANCELLED = 5,  /* ks_session_cancel */
    KS_FINISH_CONTEXT = 6,    /* no position left in the model's context */
    KS_FINISH_NUMERIC = 7     /* the model's scores were not finite; other sessions are not affected */
};

enum ks_text_mode { KS_TEXT_PROMPT = 0, KS_TEXT_INTERLEAVED = 1 };

/* State a test can read back with ks_session_state. */
enum ks_state {
    KS_STATE_CONV = 0,
    KS_STATE_SSM = 1,
    KS_STATE_KEY = 2,
    KS_STATE_VALUE = 3,
    KS_STATE_HIDDEN = 4,
    KS_STATE_LOGITS = 5,
    KS_STATE_FAST_LOGITS = 6,
    KS_STATE_LAYER = 7
};

typedef struct ks_load_params {
    int32_t n_slots;       /* sequences that can run at once, 1 to 64; default 4 */
    int32_t n_threads;     /* compute threads, 0 = physical cores */
    int32_t backend;       /* ks_backend of the codec; the AR stages always run on the CPU */
    uint32_t plain_ops;    /* OR of ks_plain; 0 = own kernels */
    int32_t max_positions; /* text and audio positions a slot, 0 = the model's own limit */
    int32_t record;        /* not 0: keep per-layer outputs for ks_session_state (tests; costs a copy a layer) */
} ks_load_params;

typedef struct ks_model_info {
    int32_t sample_rate;    /* Hz */
    int32_t frame_size;     /* samples a frame */
    int32_t n_codebooks;    /* codes a frame, the semantic one included */
    int32_t n_semantic;     /* semantic codes: rows of the compact head before EOS and NEXT */
    int32_t semantic_begin; /* text-vocabulary id of semantic code 0 */
    int32_t n_vocab;        /* rows of the text embedding, semantic ids included */
    int32_t text_mode;      /* ks_text_mode */
    int32_t max_positions;  /* positions a slot */
    int32_t n_slots;
    int32_t n_threads;
    int32_t backend; /* ks_backend in use for the codec */
    int32_t slow_layers, slow_dim, fast_layers, fast_dim;
    int64_t n_parameters;
    int64_t weight_bytes;  /* mapped from the file */
    int64_t packed_bytes;  /* copies packed at load */
    int64_t state_bytes;   /* all slots together */
    int64_t compute_bytes; /* graph working memory planned so far */
} ks_model_info;

typedef struct ks_sampling {
    float temperature;      /* semantic token; <= 0: greedy, and no repetition-aware draw */
    float fast_temperature; /* codebooks 1 and up; <= 0: greedy */
    float top_p;            /* in (0, 1] */
    int32_t top_k;          /* 0 = no limit */
    int32_t ras_window;     /* repetition-aware sampling looks back this many tokens; 0 = off */
    float ras_temperature;
    float ras_top_p;
} ks_sampling;

typedef struct ks_limits {
    int32_t max_frames;         /* frame budget, > 0 */
    int32_t max_segment_frames; /* interleaved text: frames before NEXT or EOS is forced; 0 = off */
    int32_t repetition_frames;  /* end after this many frames that repeat with a period of 1 to 8; 0 = off */
    int32_t silence_frames;     /* end after this many frames below silence_rms; 0 = off */
    float silence_rms;          /* root mean square, full scale = 1 */
} ks_limits;

typedef struct ks_session_params {
    const int32_t
        *prompt;       /* [1 + n_codebooks][n_columns], row 0 = text-vocabulary ids, then codes (0 at text positions) */
    int32_t n_columns; /* > 0 */
    uint64_t seed;
    ks_sampling sampling;
    ks_limits limits;
    int32_t first_chunk_frames; /* frames of the first PCM chunk; later ones double up to max_chunk_frames */
    int32_t max_chunk_frames;   /* 1, 2, 4, 8 or 16 */
    int32_t decode;             /* 0: codes only, no codec */
} ks_session_params;

typedef struct ks_phase_clock {
    uint64_t ns;    /* monotonic time */
    uint64_t count; /* graph runs, draws or builds */
} ks_phase_clock;

typedef struct ks_session_status {
    int32_t finish;           /* ks_finish */
    int32_t frames;           /* frames generated */
    int32_t samples;          /* PCM samples ready for ks_session_read */
    int32_t segments;         /* interleaved text: text segments consumed */
    int32_t starved;          /* interleaved text: 1 while the session waits for ks_session_push */
    int32_t positions;        /* context positions used */
    ks_phase_clock phases[6]; /* the session's share: all sessions' shares add up to the step's time */
} ks_session_status;

KS_API const char *ks_version(void);
KS_API const char *ks_last_error(void);

KS_API void ks_load_params_default(ks_load_params *params);
/* Maps and checks `path`, packs weights and allocates all slots. Errors: FILE, MODEL, MEMORY, ARGUMENT. */
KS_API int32_t ks_model_load(const char *path, const ks_load_params *params, ks_model **out);
/* Frees the model and every session and decoder still open on it. */
KS_API void ks_model_free(ks_model *model);
KS_API int32_t ks_model_get_info(const ks_model *model, ks_model_info *out);
/* Sampling defaults written in the model file. */
KS_API int32_t ks_model_sampling(const ks_model *model, ks_sampling *out);
/* A string or byte-array value of the file's metadata; *data stays valid until ks_model_free. ERROR_MODEL if absent. */
KS_API int32_t ks_model_metadata(const ks_model *model, const char *key, const void **data, int64_t *size);
/* Engine-wide clocks since load, indexed by ks_phase. */
KS_API int32_t ks_model_phases(const ks_model *model, ks_phase_clock out[6]);

/* Takes a free slot. The prompt is copied; it is run by the session's first step. Errors: BUSY, ARGUMENT. */
KS_API int32_t ks_session_open(ks_model *model, const ks_session_params *params, ks_session **out);
/* Interleaved text only: appends one segment, fed to the model when it draws NEXT. `ids`: text-vocabulary ids. */
KS_API int32_t ks_session_push(ks_session *session, const int32_t *ids, int32_t n);
/* Interleaved text only: no segment follows; EOS becomes possible once all are consumed. */
KS_API int32_t ks_session_end_text(ks_session *session);
/* Advances n sessions of `model` by one frame each: one batched slow step, the fast codebooks, and the codec where a
 * chunk is complete. Sessions that have ended or starve for text are left as they are. On an internal error the
 * sessions of the call end with finish CANCELLED. */
KS_API int32_t ks_step(ks_model *model, ks_session *const *sessions, int32_t n);
KS_API int32_t ks_session_get_status(const ks_session *session, ks_session_status *out);
/* Moves up to `max` ready samples (mono, full scale 1) to `out`; *n = how many. */
KS_API int32_t ks_session_read(ks_session *session, float *out, int32_t max, int32_t *n);
/* Codes of frames [first, first + count): out is [count][n_codebooks]. */
KS_API int32_t ks_session_codes(const ks_session *session, int32_t first, int32_t count, int32_t *out);
/* Interleaved text: out[k] = frame at which segment k was taken, for k in [0, segments). */
KS_API int32_t ks_session_segment_frames(const ks_session *session, int32_t *out, int32_t max);
/* Any thread. The session ends before its next frame. */
KS_API void ks_session_cancel(ks_session *session);
/* Frees the session and its slot. */
KS_API void ks_session_close(ks_session *session);
/* Tests. Copies a state to `out` as float32 and returns its length in *n (out may be NULL to ask for it).
 * CONV [channels][conv - 1] oldest first, SSM [heads][head_dim][state], KEY and VALUE [positions][kv_heads][head_dim],
 * HIDDEN [slow_dim] after the final norm, LOGITS [n_semantic + 1 or 2]; only with load_params.record: FAST_LOGITS
 * [n_codebooks - 1][rows] of the last frame, LAYER [slow_dim] = output of slow layer `layer` at the last position. */
KS_API int32_t ks_session_state(const ks_session *session, int32_t state, int32_t layer, float *out, int64_t max,
                                int64_t *n);

/* A codec stream of its own (in a slot of its own): decodes codes without the AR stages. Errors: BUSY. */
KS_API int32_t ks_decoder_open(ks_model *model, ks_decoder **out);
/* codes: [n_codebooks][n_frames]; pcm: n_frames * frame_size samples. State carries over to the next call, so any
 * split into calls gives the same samples. Codes outside a codebook are clamped into it. */
KS_API int32_t ks_decoder_run(ks_decoder *decoder, const int32_t *codes, int32_t n_frames, float *pcm);
KS_API void ks_decoder_close(ks_decoder *decoder);

/* One operation on its own, for tests. `name`: conv1d, conv_transpose1d, depthwise, linear, snake, rms_norm,
 * layer_norm, window_attention. Inputs and their shapes are those of native/src/ops/<name>.h. plain: 1 = stock ggml
 * operations. */
typedef struct ks_array {
    const char *type; /* f32, f16, bf16, q8_0, i32 */
    int64_t shape[4]; /* slowest axis first, unused axes = 0 */
    const void *data;
} ks_array;
KS_API int32_t ks_op_run(const char *name, const ks_array *inputs, int32_t n_inputs, const int32_t *options,
                         int32_t n_options, int32_t plain, int32_t n_threads, float *out, int64_t n_out);

/* cdef: end */

#ifdef __cplusplus
}
#endif
#endif
