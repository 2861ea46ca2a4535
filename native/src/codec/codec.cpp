#include "codec.h"
#include "codebooks.h"
#include "codec_config.h"
#include "codec_graph.h"
#include "codec_state.h"
#include "codec_weights.h"
#include "error.h"
#include "rotation.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace ks {

namespace {

constexpr std::array<int, 5> chunk_sizes = {16, 8, 4, 2, 1}; // frames a graph, largest first

uint64_t now_ns() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

void set(ggml_tensor *t, const void *data) {
    if (t) ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

// One gallocr for the graphs of all chunk sizes: only one of them runs at a time.
struct SharedMemory {
    ggml_gallocr_t alloc = nullptr;
    ~SharedMemory() {
        if (alloc) ggml_gallocr_free(alloc);
    }
    size_t bytes() const { return alloc ? ggml_gallocr_get_buffer_size(alloc, 0) : 0; }
};

} // namespace

struct Codec::Impl {
    Impl(ModelFile &file, Backend &backend, int n_slots, uint32_t plain)
        : backend(backend.codec()), pool(backend.pool()),
          plain_ops(backend.codec_on_gpu() ? plain | KS_PLAIN_CONV | KS_PLAIN_SNAKE : plain),
          config(CodecConfig::read(file)), codebooks(file, config), scratch(backend.n_threads()),
          positions(size_t(n_slots), 0) {
        weights.load(file, config, this->backend, plain_ops, state);
        state.allocate(this->backend, n_slots);
        memory.alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(this->backend));
        plan(0); // the largest: no decode allocates model-sized memory later
    }

    // Builds the graph of chunk_sizes[index] and places it in the shared memory.
    void plan(size_t index) {
        CodecGraph built = build_codec_graph(config, weights, state, scratch, pool, chunk_sizes[index], plain_ops);
        const size_t before = memory.bytes();
        if (!memory.alloc || !ggml_gallocr_alloc_graph(memory.alloc, built.graph->cgraph()))
            throw Error(KS_ERROR_MEMORY, "cannot allocate the codec's working memory");
        // A second reservation would move the memory under the graphs already placed in it.
        if (index != 0 && memory.bytes() != before)
            throw Error(KS_ERROR_INTERNAL, "codec graphs of different chunk sizes do not share one memory plan");
        graphs[index] = std::move(built);
    }

    void run(size_t index, int slot, const int32_t *codes, int64_t stride, float *pcm) {
        CodecGraph &chunk = graphs[index];
        int64_t &position = positions[size_t(slot)];
        latents.resize(size_t(config.dim * chunk.frames));
        codebooks.lookup(codes, stride, chunk.frames, latents.data());
        set(chunk.latents, latents.data());
        if (chunk.attention.rotation) {
            const AttentionShape &shape = config.attention;
            const int64_t past = std::min(position, shape.left());
            const int32_t past_columns = int32_t(past);
            set(chunk.attention.rotation,
                rotation_table(position, chunk.frames, shape.head_dim, config.rope_base, config.rope_bf16).data());
            set(chunk.attention.past, &past_columns);
            if (chunk.attention.mask) set(chunk.attention.mask, attention_mask(shape, past, chunk.frames).data());
        }
        state.bind(*chunk.graph, slot);
        Backend::compute(backend, chunk.graph->cgraph());
        ggml_backend_tensor_get(chunk.pcm, pcm, 0, ggml_nbytes(chunk.pcm));
        position += chunk.frames;
    }

    void check_slot(int slot) const {
        if (slot < 0 || size_t(slot) >= positions.size())
            throw Error(KS_ERROR_ARGUMENT, "codec slot " + std::to_string(slot) + " does not exist; valid: 0 to " +
                                               std::to_string(positions.size() - 1));
    }

    ggml_backend_t backend;
    ThreadPool &pool;
    uint32_t plain_ops;
    CodecConfig config;
    Codebooks codebooks;
    CodecState state;
    CodecWeights weights;
    Scratch scratch;
    SharedMemory memory;
    std::array<CodecGraph, chunk_sizes.size()> graphs;
    std::vector<int64_t> positions; // frames decoded so far, a slot
    std::vector<float> latents;     // [frames][dim]
};

Codec::Codec(ModelFile &file, Backend &backend, int n_slots, uint32_t plain_ops)
    : impl_(std::make_unique<Impl>(file, backend, n_slots, plain_ops)) {}

Codec::~Codec() = default;

int Codec::sample_rate() const {
    return impl_->config.sample_rate;
}
int Codec::frame_size() const {
    return int(impl_->config.frame_size);
}
int Codec::n_codebooks() const {
    return int(impl_->config.codebook_sizes.size());
}

void Codec::reset(int slot) {
    impl_->check_slot(slot);
    impl_->state.reset(slot);
    impl_->positions[size_t(slot)] = 0;
}

void Codec::decode(int slot, const int32_t *codes, int n_frames, float *pcm, CodecClock &clock) {
    impl_->check_slot(slot);
    if (n_frames < 0) throw Error(KS_ERROR_ARGUMENT, "cannot decode a negative number of frames");
    int done = 0;
    while (done < n_frames) {
        size_t index = 0;
        while (chunk_sizes[index] > n_frames - done) index++;
        if (!impl_->graphs[index].graph) {
            const uint64_t start = now_ns();
            impl_->plan(index);
            clock.build_ns += now_ns() - start;
            clock.builds++;
        }
        const uint64_t start = now_ns();
        impl_->run(index, slot, codes + done, n_frames, pcm + int64_t(done) * impl_->config.frame_size);
        clock.compute_ns += now_ns() - start;
        clock.computes++;
        done += chunk_sizes[index];
    }
}

int64_t Codec::packed_bytes() const {
    return impl_->weights.packed_bytes;
}
int64_t Codec::state_bytes() const {
    return impl_->state.bytes();
}
int64_t Codec::compute_bytes() const {
    return int64_t(impl_->memory.bytes() + impl_->scratch.bytes());
}

} // namespace ks
