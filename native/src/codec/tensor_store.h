// Constant tensors on a backend: declared with the way to fill them, then allocated and filled together.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"
#include <cstdint>
#include <functional>
#include <vector>

namespace ks {

class TensorStore {
  public:
    TensorStore() = default;
    ~TensorStore();
    TensorStore(const TensorStore &) = delete;
    TensorStore &operator=(const TensorStore &) = delete;

    using Fill = std::function<std::vector<char>()>;
    // Fill runs at upload, one tensor at a time, so that only one conversion is in memory at once.
    ggml_tensor *add(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, Fill fill);
    ggml_tensor *add(std::vector<float> values);
    // Once, after the last add. Throws Error(KS_ERROR_MEMORY).
    void upload(ggml_backend_t backend);
    int64_t bytes() const { return buffer_ ? int64_t(ggml_backend_buffer_get_size(buffer_)) : 0; }

  private:
    struct Item {
        ggml_tensor *tensor;
        Fill fill;
    };
    std::vector<Item> items_;
    ggml_context *ctx_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
};

std::vector<char> bytes_of(const std::vector<float> &values);

} // namespace ks
