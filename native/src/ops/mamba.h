// The Mamba-2 mixer of a Falcon-H1 layer between in_proj and out_proj, on per-slot state.
#pragma once

#include "graph.h"
#include "ops/columns.h"

namespace ks {

struct MambaDims {
    int inner, heads, head_dim, state, groups, conv;
    int channels() const { return inner + 2 * groups * state; }             // of the convolution: x | B | C
    int projected() const { return inner + channels() + heads; }            // rows of in_proj: z | x | B | C | dt
    int64_t conv_state() const { return int64_t(channels()) * (conv - 1); } // [channels][conv - 1], oldest first
    int64_t ssm_state() const { return int64_t(heads) * head_dim * state; } // [heads][head_dim][state]
};

struct MambaWeights {         // f32, ggml order
    ggml_tensor *conv_weight; // [conv, channels], last tap = newest
    ggml_tensor *conv_bias;   // [channels]
    ggml_tensor *dt_bias;     // [heads]
    ggml_tensor *a;           // [1, heads] = -exp(A_log)
    ggml_tensor *d;           // [heads]
    float multiplier[5];      // on the z, x, B, C, dt segments (ssm_in already folded in)
};

// projected: [projected(), columns]; conv_state: [conv_state(), n_slots]; ssm_state: [ssm_state(), n_slots].
// Returns y · SiLU(z), [inner, columns], and advances both states of every slot named by `columns`.
// Recurrence: docs of Falcon-H1 (transformers 4.57), as in the specification: S <- exp(dt A) S + dt x B, y = S C + D x.
// Own kernel: two nodes (convolution, scan); a token's result does not depend on how the tokens are split into calls.
// plain: ssm_conv + ssm_scan a sequence, states copied back in-graph; its graph is bound to the slots of `columns`.
ggml_tensor *mamba_mix(Graph &graph, const MambaDims &dims, const MambaWeights &weights, ggml_tensor *projected,
                       ggml_tensor *conv_state, ggml_tensor *ssm_state, const Columns &columns, bool plain);

} // namespace ks
