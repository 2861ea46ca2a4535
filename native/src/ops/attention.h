// Causal grouped-query attention with rotary positions over a per-slot K/V cache.
#pragma once

#include "graph.h"
#include "ops/columns.h"

namespace ks {

enum class Rotation {
    half_split, // "NEOX": dimension i turns with i + head_dim / 2
    interleaved // dimension 2i turns with 2i + 1
};

struct AttentionDims {
    int heads, kv_heads, head_dim;
    int capacity; // K/V positions a slot
    Rotation rotation;
    int q_size() const { return heads * head_dim; }
    int kv_size() const { return kv_heads * head_dim; }
};

// Rotation table, f32 [head_dim, capacity]: a position's cosines, then its sines (head_dim / 2 each).
// angle(p, i) = p * base^(-2i / head_dim). bf16: both rounded to bfloat16, as the published fast AR's table is.
std::vector<float> rope_table(int head_dim, int capacity, float base, bool bf16);

// q: [q_size, columns], k, v: [kv_size, columns]; keys, values: [kv_size, capacity * n_slots]; table as above.
// Rotates q and k, stores k and v at each column's position in its slot, and returns [q_size, columns]:
// softmax(q k / sqrt(head_dim)) v over positions 0 ... own. Query head j reads K/V head j / (heads / kv_heads).
// Own kernel: one node for all sequences that reads just the positions in use; sums run in one order, so neither the
// other sequences nor the split into calls change a bit.
// plain: set_rows into the cache, then a prefix of `bucket` positions under a mask; one graph a bucket and slot set.
ggml_tensor *attend(Graph &graph, const AttentionDims &dims, ggml_tensor *q, ggml_tensor *k, ggml_tensor *v,
                    ggml_tensor *keys, ggml_tensor *values, ggml_tensor *table, const Columns &columns, bool plain);

} // namespace ks
