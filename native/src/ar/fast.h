// The fast autoregressive stage: from a frame's hidden vector and semantic code to its remaining codes.
#pragma once

#include "ar/block.h"
#include "ar/dims.h"
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace ks {

class FastStage {
  public:
    FastStage(ModelFile &file, const LmDims &lm, const FastDims &dims, Backend &backend, int n_slots,
              uint32_t plain_ops);

    // Draws the code of `codebook` (1 and up) for sequence s from its logits [residual_size].
    using Draw = std::function<int(int s, int codebook, const float *logits)>;

    // hidden: [n][dim], semantic: [n]; codes: [n][n_codebooks], codebook 0 = semantic. The cache is this frame's own:
    // position 0 is the hidden vector, position p the code of codebook p - 1.
    void run(const std::vector<int> &slots, const float *hidden, const int *semantic, const Draw &draw, int32_t *codes);

    size_t state_bytes() const { return home_.bytes(); }
    size_t compute_bytes() const;

  private:
    struct Layer {
        ggml_tensor *attn_norm, *ffn_norm, *qkv, *o;
        GatedFfn ffn;
        ggml_tensor *keys, *values;
    };
    struct Plan {
        Graph graph;
        Columns columns;
        ggml_tensor *embedded, *logits;
        Plan(size_t max_nodes, ThreadPool &pool) : graph(max_nodes, pool) {}
    };
    Plan &plan_for(const std::vector<int> &slots, int tokens_each);
    std::unique_ptr<Plan> build(const std::vector<int> &slots, int tokens_each);
    void pass(const std::vector<int> &slots, int position, int tokens_each, const std::vector<float> &embedded,
              const float **logits);

    LmDims lm_;
    FastDims dims_;
    Backend &backend_;
    bool plain_linear_, plain_attention_;
    ggml_tensor *embeddings_, *norm_, *head_, *rope_;
    std::vector<Layer> layers_;
    Home home_;
    std::map<std::vector<int>, std::unique_ptr<Plan>> plans_; // key: n_sequences, tokens_each, slots
};

} // namespace ks
