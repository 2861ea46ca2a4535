#include "ar/dims.h"
#include "error.h"
#include <algorithm>
#include <cfloat>

namespace ks {

namespace {

// Bounds keep a damaged file from asking for absurd memory; the largest published model is far below them.
constexpr int MAX_WIDTH = 1 << 16, MAX_ROWS = 1 << 22, MAX_LAYERS = 512, MAX_POSITIONS = 1 << 17;

AttentionDims read_attention(const ModelFile &file, const std::string &prefix, int capacity, Rotation rotation) {
    AttentionDims a;
    a.heads = file.integer(prefix + ".heads", 1, 1024);
    a.kv_heads = file.integer(prefix + ".kv_heads", 1, a.heads);
    a.head_dim = file.integer(prefix + ".head_dim", 2, 1024);
    a.capacity = capacity;
    a.rotation = rotation;
    if (a.heads % a.kv_heads != 0)
        throw Error(KS_ERROR_MODEL, "key '" + prefix + ".kv_heads' must divide '" + prefix + ".heads'");
    if (a.head_dim % 2 != 0) throw Error(KS_ERROR_MODEL, "key '" + prefix + ".head_dim' must be even");
    return a;
}

} // namespace

LmDims read_lm_dims(const ModelFile &file) {
    const std::string architecture = file.text("general.architecture");
    if (architecture != "dualar")
        throw Error(KS_ERROR_MODEL, "key 'general.architecture' is '" + architecture + "'; valid: dualar");
    file.integer("kestrel.format", 1, 1);
    LmDims lm;
    lm.vocab = file.integer("lm.vocab", 2, MAX_ROWS);
    lm.semantic_size = file.integer("lm.semantic_size", 1, lm.vocab - 1);
    lm.semantic_begin = file.integer("lm.semantic_begin", 0, lm.vocab - lm.semantic_size);
    lm.has_next = file.boolean("lm.has_next");
    const std::string mode = file.text("kestrel.text_mode");
    if (mode != "prompt" && mode != "interleaved")
        throw Error(KS_ERROR_MODEL, "key 'kestrel.text_mode' is '" + mode + "'; valid: prompt, interleaved");
    lm.interleaved = mode == "interleaved";
    if (lm.interleaved != lm.has_next)
        throw Error(KS_ERROR_MODEL, "key 'lm.has_next' must be true for interleaved text and false for prompt text");
    lm.codebook_sizes = file.integers("lm.codebook_sizes", 1, MAX_ROWS, 1, 64);
    if (lm.codebook_sizes[0] < lm.semantic_size)
        throw Error(KS_ERROR_MODEL, "key 'lm.codebook_sizes': the first codebook must hold all semantic codes");
    int64_t total = 0;
    for (int size : lm.codebook_sizes) {
        lm.codebook_offsets.push_back(int(total));
        total += size;
    }
    if (total > MAX_ROWS) throw Error(KS_ERROR_MODEL, "key 'lm.codebook_sizes': too many rows in total");
    lm.residual_size = file.integer("lm.residual_size", 1, MAX_ROWS);
    for (size_t j = 1; j < lm.codebook_sizes.size(); j++)
        if (lm.residual_size > lm.codebook_sizes[j])
            throw Error(KS_ERROR_MODEL,
                        "key 'lm.residual_size' exceeds codebook " + std::to_string(j) + " of 'lm.codebook_sizes'");
    return lm;
}

SlowDims read_slow_dims(const ModelFile &file, int max_positions) {
    const std::string backbone = file.text("slow.backbone");
    if (backbone != "falcon_h1")
        throw Error(KS_ERROR_MODEL, "key 'slow.backbone' is '" + backbone + "'; valid: falcon_h1");
    SlowDims s;
    s.dim = file.integer("slow.dim", 1, MAX_WIDTH);
    s.layers = file.integer("slow.layers", 1, MAX_LAYERS);
    s.ffn = file.integer("slow.ffn", 1, MAX_WIDTH);
    s.norm_eps = file.real("slow.norm_eps", 0, 1);
    s.rope_base = file.real("slow.rope_base", 1, FLT_MAX);
    int capacity = file.integer("slow.max_positions", 16, MAX_POSITIONS);
    if (max_positions > capacity)
        throw Error(KS_ERROR_ARGUMENT, "max_positions is " + std::to_string(max_positions) + "; this model has " +
                                           std::to_string(capacity));
    if (max_positions > 0) capacity = max_positions;
    s.attention = read_attention(file, "slow", capacity, Rotation::half_split);
    MambaDims &m = s.mamba;
    m.inner = file.integer("slow.ssm.inner", 1, MAX_WIDTH);
    m.heads = file.integer("slow.ssm.heads", 1, 4096);
    m.head_dim = file.integer("slow.ssm.head_dim", 1, 4096);
    m.state = file.integer("slow.ssm.state", 1, 4096);
    m.groups = file.integer("slow.ssm.groups", 1, 4096);
    m.conv = file.integer("slow.ssm.conv", 1, 64);
    if (int64_t(m.heads) * m.head_dim != m.inner)
        throw Error(KS_ERROR_MODEL, "key 'slow.ssm.inner' must equal heads * head_dim");
    if (m.heads % m.groups != 0) throw Error(KS_ERROR_MODEL, "key 'slow.ssm.groups' must divide 'slow.ssm.heads'");
    if (m.ssm_state() > (1 << 24))
        throw Error(KS_ERROR_MODEL, "key 'slow.ssm.state': the state of a layer is too large");
    auto multiplier = [&](const char *name) { return file.real(std::string("slow.mult.") + name, -1e6f, 1e6f); };
    s.embedding = multiplier("embedding");
    s.attention_in = multiplier("attention_in");
    s.attention_out = multiplier("attention_out");
    s.key = multiplier("key");
    s.ssm_in = multiplier("ssm_in");
    s.ssm_out = multiplier("ssm_out");
    s.mlp_gate = multiplier("mlp_gate");
    s.mlp_down = multiplier("mlp_down");
    s.ssm = file.reals("slow.mult.ssm", 5, -1e6f, 1e6f);
    return s;
}

FastDims read_fast_dims(const ModelFile &file, const LmDims &lm) {
    FastDims f;
    f.dim = file.integer("fast.dim", 1, MAX_WIDTH);
    f.layers = file.integer("fast.layers", 1, MAX_LAYERS);
    f.ffn = file.integer("fast.ffn", 1, MAX_WIDTH);
    f.embeddings = file.integer("fast.embeddings", 1, MAX_ROWS);
    f.norm_eps = file.real("fast.norm_eps", 0, 1);
    f.rope_base = file.real("fast.rope_base", 1, FLT_MAX);
    f.rope_bf16 = file.boolean("fast.rope_bf16");
    // position 0 is the slow hidden state, position p the code of codebook p - 1; the last code is never fed back
    f.attention = read_attention(file, "fast", std::max(2, lm.n_codebooks()), Rotation::interleaved);
    if (f.embeddings < lm.semantic_size || f.embeddings < lm.residual_size)
        throw Error(KS_ERROR_MODEL, "key 'fast.embeddings' must cover all semantic and residual codes");
    if (f.dim != file.integer("slow.dim", 1, MAX_WIDTH))
        throw Error(KS_ERROR_MODEL, "key 'fast.dim' must equal 'slow.dim': a projection between them is not supported");
    return f;
}

} // namespace ks
