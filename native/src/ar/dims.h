// Hyper-parameters of the two autoregressive stages, read from the model file (docs/model-format.md).
#pragma once

#include "model_file.h"
#include "ops/attention.h"
#include "ops/mamba.h"
#include <vector>

namespace ks {

struct LmDims {
    int vocab;
    int semantic_begin, semantic_size;
    bool has_next;
    bool interleaved;
    std::vector<int> codebook_sizes;   // rows of codebook_embeddings a codebook
    std::vector<int> codebook_offsets; // first row of each
    int residual_size;                 // classes of codebooks 1 and up
    int n_codebooks() const { return int(codebook_sizes.size()); }
    int head_rows() const { return semantic_size + 1 + (has_next ? 1 : 0); }
    int eos_class() const { return semantic_size; }
    int next_class() const { return semantic_size + 1; }
};

struct SlowDims {
    int dim, layers, ffn;
    float norm_eps, rope_base;
    AttentionDims attention;
    MambaDims mamba;
    float embedding, attention_in, attention_out, key, ssm_in, ssm_out, mlp_gate, mlp_down; // muP multipliers
    std::vector<float> ssm;                                                                 // z, x, B, C, dt
};

struct FastDims {
    int dim, layers, ffn, embeddings;
    float norm_eps, rope_base;
    bool rope_bf16;
    AttentionDims attention;
};

LmDims read_lm_dims(const ModelFile &file);
// max_positions: 0 = the model's own limit. Throws Error(KS_ERROR_MODEL) naming the key that does not fit.
SlowDims read_slow_dims(const ModelFile &file, int max_positions);
FastDims read_fast_dims(const ModelFile &file, const LmDims &lm);

} // namespace ks
