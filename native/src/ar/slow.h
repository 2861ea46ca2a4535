// The slow autoregressive stage: a Falcon-H1 stack (Mamba-2 beside attention in every layer) with the compact head.
#pragma once

#include "ar/block.h"
#include "ar/dims.h"
#include <map>
#include <memory>
#include <vector>

namespace ks {

// One column a sequence for a batch of slots, or several columns of one slot (prefill).
struct SlowInput {
    std::vector<int> slots;     // [n_sequences], all different
    std::vector<int> positions; // [n_sequences]: position of each sequence's first column
    int tokens_each = 1;
    std::vector<float> embedded; // [n_sequences * tokens_each][dim]
};

struct SlowOutput {
    std::vector<float> hidden; // [n_sequences][dim], after the final norm, of each sequence's last column
    std::vector<float> logits; // [n_sequences][head_rows]
    std::vector<float> layers; // [layers][n_sequences][dim], only when recording
};

class SlowStage {
  public:
    SlowStage(ModelFile &file, const LmDims &lm, const SlowDims &dims, Backend &backend, int n_slots,
              uint32_t plain_ops, bool record);

    const SlowDims &dims() const { return dims_; }
    // Embeds one matrix column: row 0 a text-vocabulary id, then n_codebooks codes (used at semantic positions only).
    void embed(const int32_t *column, float *out) const;
    // Forgets what the slot held: the next position is 0.
    void reset(int slot);
    void run(const SlowInput &input, SlowOutput &output);

    // Copies a state of a slot; see ks_session_state.
    std::vector<float> state(ks_state which, int layer, int slot, int positions) const;
    size_t state_bytes() const { return home_.bytes(); }
    size_t compute_bytes() const;

    static constexpr int PREFILL_COLUMNS = 64; // longest run of columns in one call

  private:
    struct Layer {
        ggml_tensor *input_norm, *ffn_norm;
        ggml_tensor *in_proj, *out_proj, *q, *k, *v, *o;
        MambaWeights mamba;
        GatedFfn ffn;
        ggml_tensor *conv_state, *ssm_state, *keys, *values; // homes: [.., n_slots]
    };
    struct Plan {
        Graph graph;
        Columns columns;
        ggml_tensor *embedded, *hidden, *logits;
        std::vector<ggml_tensor *> layers;
        Plan(size_t max_nodes, ThreadPool &pool) : graph(max_nodes, pool) {}
    };
    Plan &plan_for(const SlowInput &input);
    std::unique_ptr<Plan> build(int n_sequences, int tokens_each, const std::vector<int> &slots, int bucket);

    LmDims lm_;
    SlowDims dims_;
    Backend &backend_;
    bool plain_linear_, plain_mamba_, plain_attention_, record_;
    ggml_tensor *embed_tokens_, *codebook_embeddings_, *norm_, *head_;
    std::vector<Layer> layers_;
    Home home_;
    ggml_tensor *rope_;
    std::map<std::vector<int>, std::unique_ptr<Plan>> plans_; // key: n_sequences, tokens_each, bucket, slots
};

} // namespace ks
