#include "ar/fast.h"
#include "error.h"
#include <cmath>
#include <cstring>

namespace ks {

FastStage::FastStage(ModelFile &file, const LmDims &lm, const FastDims &dims, Backend &backend, int n_slots,
                     uint32_t plain_ops)
    : lm_(lm), dims_(dims), backend_(backend), plain_linear_(plain_ops & KS_PLAIN_LINEAR),
      plain_attention_(plain_ops & KS_PLAIN_ATTENTION), home_(size_t(dims.layers) * 2 + 1) {
    const int64_t d = dims.dim, q = dims.attention.q_size(), kv = dims.attention.kv_size();
    embeddings_ = file.tensor("fast_embeddings.weight", {dims.embeddings, d}, Kind::embedding);
    norm_ = file.tensor("fast.norm.weight", {d}, Kind::plain);
    head_ = file.tensor("fast_output.weight", {lm.residual_size, d}, Kind::linear);
    for (int l = 0; l < dims.layers; l++) {
        const std::string p = "fast." + std::to_string(l) + ".";
        Layer w = {};
        w.attn_norm = file.tensor(p + "attn_norm.weight", {d}, Kind::plain);
        w.ffn_norm = file.tensor(p + "ffn_norm.weight", {d}, Kind::plain);
        w.qkv = file.tensor(p + "attn.qkv.weight", {q + 2 * kv, d}, Kind::linear);
        w.o = file.tensor(p + "attn.o.weight", {d, q}, Kind::linear);
        w.ffn.gate = file.tensor(p + "ffn.gate.weight", {dims.ffn, d}, Kind::linear);
        w.ffn.up = file.tensor(p + "ffn.up.weight", {dims.ffn, d}, Kind::linear);
        w.ffn.down = file.tensor(p + "ffn.down.weight", {d, dims.ffn}, Kind::linear);
        w.keys = home_.add(GGML_TYPE_F32, kv, int64_t(dims.attention.capacity) * n_slots);
        w.values = home_.add(GGML_TYPE_F32, kv, int64_t(dims.attention.capacity) * n_slots);
        layers_.push_back(w);
    }
    rope_ = home_.add(GGML_TYPE_F32, dims.attention.head_dim, dims.attention.capacity);
    home_.allocate(backend.cpu());
    const std::vector<float> table =
        rope_table(dims.attention.head_dim, dims.attention.capacity, dims.rope_base, dims.rope_bf16);
    ggml_backend_tensor_set(rope_, table.data(), 0, ggml_nbytes(rope_));
}

std::unique_ptr<FastStage::Plan> FastStage::build(const std::vector<int> &slots, int tokens_each) {
    const int n_sequences = int(slots.size());
    auto plan = std::make_unique<Plan>(64 + (plain_attention_ ? 40 + 60 * size_t(n_sequences) : 32) * layers_.size(),
                                       backend_.pool());
    Graph &g = plan->graph;
    ggml_context *ctx = g.ctx();
    plan->columns =
        make_columns(g, n_sequences, tokens_each, slots, plain_attention_ ? dims_.attention.capacity : 0, false);
    const Columns &cols = plan->columns;
    const int n = cols.count();
    plan->embedded = g.input(GGML_TYPE_F32, dims_.dim, n);
    const int64_t q_size = dims_.attention.q_size(), kv_size = dims_.attention.kv_size();
    ggml_tensor *h = plan->embedded; // [dim, columns]
    for (const Layer &w : layers_) {
        ggml_tensor *qkv = linear(g, w.qkv, rms_norm(ctx, h, w.attn_norm, dims_.norm_eps), plain_linear_);
        auto part = [&](int64_t first, int64_t rows) {
            return ggml_cont(ctx, ggml_view_2d(ctx, qkv, rows, n, qkv->nb[1], size_t(first) * sizeof(float)));
        };
        ggml_tensor *read = attend(g, dims_.attention, part(0, q_size), part(q_size, kv_size),
                                   part(q_size + kv_size, kv_size), w.keys, w.values, rope_, cols, plain_attention_);
        h = ggml_add(ctx, h, linear(g, w.o, read, plain_linear_));
        h = ggml_add(ctx, h, w.ffn.build(g, rms_norm(ctx, h, w.ffn_norm, dims_.norm_eps), plain_linear_));
    }
    if (tokens_each > 1)
        h = ggml_cont(ctx, ggml_view_2d(ctx, h, dims_.dim, n_sequences, size_t(tokens_each) * h->nb[1],
                                        size_t(tokens_each - 1) * h->nb[1]));
    plan->logits = linear(g, head_, rms_norm(ctx, h, norm_, dims_.norm_eps), plain_linear_);
    g.output(plan->logits);
    g.plan(backend_.cpu());
    return plan;
}

FastStage::Plan &FastStage::plan_for(const std::vector<int> &slots, int tokens_each) {
    std::vector<int> key = {int(slots.size()), tokens_each};
    if (plain_attention_) key.insert(key.end(), slots.begin(), slots.end());
    auto &plan = plans_[key];
    if (!plan) plan = build(slots, tokens_each);
    return *plan;
}

void FastStage::pass(const std::vector<int> &slots, int position, int tokens_each, const std::vector<float> &embedded,
                     const float **logits) {
    Plan &plan = plan_for(slots, tokens_each);
    std::memcpy(plan.embedded->data, embedded.data(), ggml_nbytes(plan.embedded));
    feed_columns(plan.columns, slots, std::vector<int>(slots.size(), position), dims_.attention.capacity);
    plan.graph.compute();
    *logits = static_cast<const float *>(plan.logits->data);
}

void FastStage::run(const std::vector<int> &slots, const float *hidden, const int *semantic, const Draw &draw,
                    int32_t *codes) {
    const int n = int(slots.size()), n_codebooks = lm_.n_codebooks();
    const size_t d = size_t(dims_.dim);
    for (int s = 0; s < n; s++) codes[s * n_codebooks] = semantic[s];
    if (n_codebooks == 1) return;
    std::vector<float> first(size_t(n) * 2 * d, 0.0f); // positions 0 and 1 run together
    for (int s = 0; s < n; s++) {
        std::memcpy(&first[size_t(s) * 2 * d], hidden + size_t(s) * d, d * sizeof(float));
        add_row(embeddings_, semantic[s], &first[(size_t(s) * 2 + 1) * d]);
    }
    const float *logits = nullptr;
    pass(slots, 0, 2, first, &logits);
    std::vector<float> next(size_t(n) * d);
    for (int j = 1; j < n_codebooks; j++) {
        for (int s = 0; s < n; s++) codes[s * n_codebooks + j] = draw(s, j, logits + size_t(s) * lm_.residual_size);
        if (j + 1 == n_codebooks) break; // the last code is never fed back
        std::fill(next.begin(), next.end(), 0.0f);
        for (int s = 0; s < n; s++) add_row(embeddings_, codes[s * n_codebooks + j], &next[size_t(s) * d]);
        pass(slots, j + 1, 1, next, &logits);
    }
}

size_t FastStage::compute_bytes() const {
    size_t total = 0;
    for (const auto &entry : plans_) total += entry.second->graph.compute_bytes();
    return total;
}

} // namespace ks
