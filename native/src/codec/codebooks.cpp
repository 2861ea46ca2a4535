#include "codebooks.h"
#include <algorithm>
#include <string>

namespace ks {

Codebooks::Codebooks(ModelFile &file, const CodecConfig &config) : code_dim_(config.code_dim), dim_(config.dim) {
    for (size_t q = 0; q < config.codebook_sizes.size(); q++) {
        const std::string name = "codec.vq." + std::to_string(q);
        Codebook book;
        book.size = config.codebook_sizes[q];
        book.rows = to_f32(file.tensor(name + ".codebook", {book.size, code_dim_}, Kind::plain));
        const std::vector<float> out = to_f32(file.tensor(name + ".out.weight", {dim_, code_dim_}, Kind::plain));
        book.out.resize(out.size());
        for (int64_t c = 0; c < dim_; c++)
            for (int64_t d = 0; d < code_dim_; d++) book.out[size_t(d * dim_ + c)] = out[size_t(c * code_dim_ + d)];
        book.bias = to_f32(file.tensor(name + ".out.bias", {dim_}, Kind::plain));
        books_.push_back(std::move(book));
    }
}

namespace {

void add_scaled(float *__restrict y, const float *__restrict x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

} // namespace

void Codebooks::lookup(const int32_t *codes, int64_t stride, int64_t frames, float *latents) const {
    for (int64_t t = 0; t < frames; t++) {
        float *y = latents + t * dim_;
        std::fill_n(y, dim_, 0.0f);
        for (size_t q = 0; q < books_.size(); q++) {
            const Codebook &book = books_[q];
            const int32_t code = std::clamp(codes[int64_t(q) * stride + t], 0, book.size - 1);
            add_scaled(y, book.bias.data(), 1.0f, dim_);
            for (int64_t d = 0; d < code_dim_; d++)
                add_scaled(y, &book.out[size_t(d * dim_)], book.rows[size_t(code * code_dim_ + d)], dim_);
        }
    }
}

} // namespace ks
