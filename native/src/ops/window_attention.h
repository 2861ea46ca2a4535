// Causal window attention over a stream, with interleaved rotary positions and grouped key/value heads.
//
// Query t sees the keys of frames t - window + 1 .. t, as far as they exist: frames before the start of the stream are
// absent, not zero keys. Query head j uses key/value head j / (heads / kv_heads). Scale 1 / sqrt(head_dim).
//
// ks_op_run "window_attention", f32, shapes slowest axis first: qkv [frames, (heads + 2 kv_heads) head_dim] before
// rotation, rotation [frames, head_dim] = cos, sin of pair 0, cos, sin of pair 1, ..., optional history
// [past, 2 kv_heads head_dim] with past <= window - 1 (rotated keys | values); options: heads, kv_heads, head_dim,
// window; out [frames, heads head_dim].
#pragma once

#include "graph.h"
#include "scratch.h"
#include <cstdint>
#include <vector>

namespace ks {

struct AttentionShape {
    int64_t heads = 1, kv_heads = 1, head_dim = 2, window = 1;
    int64_t kv_width() const { return 2 * kv_heads * head_dim; }
    int64_t width() const { return heads * head_dim + kv_width(); }
    int64_t left() const { return window - 1; }
};

// Host-fed inputs, shared by all layers.
struct AttentionInputs {
    ggml_tensor *rotation = nullptr; // [head_dim, frames] f32: cos, sin a pair
    ggml_tensor *past = nullptr;     // [1] i32: columns of the history that exist; our kernel
    ggml_tensor *mask = nullptr;     // [left() + frames, frames] f32: 0 or -inf; plain twin
};

// Values of `mask` for `past` existing columns: row t holds 0 at the columns query t sees.
std::vector<float> attention_mask(const AttentionShape &shape, int64_t past, int64_t frames);

// qkv: [width(), frames] contiguous, q | k | v. history: [kv_width(), left()] rotated keys | values, oldest first, or
// null when left() is 0. Result: [heads * head_dim, frames]. Adds the history update after the reader. Sums run over
// keys from oldest to newest, whatever the chunk or thread count. `scratch` must outlive the graph.
ggml_tensor *window_attention(Graph &graph, const AttentionShape &shape, Scratch &scratch,
                              const AttentionInputs &inputs, ggml_tensor *qkv, ggml_tensor *history);

// Plain twin from mul, concat, mul_mat and soft_max_ext.
ggml_tensor *window_attention_plain(Graph &graph, const AttentionShape &shape, const AttentionInputs &inputs,
                                    ggml_tensor *qkv, ggml_tensor *history);

} // namespace ks
