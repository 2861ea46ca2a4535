#include "ar/slow.h"
#include "error.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace ks {

namespace {
constexpr int BUCKET = 128;       // K/V positions a masked plan grows by
constexpr size_t MAX_PLANS = 256; // prefill lengths and slot sets come and go; the oldest key is dropped beyond this
} // namespace

SlowStage::SlowStage(ModelFile &file, const LmDims &lm, const SlowDims &dims, Backend &backend, int n_slots,
                     uint32_t plain_ops, bool record)
    : lm_(lm), dims_(dims), backend_(backend), plain_linear_(plain_ops & KS_PLAIN_LINEAR),
      plain_mamba_(plain_ops & KS_PLAIN_MAMBA), plain_attention_(plain_ops & KS_PLAIN_ATTENTION), record_(record),
      home_(size_t(dims.layers) * 5 + 1) {
    const int64_t d = dims.dim;
    const MambaDims &m = dims.mamba;
    embed_tokens_ = file.tensor("embed_tokens.weight", {lm.vocab, d}, Kind::embedding);
    codebook_embeddings_ = file.tensor("codebook_embeddings.weight",
                                       {lm.codebook_offsets.back() + lm.codebook_sizes.back(), d}, Kind::embedding);
    norm_ = file.tensor("slow.norm.weight", {d}, Kind::plain);
    head_ = file.tensor("semantic_output.weight", {lm.head_rows(), d}, Kind::linear);
    std::vector<std::vector<float>> decays;
    for (int l = 0; l < dims.layers; l++) {
        const std::string p = "slow." + std::to_string(l) + ".";
        Layer w = {};
        w.input_norm = file.tensor(p + "input_norm.weight", {d}, Kind::plain);
        w.ffn_norm = file.tensor(p + "ffn_norm.weight", {d}, Kind::plain);
        w.in_proj = file.tensor(p + "mamba.in_proj.weight", {m.projected(), d}, Kind::linear);
        w.out_proj = file.tensor(p + "mamba.out_proj.weight", {d, m.inner}, Kind::linear);
        w.mamba.conv_weight = file.tensor(p + "mamba.conv.weight", {m.channels(), m.conv}, Kind::plain);
        w.mamba.conv_bias = file.tensor(p + "mamba.conv.bias", {m.channels()}, Kind::plain);
        w.mamba.dt_bias = file.tensor(p + "mamba.dt_bias", {m.heads}, Kind::plain);
        w.mamba.d = file.tensor(p + "mamba.D", {m.heads}, Kind::plain);
        std::vector<float> a = to_f32(file.tensor(p + "mamba.A_log", {m.heads}, Kind::plain));
        for (float &x : a) x = -std::exp(x);
        decays.push_back(a);
        for (int i = 0; i < 5; i++) w.mamba.multiplier[i] = dims.ssm_in * dims.ssm[size_t(i)];
        w.q = file.tensor(p + "attn.q.weight", {dims.attention.q_size(), d}, Kind::linear);
        w.k = file.tensor(p + "attn.k.weight", {dims.attention.kv_size(), d}, Kind::linear);
        w.v = file.tensor(p + "attn.v.weight", {dims.attention.kv_size(), d}, Kind::linear);
        w.o = file.tensor(p + "attn.o.weight", {d, dims.attention.q_size()}, Kind::linear);
        w.ffn.gate = file.tensor(p + "ffn.gate.weight", {dims.ffn, d}, Kind::linear);
        w.ffn.up = file.tensor(p + "ffn.up.weight", {dims.ffn, d}, Kind::linear);
        w.ffn.down = file.tensor(p + "ffn.down.weight", {d, dims.ffn}, Kind::linear);
        w.ffn.gate_multiplier = dims.mlp_gate;
        w.ffn.down_multiplier = dims.mlp_down;
        const int64_t rows = int64_t(dims.attention.capacity) * n_slots;
        w.conv_state = home_.add(GGML_TYPE_F32, std::max<int64_t>(1, m.conv_state()), n_slots);
        w.ssm_state = home_.add(GGML_TYPE_F32, m.ssm_state(), n_slots);
        w.keys = home_.add(GGML_TYPE_F32, dims.attention.kv_size(), rows);
        w.values = home_.add(GGML_TYPE_F32, dims.attention.kv_size(), rows);
        w.mamba.a = home_.add(GGML_TYPE_F32, 1, m.heads);
        layers_.push_back(w);
    }
    const int head_dim = dims.attention.head_dim;
    rope_ = home_.add(GGML_TYPE_F32, head_dim, dims.attention.capacity);
    home_.allocate(backend.cpu());
    const std::vector<float> table = rope_table(head_dim, dims.attention.capacity, dims.rope_base, false);
    ggml_backend_tensor_set(rope_, table.data(), 0, ggml_nbytes(rope_));
    for (size_t l = 0; l < layers_.size(); l++)
        ggml_backend_tensor_set(layers_[l].mamba.a, decays[l].data(), 0, decays[l].size() * sizeof(float));
}

void SlowStage::embed(const int32_t *column, float *out) const {
    std::fill(out, out + dims_.dim, 0.0f);
    add_row(embed_tokens_, column[0], out);
    const bool semantic = column[0] >= lm_.semantic_begin && column[0] < lm_.semantic_begin + lm_.semantic_size;
    for (int j = 0; semantic && j < lm_.n_codebooks(); j++)
        add_row(codebook_embeddings_, lm_.codebook_offsets[size_t(j)] + column[1 + j], out);
    // The multiplier acts on the whole sum, codebook rows included.
    if (dims_.embedding != 1.0f)
        for (int i = 0; i < dims_.dim; i++) out[i] *= dims_.embedding;
}

void SlowStage::reset(int slot) {
    for (Layer &w : layers_) // K/V rows are written before they are read, so they need no clearing
        for (ggml_tensor *t : {w.conv_state, w.ssm_state})
            std::memset(static_cast<char *>(t->data) + slot * t->nb[1], 0, t->nb[1]);
}

std::unique_ptr<SlowStage::Plan> SlowStage::build(int n_sequences, int tokens_each, const std::vector<int> &slots,
                                                  int bucket) {
    const size_t nodes_a_layer = plain_mamba_ || plain_attention_ ? 40 + 110 * size_t(n_sequences) : 48;
    auto plan = std::make_unique<Plan>(64 + nodes_a_layer * layers_.size(), backend_.pool());
    Graph &g = plan->graph;
    ggml_context *ctx = g.ctx();
    plan->columns = make_columns(g, n_sequences, tokens_each, slots, bucket, plain_mamba_);
    const Columns &cols = plan->columns;
    plan->embedded = g.input(GGML_TYPE_F32, dims_.dim, cols.count());

    ggml_tensor *h = plan->embedded; // [dim, columns]
    for (const Layer &w : layers_) {
        ggml_tensor *u = rms_norm(ctx, h, w.input_norm, dims_.norm_eps); // feeds both branches
        ggml_tensor *mixed = mamba_mix(g, dims_.mamba, w.mamba, linear(g, w.in_proj, u, plain_linear_), w.conv_state,
                                       w.ssm_state, cols, plain_mamba_);
        ggml_tensor *mamba = scaled(ctx, linear(g, w.out_proj, mixed, plain_linear_), dims_.ssm_out);
        ggml_tensor *q = scaled(ctx, linear(g, w.q, u, plain_linear_), dims_.attention_in);
        ggml_tensor *k = scaled(ctx, linear(g, w.k, u, plain_linear_), dims_.attention_in * dims_.key);
        ggml_tensor *v = scaled(ctx, linear(g, w.v, u, plain_linear_), dims_.attention_in);
        ggml_tensor *read = attend(g, dims_.attention, q, k, v, w.keys, w.values, rope_, cols, plain_attention_);
        ggml_tensor *attention = scaled(ctx, linear(g, w.o, read, plain_linear_), dims_.attention_out);
        h = ggml_add(ctx, h, ggml_add(ctx, mamba, attention));
        h = ggml_add(ctx, h, w.ffn.build(g, rms_norm(ctx, h, w.ffn_norm, dims_.norm_eps), plain_linear_));
        if (record_) {
            g.output(h);
            plan->layers.push_back(h);
        }
    }
    if (tokens_each > 1) // the head reads each sequence's last column
        h = ggml_cont(ctx, ggml_view_2d(ctx, h, dims_.dim, n_sequences, size_t(tokens_each) * h->nb[1],
                                        size_t(tokens_each - 1) * h->nb[1]));
    plan->hidden = rms_norm(ctx, h, norm_, dims_.norm_eps);
    plan->logits = linear(g, head_, plan->hidden, plain_linear_);
    g.output(plan->hidden);
    g.output(plan->logits);
    g.plan(backend_.cpu());
    return plan;
}

SlowStage::Plan &SlowStage::plan_for(const SlowInput &input) {
    const bool bound = plain_mamba_ || plain_attention_; // stock operations need views of fixed slots
    int bucket = 0;
    if (plain_attention_) {
        const int last = *std::max_element(input.positions.begin(), input.positions.end()) + input.tokens_each;
        bucket = std::min(dims_.attention.capacity, (last + BUCKET - 1) / BUCKET * BUCKET);
    }
    std::vector<int> key = {int(input.slots.size()), input.tokens_each, bucket};
    if (bound) key.insert(key.end(), input.slots.begin(), input.slots.end());
    auto found = plans_.find(key);
    if (found != plans_.end()) return *found->second;
    if (plans_.size() >= MAX_PLANS) plans_.erase(plans_.begin());
    auto plan = build(int(input.slots.size()), input.tokens_each, bound ? input.slots : std::vector<int>(), bucket);
    return *plans_.emplace(key, std::move(plan)).first->second;
}

void SlowStage::run(const SlowInput &input, SlowOutput &output) {
    Plan &plan = plan_for(input);
    std::memcpy(plan.embedded->data, input.embedded.data(), ggml_nbytes(plan.embedded));
    feed_columns(plan.columns, input.slots, input.positions, dims_.attention.capacity);
    plan.graph.compute();
    auto read = [](const ggml_tensor *t, std::vector<float> &out) {
        out.resize(size_t(ggml_nelements(t)));
        std::memcpy(out.data(), t->data, out.size() * sizeof(float));
    };
    read(plan.hidden, output.hidden);
    read(plan.logits, output.logits);
    output.layers.clear();
    const size_t n = input.slots.size(), d = size_t(dims_.dim);
    for (const ggml_tensor *t : plan.layers)
        for (size_t s = 0; s < n; s++) {
            const float *last = static_cast<const float *>(t->data) + ((s + 1) * size_t(input.tokens_each) - 1) * d;
            output.layers.insert(output.layers.end(), last, last + d);
        }
}

std::vector<float> SlowStage::state(ks_state which, int layer, int slot, int positions) const {
    const Layer &w = layers_.at(size_t(layer));
    auto copy = [](const ggml_tensor *t, int64_t first, int64_t n) {
        const float *data = static_cast<const float *>(t->data) + first;
        return std::vector<float>(data, data + n);
    };
    const int64_t kv = dims_.attention.kv_size();
    switch (which) {
    case KS_STATE_CONV:
        return copy(w.conv_state, slot * w.conv_state->ne[0], dims_.mamba.conv_state());
    case KS_STATE_SSM:
        return copy(w.ssm_state, slot * w.ssm_state->ne[0], dims_.mamba.ssm_state());
    case KS_STATE_KEY:
        return copy(w.keys, kv * dims_.attention.capacity * slot, kv * positions);
    case KS_STATE_VALUE:
        return copy(w.values, kv * dims_.attention.capacity * slot, kv * positions);
    default:
        throw Error(KS_ERROR_ARGUMENT, "not a state of the slow stage");
    }
}

size_t SlowStage::compute_bytes() const {
    size_t total = 0;
    for (const auto &entry : plans_) total += entry.second->graph.compute_bytes();
    return total;
}

} // namespace ks
