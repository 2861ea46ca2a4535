#include "codec_state.h"
#include "error.h"

namespace ks {

CodecState::~CodecState() {
    if (buffer_) ggml_backend_buffer_free(buffer_);
    if (ctx_) ggml_free(ctx_);
}

int CodecState::add(int64_t channels, int64_t columns) {
    if (columns == 0) return -1;
    parts_.push_back({channels, columns, slot_bytes_});
    const size_t line = 256; // keeps every part aligned for any backend
    slot_bytes_ += (size_t(channels * columns) * sizeof(float) + line - 1) / line * line;
    return int(parts_.size()) - 1;
}

void CodecState::allocate(ggml_backend_t backend, int n_slots) {
    n_slots_ = n_slots;
    if (parts_.empty()) return;
    ggml_init_params params = {};
    params.mem_size = ggml_tensor_overhead();
    params.no_alloc = true;
    ctx_ = ggml_init(params);
    if (!ctx_) throw Error(KS_ERROR_MEMORY, "cannot allocate the codec state");
    state_ = ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, int64_t(slot_bytes_ / sizeof(float)) * n_slots);
    buffer_ = ggml_backend_alloc_ctx_tensors(ctx_, backend);
    if (!buffer_)
        throw Error(KS_ERROR_MEMORY, "cannot allocate the codec state of " + std::to_string(n_slots) + " slots (" +
                                         std::to_string(slot_bytes_ * size_t(n_slots)) + " bytes)");
    ggml_backend_buffer_clear(buffer_, 0);
}

void CodecState::reset(int slot) {
    if (state_) ggml_backend_tensor_memset(state_, 0, size_t(slot) * slot_bytes_, slot_bytes_);
}

ggml_tensor *CodecState::view(Graph &graph, int id) const {
    if (id < 0) return nullptr;
    const Part &part = parts_[size_t(id)];
    return ggml_view_2d(graph.ctx(), state_, part.channels, part.columns, size_t(part.channels) * sizeof(float),
                        part.offset);
}

void CodecState::bind(Graph &graph, int slot) const {
    if (!state_) return;
    char *base = static_cast<char *>(state_->data) + size_t(slot) * slot_bytes_;
    for (ggml_tensor *t = ggml_get_first_tensor(graph.ctx()); t; t = ggml_get_next_tensor(graph.ctx(), t))
        if (t->view_src == state_) t->data = base + t->view_offs;
}

int64_t CodecState::bytes() const {
    return int64_t(slot_bytes_) * n_slots_;
}

} // namespace ks
