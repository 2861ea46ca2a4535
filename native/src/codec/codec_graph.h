// The decoder as one graph over a fixed number of frames.
#pragma once

#include "codec_config.h"
#include "codec_state.h"
#include "codec_weights.h"
#include "graph.h"
#include "ops/scratch.h"
#include <memory>

namespace ks {

struct CodecGraph {
    int64_t frames = 0;
    std::unique_ptr<Graph> graph;
    ggml_tensor *latents = nullptr; // [dim, frames], host-fed
    AttentionInputs attention;      // host-fed; the form not in use is null
    ggml_tensor *pcm = nullptr;     // [1, frames * frame_size]
};

// Builds the graph without giving it memory. Graphs of any two frame counts have the same nodes in the same order, so
// one allocation plan, made for the largest, serves them all.
CodecGraph build_codec_graph(const CodecConfig &config, const CodecWeights &weights, const CodecState &state,
                             Scratch &scratch, ThreadPool &pool, int64_t frames, uint32_t plain_ops);

} // namespace ks
