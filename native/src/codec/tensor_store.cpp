#include "tensor_store.h"
#include "error.h"
#include <cstring>
#include <utility>

namespace ks {

namespace {
constexpr size_t max_tensors = 16384; // 256 layers and 9 blocks of 8 units stay far below
}

TensorStore::~TensorStore() {
    if (buffer_) ggml_backend_buffer_free(buffer_);
    if (ctx_) ggml_free(ctx_);
}

ggml_tensor *TensorStore::add(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, Fill fill) {
    if (!ctx_) {
        ggml_init_params params = {};
        params.mem_size = ggml_tensor_overhead() * max_tensors;
        params.no_alloc = true;
        ctx_ = ggml_init(params);
    }
    if (!ctx_ || items_.size() == max_tensors) throw Error(KS_ERROR_MEMORY, "cannot hold the codec's tensors");
    ggml_tensor *t = ggml_new_tensor_3d(ctx_, type, ne0, ne1, ne2);
    items_.push_back({t, std::move(fill)});
    return t;
}

ggml_tensor *TensorStore::add(std::vector<float> values) {
    const auto n = int64_t(values.size());
    return add(GGML_TYPE_F32, n, 1, 1, [values = std::move(values)] { return bytes_of(values); });
}

void TensorStore::upload(ggml_backend_t backend) {
    if (items_.empty()) return;
    buffer_ = ggml_backend_alloc_ctx_tensors(ctx_, backend);
    if (!buffer_) throw Error(KS_ERROR_MEMORY, "cannot allocate the codec's tensors");
    for (Item &item : items_) {
        const std::vector<char> data = item.fill();
        GGML_ASSERT(data.size() == ggml_nbytes(item.tensor));
        ggml_backend_tensor_set(item.tensor, data.data(), 0, data.size());
    }
    items_.clear();
}

std::vector<char> bytes_of(const std::vector<float> &values) {
    std::vector<char> out(values.size() * sizeof(float));
    std::memcpy(out.data(), values.data(), out.size());
    return out;
}

} // namespace ks
