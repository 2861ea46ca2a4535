// Which sequence each column of an AR graph belongs to.
#pragma once

#include "graph.h"
#include <vector>

namespace ks {

// Columns are ordered sequence by sequence, tokens_each columns for each of n_sequences sequences.
struct Columns {
    int n_sequences = 0;
    int tokens_each = 0;
    ggml_tensor *slot = nullptr;     // i32 [n_sequences], host-fed: the slot of each sequence
    ggml_tensor *position = nullptr; // i32 [n_sequences], host-fed: position of each sequence's first token

    // Only for plain ggml operations, which need static views: a graph is then planned for these slots and this prefix.
    std::vector<int> slots;
    int bucket = 0;                  // K/V positions read under the mask, a multiple of 128
    ggml_tensor *mask = nullptr;     // f32 [bucket, tokens_each, n_sequences]: 0 or -inf, host-fed
    ggml_tensor *kv_row = nullptr;   // i32 [columns]: slot * capacity + position, host-fed
    ggml_tensor *rope_row = nullptr; // i32 [columns]: position, host-fed
    ggml_tensor *zero = nullptr;     // i32 [1] = 0, host-fed: ssm_scan's state index

    int count() const { return n_sequences * tokens_each; }
};

// Makes the host-fed tensors of a graph. bucket > 0: also those of masked attention; bound: also ssm_scan's.
Columns make_columns(Graph &graph, int n_sequences, int tokens_each, const std::vector<int> &slots, int bucket,
                     bool bound);

// Writes slots and positions (one a sequence) before a compute. capacity: K/V positions a slot.
void feed_columns(const Columns &columns, const std::vector<int> &slots, const std::vector<int> &positions,
                  int capacity);

} // namespace ks
