// A memory-mapped GGUF file: typed, checked access to its keys and tensors (docs/model-format.md).
#pragma once

#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ks {

// What a tensor is used for decides which storage types it may have.
enum class Kind {
    linear,    // f32, f16, bf16, q8_0
    embedding, // f32, f16, bf16, q8_0
    conv,      // f32, f16
    plain      // f32
};

class ModelFile {
  public:
    // Maps `path` read-only. Throws Error(KS_ERROR_FILE) if it cannot be opened, is no GGUF file or is cut short.
    explicit ModelFile(const std::string &path);
    ~ModelFile();
    ModelFile(const ModelFile &) = delete;
    ModelFile &operator=(const ModelFile &) = delete;

    // Keys. Each throws Error(KS_ERROR_MODEL) naming the key if it is absent, of another type or out of range.
    int32_t integer(const std::string &key, int64_t min, int64_t max) const;
    float real(const std::string &key, float min, float max) const;
    bool boolean(const std::string &key) const;
    std::string text(const std::string &key) const;
    std::vector<int32_t> integers(const std::string &key, int64_t min, int64_t max, size_t min_count,
                                  size_t max_count) const;
    std::vector<float> reals(const std::string &key, size_t count, float min, float max) const;
    // Raw bytes of a string or u8 array.
    std::pair<const void *, size_t> bytes(const std::string &key) const;

    // A tensor whose data lies in the mapping. `shape` is torch-style (slowest axis first), as in docs/model-format.md.
    // Throws Error(KS_ERROR_MODEL) naming the tensor if it is absent or has another shape, a type its kind does not
    // allow, or a NaN or infinity.
    ggml_tensor *tensor(const std::string &name, const std::vector<int64_t> &shape, Kind kind);

    int64_t parameters_used() const { return parameters_; } // elements of all tensors asked for so far
    int64_t bytes_used() const { return bytes_; }

  private:
    int64_t find(const std::string &key) const;
    void unmap();

    std::string path_;
    void *base_ = nullptr;
    size_t size_ = 0;
    gguf_context *gguf_ = nullptr;
    ggml_context *tensors_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
    int64_t parameters_ = 0;
    int64_t bytes_ = 0;
};

// The tensor's values as float32, in storage order.
std::vector<float> to_f32(const ggml_tensor *tensor);

} // namespace ks
