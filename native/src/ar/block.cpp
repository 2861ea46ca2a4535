#include "ar/block.h"
#include "error.h"

namespace ks {

Home::Home(size_t max_tensors) {
    ggml_init_params params = {};
    params.mem_size = ggml_tensor_overhead() * max_tensors;
    params.no_alloc = true;
    ctx_ = ggml_init(params);
    if (!ctx_) throw Error(KS_ERROR_MEMORY, "cannot allocate the state's context");
}

Home::~Home() {
    if (buffer_) ggml_backend_buffer_free(buffer_);
    ggml_free(ctx_);
}

ggml_tensor *Home::add(ggml_type type, int64_t ne0, int64_t ne1) {
    return ggml_new_tensor_2d(ctx_, type, ne0, ne1);
}

void Home::allocate(ggml_backend_t backend) {
    buffer_ = ggml_backend_alloc_ctx_tensors(ctx_, backend);
    if (!buffer_) throw Error(KS_ERROR_MEMORY, "cannot allocate the state of all slots");
    ggml_backend_buffer_clear(buffer_, 0); // the masked path multiplies unused K/V by zero: it must be finite
}

size_t Home::bytes() const {
    return buffer_ ? ggml_backend_buffer_get_size(buffer_) : 0;
}

void add_row(const ggml_tensor *table, int64_t row, float *out) {
    const char *data = static_cast<const char *>(table->data) + row * table->nb[1];
    const int64_t n = table->ne[0];
    if (table->type == GGML_TYPE_F32) {
        const float *f = reinterpret_cast<const float *>(data);
        for (int64_t i = 0; i < n; i++) out[i] += f[i];
        return;
    }
    std::vector<float> values(static_cast<size_t>(n));
    ggml_get_type_traits(table->type)->to_float(data, values.data(), n);
    for (int64_t i = 0; i < n; i++) out[i] += values[i];
}

} // namespace ks
