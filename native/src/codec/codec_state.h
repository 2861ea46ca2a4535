// Left context of every causal operation of the codec, for all slots, in one buffer of the codec's backend.
#pragma once

#include "graph.h"
#include <cstdint>
#include <vector>

namespace ks {

class CodecState {
  public:
    CodecState() = default;
    ~CodecState();
    CodecState(const CodecState &) = delete;
    CodecState &operator=(const CodecState &) = delete;

    // Reserves `columns` columns of `channels` floats in every slot; the id of this history, or -1 for no columns.
    int add(int64_t channels, int64_t columns);
    // Once, after the last add. Every slot starts zeroed.
    void allocate(ggml_backend_t backend, int n_slots);
    void reset(int slot);

    // History `id` as seen by a graph: [channels, columns], null for -1. Shows slot 0 until bind.
    ggml_tensor *view(Graph &graph, int id) const;
    // Points every view of the state in `graph` at `slot`, so that one planned graph serves all slots.
    void bind(Graph &graph, int slot) const;

    int64_t bytes() const;

  private:
    struct Part {
        int64_t channels, columns;
        size_t offset; // bytes from the start of a slot
    };
    std::vector<Part> parts_;
    size_t slot_bytes_ = 0;
    int n_slots_ = 0;
    ggml_context *ctx_ = nullptr;
    ggml_tensor *state_ = nullptr; // all slots
    ggml_backend_buffer_t buffer_ = nullptr;
};

} // namespace ks
