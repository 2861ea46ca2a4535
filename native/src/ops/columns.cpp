#include "ops/columns.h"
#include <cmath>
#include <cstring>

namespace ks {

Columns make_columns(Graph &graph, int n_sequences, int tokens_each, const std::vector<int> &slots, int bucket,
                     bool bound) {
    Columns columns;
    columns.n_sequences = n_sequences;
    columns.tokens_each = tokens_each;
    columns.slots = slots;
    columns.bucket = bucket;
    columns.slot = graph.input(GGML_TYPE_I32, n_sequences);
    columns.position = graph.input(GGML_TYPE_I32, n_sequences);
    if (bucket > 0) {
        columns.mask = graph.input(GGML_TYPE_F32, bucket, tokens_each, n_sequences);
        columns.kv_row = graph.input(GGML_TYPE_I32, columns.count());
        columns.rope_row = graph.input(GGML_TYPE_I32, columns.count());
    }
    if (bound) columns.zero = graph.input(GGML_TYPE_I32, 1);
    return columns;
}

void feed_columns(const Columns &columns, const std::vector<int> &slots, const std::vector<int> &positions,
                  int capacity) {
    // ggml gives no memory to an input that no node reads, as slot and position in a graph of stock operations
    const size_t bytes = slots.size() * sizeof(int32_t);
    if (columns.slot->data) std::memcpy(columns.slot->data, slots.data(), bytes);
    if (columns.position->data) std::memcpy(columns.position->data, positions.data(), bytes);
    if (columns.zero && columns.zero->data) *static_cast<int32_t *>(columns.zero->data) = 0;
    if (columns.bucket == 0) return;
    float *mask = static_cast<float *>(columns.mask->data);
    int32_t *kv_row = static_cast<int32_t *>(columns.kv_row->data);
    int32_t *rope_row = static_cast<int32_t *>(columns.rope_row->data);
    for (int column = 0; column < columns.count(); column++) {
        const size_t sequence = size_t(column / columns.tokens_each);
        const int position = positions[sequence] + column % columns.tokens_each;
        kv_row[column] = slots[sequence] * capacity + position;
        rope_row[column] = position;
        for (int p = 0; p < columns.bucket; p++)
            mask[size_t(column) * columns.bucket + p] = p <= position ? 0.0f : -INFINITY;
    }
}

} // namespace ks
