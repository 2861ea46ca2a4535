#include "model_file.h"
#include "error.h"
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ks {

namespace {

[[noreturn]] void fail(ks_status status, const std::string &message) {
    throw Error(status, message);
}

std::string shape_text(const std::vector<int64_t> &shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

// Torch-style shape of a ggml tensor with `rank` axes.
std::vector<int64_t> shape_of(const ggml_tensor *t, size_t rank) {
    std::vector<int64_t> shape(rank);
    for (size_t i = 0; i < rank; i++) shape[i] = t->ne[rank - 1 - i];
    return shape;
}

bool allowed(Kind kind, ggml_type type) {
    switch (kind) {
    case Kind::linear:
    case Kind::embedding:
        return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0;
    case Kind::conv:
        return type == GGML_TYPE_F32 || type == GGML_TYPE_F16;
    case Kind::plain:
        return type == GGML_TYPE_F32;
    }
    return false;
}

const char *allowed_names(Kind kind) {
    switch (kind) {
    case Kind::conv:
        return "f32 or f16";
    case Kind::plain:
        return "f32";
    default:
        return "f32, f16, bf16 or q8_0";
    }
}

} // namespace

ModelFile::ModelFile(const std::string &path) : path_(path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(KS_ERROR_FILE, "cannot open model file '" + path + "': " + std::strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        fail(KS_ERROR_FILE, "'" + path + "' is not a regular file");
    }
    size_ = size_t(st.st_size);
    if (size_ < 24) {
        close(fd);
        fail(KS_ERROR_FILE, "'" + path + "' is not a GGUF file: it has only " + std::to_string(size_) + " bytes");
    }
    base_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (base_ == MAP_FAILED) {
        base_ = nullptr;
        fail(KS_ERROR_FILE, "cannot map '" + path + "': " + std::strerror(errno));
    }
    try {
        if (std::memcmp(base_, "GGUF", 4) != 0) fail(KS_ERROR_FILE, "'" + path + "' is not a GGUF file: wrong magic");
        gguf_init_params params = {/*no_alloc*/ true, /*ctx*/ &tensors_};
        gguf_ = gguf_init_from_buffer(base_, size_, params);
        if (!gguf_)
            fail(KS_ERROR_FILE, "'" + path + "' is a damaged or truncated GGUF file: its header cannot be read");
        const size_t offset = gguf_get_data_offset(gguf_);
        if (gguf_get_alignment(gguf_) % 32 != 0)
            fail(KS_ERROR_FILE, "'" + path + "': general.alignment must be a multiple of 32");
        if (gguf_get_n_tensors(gguf_) == 0) fail(KS_ERROR_FILE, "'" + path + "' holds no tensors");
        if (offset >= size_) fail(KS_ERROR_FILE, "'" + path + "' is truncated: it ends before its tensor data");
        // Read-only pages behind a ggml buffer: nothing in the engine writes to weights.
        buffer_ = ggml_backend_cpu_buffer_from_ptr(static_cast<char *>(base_) + offset, size_ - offset);
        if (!buffer_) fail(KS_ERROR_MEMORY, "cannot wrap the mapped model file in a buffer");
    } catch (...) {
        unmap();
        throw;
    }
}

ModelFile::~ModelFile() {
    unmap();
}

void ModelFile::unmap() {
    if (buffer_) ggml_backend_buffer_free(buffer_);
    if (tensors_) ggml_free(tensors_);
    if (gguf_) gguf_free(gguf_);
    if (base_) munmap(base_, size_);
    buffer_ = nullptr;
    tensors_ = nullptr;
    gguf_ = nullptr;
    base_ = nullptr;
}

int64_t ModelFile::find(const std::string &key) const {
    const int64_t id = gguf_find_key(gguf_, key.c_str());
    if (id < 0) fail(KS_ERROR_MODEL, "model file lacks the key '" + key + "'");
    return id;
}

namespace {

int64_t integer_at(const gguf_context *gguf, int64_t id, gguf_type type, const void *data, size_t i,
                   const std::string &key) {
    switch (type) {
    case GGUF_TYPE_UINT8:
        return static_cast<const uint8_t *>(data)[i];
    case GGUF_TYPE_INT8:
        return static_cast<const int8_t *>(data)[i];
    case GGUF_TYPE_UINT16:
        return static_cast<const uint16_t *>(data)[i];
    case GGUF_TYPE_INT16:
        return static_cast<const int16_t *>(data)[i];
    case GGUF_TYPE_UINT32:
        return static_cast<const uint32_t *>(data)[i];
    case GGUF_TYPE_INT32:
        return static_cast<const int32_t *>(data)[i];
    case GGUF_TYPE_INT64:
        return static_cast<const int64_t *>(data)[i];
    case GGUF_TYPE_UINT64: {
        const uint64_t v = static_cast<const uint64_t *>(data)[i];
        return v > uint64_t(INT64_MAX) ? INT64_MAX : int64_t(v);
    }
    default:
        (void)gguf;
        (void)id;
        fail(KS_ERROR_MODEL, "key '" + key + "' must be an integer, not " + gguf_type_name(type));
    }
}

void check_range(const std::string &key, double value, double min, double max) {
    if (!(value >= min && value <= max)) { // also refuses NaN
        char text[160];
        std::snprintf(text, sizeof text, "' is %g; valid: %g to %g", value, min, max);
        fail(KS_ERROR_MODEL, "key '" + key + text);
    }
}

} // namespace

int32_t ModelFile::integer(const std::string &key, int64_t min, int64_t max) const {
    const int64_t id = find(key);
    const gguf_type type = gguf_get_kv_type(gguf_, id);
    if (type == GGUF_TYPE_ARRAY || type == GGUF_TYPE_STRING)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be an integer, not " + gguf_type_name(type));
    const int64_t value = integer_at(gguf_, id, type, gguf_get_val_data(gguf_, id), 0, key);
    check_range(key, double(value), double(min), double(max));
    return int32_t(value);
}

float ModelFile::real(const std::string &key, float min, float max) const {
    const int64_t id = find(key);
    const gguf_type type = gguf_get_kv_type(gguf_, id);
    double value = 0;
    if (type == GGUF_TYPE_FLOAT32)
        value = gguf_get_val_f32(gguf_, id);
    else if (type == GGUF_TYPE_FLOAT64)
        value = gguf_get_val_f64(gguf_, id);
    else
        fail(KS_ERROR_MODEL, "key '" + key + "' must be a float, not " + gguf_type_name(type));
    check_range(key, value, min, max);
    return float(value);
}

bool ModelFile::boolean(const std::string &key) const {
    const int64_t id = find(key);
    const gguf_type type = gguf_get_kv_type(gguf_, id);
    if (type != GGUF_TYPE_BOOL)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be a boolean, not " + gguf_type_name(type));
    return gguf_get_val_bool(gguf_, id);
}

std::string ModelFile::text(const std::string &key) const {
    const int64_t id = find(key);
    const gguf_type type = gguf_get_kv_type(gguf_, id);
    if (type != GGUF_TYPE_STRING)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be a string, not " + gguf_type_name(type));
    return gguf_get_val_str(gguf_, id);
}

std::vector<int32_t> ModelFile::integers(const std::string &key, int64_t min, int64_t max, size_t min_count,
                                         size_t max_count) const {
    const int64_t id = find(key);
    if (gguf_get_kv_type(gguf_, id) != GGUF_TYPE_ARRAY)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be an array of integers");
    const gguf_type type = gguf_get_arr_type(gguf_, id);
    if (type == GGUF_TYPE_STRING || type == GGUF_TYPE_ARRAY)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be an array of integers");
    const size_t n = gguf_get_arr_n(gguf_, id);
    if (n < min_count || n > max_count)
        fail(KS_ERROR_MODEL, "key '" + key + "' has " + std::to_string(n) +
                                 " entries; valid: " + std::to_string(min_count) + " to " + std::to_string(max_count));
    std::vector<int32_t> values(n);
    for (size_t i = 0; i < n; i++) {
        const int64_t value = integer_at(gguf_, id, type, gguf_get_arr_data(gguf_, id), i, key);
        check_range(key, double(value), double(min), double(max));
        values[i] = int32_t(value);
    }
    return values;
}

std::vector<float> ModelFile::reals(const std::string &key, size_t count, float min, float max) const {
    const int64_t id = find(key);
    if (gguf_get_kv_type(gguf_, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(gguf_, id) != GGUF_TYPE_FLOAT32)
        fail(KS_ERROR_MODEL, "key '" + key + "' must be an array of float32");
    if (gguf_get_arr_n(gguf_, id) != count)
        fail(KS_ERROR_MODEL, "key '" + key + "' must have " + std::to_string(count) + " entries");
    const float *data = static_cast<const float *>(gguf_get_arr_data(gguf_, id));
    for (size_t i = 0; i < count; i++) check_range(key, data[i], min, max);
    return std::vector<float>(data, data + count);
}

std::pair<const void *, size_t> ModelFile::bytes(const std::string &key) const {
    const int64_t id = find(key);
    const gguf_type type = gguf_get_kv_type(gguf_, id);
    if (type == GGUF_TYPE_STRING) {
        const char *s = gguf_get_val_str(gguf_, id);
        return {s, std::strlen(s)};
    }
    if (type == GGUF_TYPE_ARRAY) {
        const gguf_type element = gguf_get_arr_type(gguf_, id);
        if (element == GGUF_TYPE_UINT8 || element == GGUF_TYPE_INT8)
            return {gguf_get_arr_data(gguf_, id), gguf_get_arr_n(gguf_, id)};
    }
    fail(KS_ERROR_MODEL, "key '" + key + "' is neither a string nor a byte array");
}

ggml_tensor *ModelFile::tensor(const std::string &name, const std::vector<int64_t> &shape, Kind kind) {
    const int64_t id = gguf_find_tensor(gguf_, name.c_str());
    if (id < 0) fail(KS_ERROR_MODEL, "model file lacks the tensor '" + name + "' of shape " + shape_text(shape));
    ggml_tensor *t = ggml_get_tensor(tensors_, name.c_str());
    bool same = t != nullptr;
    for (size_t i = 0; same && i < GGML_MAX_DIMS; i++)
        same = t->ne[i] == (i < shape.size() ? shape[shape.size() - 1 - i] : 1);
    if (!same) {
        const size_t rank = t ? size_t(ggml_n_dims(t)) : 0;
        fail(KS_ERROR_MODEL, "tensor '" + name + "' has shape " + (t ? shape_text(shape_of(t, rank)) : "?") +
                                 "; expected " + shape_text(shape));
    }
    if (!allowed(kind, t->type))
        fail(KS_ERROR_MODEL,
             "tensor '" + name + "' has type " + ggml_type_name(t->type) + "; valid: " + allowed_names(kind));
    if (t->data) return t; // asked for before, and checked then
    const size_t start = gguf_get_tensor_offset(gguf_, id);
    const size_t available = ggml_backend_buffer_get_size(buffer_);
    const size_t n = ggml_nbytes(t);
    if (start > available || n > available - start)
        fail(KS_ERROR_FILE, "'" + path_ + "' is truncated: tensor '" + name + "' ends beyond the file");
    char *data = static_cast<char *>(ggml_backend_buffer_get_base(buffer_)) + start;
    if (!ggml_validate_row_data(t->type, data, n))
        fail(KS_ERROR_MODEL, "tensor '" + name + "' holds a NaN or an infinity");
    if (ggml_backend_tensor_alloc(buffer_, t, data) != GGML_STATUS_SUCCESS)
        fail(KS_ERROR_INTERNAL, "tensor '" + name + "' cannot be bound to the mapping");
    parameters_ += ggml_nelements(t);
    bytes_ += int64_t(n);
    return t;
}

std::vector<float> to_f32(const ggml_tensor *tensor) {
    std::vector<float> out(size_t(ggml_nelements(tensor)));
    if (tensor->type == GGML_TYPE_F32)
        std::memcpy(out.data(), tensor->data, out.size() * sizeof(float));
    else
        ggml_get_type_traits(tensor->type)->to_float(tensor->data, out.data(), int64_t(out.size()));
    return out;
}

} // namespace ks
