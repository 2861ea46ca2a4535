#include "op_run.h"
#include "conv1d.h"
#include "depthwise.h"
#include "error.h"
#include "linear.h"
#include "model_file.h"
#include "norm.h"
#include "snake.h"
#include "window_attention.h"
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace ks {

namespace {

[[noreturn]] void refuse(const std::string &message) {
    throw Error(KS_ERROR_ARGUMENT, message);
}

ggml_type type_of(const std::string &name) {
    for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_I32})
        if (name == ggml_type_name(type)) return type;
    refuse("array type '" + name + "' is unknown; valid: f32, f16, bf16, q8_0, i32");
}

// The call under way: its inputs as tensors, and everything its node needs to outlive the graph.
struct Call {
    const char *name;
    std::vector<ggml_tensor *> inputs; // filled with the caller's data
    std::vector<int32_t> options;
    bool plain;
    Graph &graph;
    Scratch &scratch;
    ggml_context *constants;
    std::deque<std::vector<float>> kept;

    bool has(size_t i) const { return i < inputs.size(); }
    // Input i with its shape, slowest axis first; -1 takes any length.
    ggml_tensor *array(size_t i, const char *what, const std::vector<int64_t> &shape, bool half_allowed = false) const {
        ggml_tensor *t = inputs[i];
        bool same = true;
        std::string expected;
        for (size_t axis = 0; axis < GGML_MAX_DIMS; axis++) {
            const int64_t want = axis < shape.size() ? shape[shape.size() - 1 - axis] : 1;
            same = same && (want < 0 || t->ne[axis] == want);
        }
        for (int64_t n : shape) expected += (expected.empty() ? "" : ", ") + (n < 0 ? "any" : std::to_string(n));
        if (!same) refuse(std::string(name) + ": " + what + " must have shape [" + expected + "]");
        if (t->type != GGML_TYPE_F32 && !(half_allowed && t->type == GGML_TYPE_F16))
            refuse(std::string(name) + ": " + what + " must be f32" + (half_allowed ? " or f16" : ""));
        return t;
    }
    int64_t option(size_t i, const char *what, int64_t min, int64_t max) const {
        if (options[i] < min || options[i] > max)
            refuse(std::string(name) + ": " + what + " is " + std::to_string(options[i]) +
                   "; valid: " + std::to_string(min) + " to " + std::to_string(max));
        return options[i];
    }
    // A tensor of our own with the given values, or zeros.
    ggml_tensor *constant(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, const void *data) {
        ggml_tensor *t = ggml_new_tensor_3d(constants, type, ne0, ne1, ne2);
        kept.emplace_back((ggml_nbytes(t) + sizeof(float) - 1) / sizeof(float), 0.0f);
        t->data = kept.back().data();
        if (data) std::memcpy(t->data, data, ggml_nbytes(t));
        return t;
    }
    // The optional input i, or zeros, as a history of `columns`; null when there are none.
    ggml_tensor *history(size_t i, int64_t channels, int64_t columns) {
        if (has(i)) array(i, "history", {columns, channels});
        if (columns == 0) return nullptr;
        return constant(GGML_TYPE_F32, channels, columns, 1, has(i) ? inputs[i]->data : nullptr);
    }
};

ggml_tensor *run_taps(Call &call, const ConvTaps &taps, ggml_tensor *x) {
    const ConvShape &shape = taps.shape;
    ggml_tensor *history = call.history(3, shape.in, shape.left());
    if (!call.plain) {
        // Without a history the kernel's own zero padding is tested, not a history of zeros.
        const PackedConv *packed = call.graph.keep(PackedConv(taps));
        return conv1d(call.graph, *packed, call.scratch, x, call.has(3) ? history : nullptr);
    }
    ggml_tensor *w = call.constant(GGML_TYPE_F32, shape.in, shape.out, shape.kernel, taps.weights.data());
    ggml_tensor *bias = call.constant(GGML_TYPE_F32, shape.out, 1, 1, taps.bias.data());
    return conv1d_plain(call.graph, shape, w, bias, x, history);
}

ggml_tensor *run_conv1d(Call &call) {
    ggml_tensor *w = call.array(1, "weight", {-1, -1, -1}, true); // [out, in, kernel]
    ggml_tensor *x = call.array(0, "x", {-1, w->ne[1]});
    ggml_tensor *bias = call.array(2, "bias", {w->ne[2]});
    return run_taps(call, taps_of_conv(w, bias, call.option(0, "dilation", 1, 1024)), x);
}

ggml_tensor *run_conv_transpose1d(Call &call) {
    ggml_tensor *w = call.array(1, "weight", {-1, -1, -1}, true); // [in, out, kernel]
    ggml_tensor *x = call.array(0, "x", {-1, w->ne[2]});
    ggml_tensor *bias = call.array(2, "bias", {w->ne[1]});
    const int64_t stride = call.option(0, "stride", 1, w->ne[0]);
    if (w->ne[0] % stride != 0) refuse("conv_transpose1d: the kernel must be a multiple of the stride");
    ggml_tensor *y = run_taps(call, taps_of_conv_transpose(w, bias, stride), x);
    return ggml_reshape_2d(call.graph.ctx(), y, w->ne[1], stride * y->ne[1]);
}

ggml_tensor *run_depthwise(Call &call) {
    ggml_tensor *w = call.array(1, "weight", {-1, -1}); // [channels, kernel]
    ggml_tensor *x = call.array(0, "x", {-1, w->ne[1]});
    const DepthwiseTaps *taps = call.graph.keep(taps_of_depthwise(w, call.array(2, "bias", {w->ne[1]})));
    ggml_tensor *history = call.history(3, taps->channels, taps->left());
    if (!call.plain) return depthwise(call.graph, *taps, x, call.has(3) ? history : nullptr);
    return depthwise_plain(call.graph,
                           call.constant(GGML_TYPE_F32, taps->channels, taps->kernel, 1, taps->weights.data()),
                           call.constant(GGML_TYPE_F32, taps->channels, 1, 1, taps->bias.data()), x, history);
}

ggml_tensor *run_snake(Call &call) {
    ggml_tensor *x = call.array(0, "x", {-1, -1});
    ggml_tensor *alpha = call.array(1, "alpha", {x->ne[0]});
    std::vector<float> values = to_f32(alpha);
    if (!call.plain) return snake(call.graph, *call.graph.keep(snake_taps(values)), x);
    for (float &value : values) value += 1e-9f;
    return snake_plain(call.graph, alpha, call.constant(GGML_TYPE_F32, x->ne[0], 1, 1, values.data()), x);
}

ggml_tensor *run_linear(Call &call) {
    ggml_tensor *w = call.inputs[1]; // [out, in]
    if (w->type == GGML_TYPE_I32 || w->ne[2] != 1 || w->ne[3] != 1)
        refuse("linear: weight must be [out, in] of f32, f16, bf16 or q8_0");
    return linear(call.graph, w, call.array(0, "x", {-1, w->ne[0]}), call.plain);
}

float eps_of(Call &call, size_t i) {
    return *static_cast<const float *>(call.array(i, "eps", {1})->data);
}

ggml_tensor *run_rms_norm(Call &call) {
    ggml_tensor *x = call.array(0, "x", {-1, -1});
    return rms_norm(call.graph, x, call.array(1, "weight", {x->ne[0]}), eps_of(call, 2));
}

ggml_tensor *run_layer_norm(Call &call) {
    ggml_tensor *x = call.array(0, "x", {-1, -1});
    return layer_norm(call.graph, x, call.array(1, "weight", {x->ne[0]}), call.array(2, "bias", {x->ne[0]}),
                      eps_of(call, 3));
}

ggml_tensor *run_window_attention(Call &call) {
    AttentionShape shape;
    shape.heads = call.option(0, "heads", 1, 256);
    shape.kv_heads = call.option(1, "kv_heads", 1, shape.heads);
    shape.head_dim = call.option(2, "head_dim", 2, 1024);
    shape.window = call.option(3, "window", 1, 65536);
    if (shape.heads % shape.kv_heads != 0) refuse("window_attention: heads must be a multiple of kv_heads");
    if (shape.head_dim % 2 != 0) refuse("window_attention: head_dim must be even");
    ggml_tensor *qkv = call.array(0, "qkv", {-1, shape.width()});
    const int64_t frames = qkv->ne[1], left = shape.left();
    const int64_t past = call.has(2) ? call.array(2, "history", {-1, shape.kv_width()})->ne[1] : 0;
    if (past > left) refuse("window_attention: history must have at most window - 1 rows");
    ggml_tensor *history = left > 0 ? call.constant(GGML_TYPE_F32, shape.kv_width(), left, 1, nullptr) : nullptr;
    if (past > 0) {
        const size_t bytes = ggml_nbytes(call.inputs[2]);
        std::memcpy(static_cast<char *>(history->data) + ggml_nbytes(history) - bytes, call.inputs[2]->data, bytes);
    }
    AttentionInputs inputs;
    inputs.rotation = call.array(1, "rotation", {frames, shape.head_dim});
    const int32_t past_columns = int32_t(past);
    inputs.past = call.constant(GGML_TYPE_I32, 1, 1, 1, &past_columns);
    inputs.mask = call.constant(GGML_TYPE_F32, left + frames, frames, 1, attention_mask(shape, past, frames).data());
    return call.plain ? window_attention_plain(call.graph, shape, inputs, qkv, history)
                      : window_attention(call.graph, shape, call.scratch, inputs, qkv, history);
}

struct Operation {
    const char *name;
    int min_inputs, max_inputs, options;
    ggml_tensor *(*run)(Call &);
};

// Every operation that can be run on its own. A new one needs a row here and its shapes in its header.
constexpr Operation operations[] = {
    {"conv1d", 3, 4, 1, run_conv1d},         {"conv_transpose1d", 3, 4, 1, run_conv_transpose1d},
    {"depthwise", 3, 4, 0, run_depthwise},   {"linear", 2, 2, 0, run_linear},
    {"snake", 2, 2, 0, run_snake},           {"rms_norm", 3, 3, 0, run_rms_norm},
    {"layer_norm", 4, 4, 0, run_layer_norm}, {"window_attention", 2, 3, 4, run_window_attention},
};

const Operation &find(const char *name) {
    std::string names;
    for (const Operation &operation : operations) {
        if (name && std::strcmp(name, operation.name) == 0) return operation;
        names += std::string(names.empty() ? "" : ", ") + operation.name;
    }
    refuse("operation '" + std::string(name ? name : "(null)") + "' is unknown; valid: " + names);
}

// The caller's array as a tensor over its own data.
ggml_tensor *tensor_of(ggml_context *ctx, const ks_array &array, const std::string &where) {
    if (!array.type || !array.data) refuse(where + ": type and data must not be NULL");
    const ggml_type type = type_of(array.type);
    int64_t ne[GGML_MAX_DIMS];
    int rank = 0;
    while (rank < GGML_MAX_DIMS && array.shape[rank] > 0) rank++;
    for (int i = rank; i < GGML_MAX_DIMS; i++)
        if (array.shape[i] != 0) refuse(where + ": axes must be positive, unused ones 0 and last");
    if (rank == 0) refuse(where + ": needs at least one axis");
    int64_t total = 1;
    for (int i = 0; i < rank; i++) {
        ne[i] = array.shape[rank - 1 - i];
        if (ne[i] > (int64_t(1) << 31) / total) refuse(where + ": has too many elements");
        total *= ne[i];
    }
    if (ne[0] % ggml_blck_size(type) != 0)
        refuse(where + ": the last axis must be a multiple of " + std::to_string(ggml_blck_size(type)));
    ggml_tensor *t = ggml_new_tensor(ctx, type, rank, ne);
    t->data = const_cast<void *>(array.data);
    return t;
}

} // namespace

void op_run(const char *name, const ks_array *inputs, int n_inputs, const int32_t *options, int n_options, bool plain,
            int n_threads, float *out, int64_t n_out) {
    const Operation &operation = find(name);
    const std::string prefix = std::string(name) + ": ";
    if (n_inputs < operation.min_inputs || n_inputs > operation.max_inputs || !inputs)
        refuse(prefix + "takes " + std::to_string(operation.min_inputs) + " to " +
               std::to_string(operation.max_inputs) + " inputs");
    if (n_options != operation.options || (n_options > 0 && !options))
        refuse(prefix + "takes " + std::to_string(operation.options) + " options");
    if (!out) refuse(prefix + "out must not be NULL");
    if (n_threads < 0 || n_threads > 64) refuse(prefix + "n_threads must be 0 to 64");

    ggml_init_params params = {};
    params.mem_size = ggml_tensor_overhead() * 32;
    params.no_alloc = true;
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> constants(ggml_init(params), ggml_free);
    if (!constants) throw Error(KS_ERROR_MEMORY, prefix + "out of memory");
    Backend backend(n_threads, KS_BACKEND_CPU, plain);
    Scratch scratch(backend.n_threads());
    Graph graph(1024, backend.pool());
    Call call = {operation.name, {}, {}, plain, graph, scratch, constants.get(), {}};
    for (int i = 0; i < n_inputs; i++)
        call.inputs.push_back(tensor_of(constants.get(), inputs[i], prefix + "input " + std::to_string(i)));
    if (n_options > 0) call.options.assign(options, options + n_options);

    ggml_tensor *result = operation.run(call);
    if (ggml_nelements(result) != n_out)
        refuse(prefix + "the result has " + std::to_string(ggml_nelements(result)) + " elements, out holds " +
               std::to_string(n_out));
    graph.output(result);
    graph.plan(backend.cpu());
    graph.compute();
    ggml_backend_tensor_get(result, out, 0, ggml_nbytes(result));
}

} // namespace ks
