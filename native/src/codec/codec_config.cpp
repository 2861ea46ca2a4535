#include "codec_config.h"
#include "error.h"

namespace ks {

CodecConfig CodecConfig::read(const ModelFile &file) {
    CodecConfig c;
    c.sample_rate = file.integer("codec.sample_rate", 1000, 384000);
    c.frame_size = file.integer("codec.frame_size", 1, 65536);
    c.codebook_sizes = file.integers("codec.codebook_sizes", 1, 1 << 20, 1, 64);
    c.code_dim = file.integer("codec.code_dim", 1, 1024);
    c.dim = file.integer("codec.dim", 1, 16384);

    c.post_layers = file.integer("codec.post.layers", 0, 256);
    c.attention.heads = file.integer("codec.post.heads", 1, 256);
    c.attention.kv_heads = file.integer("codec.post.kv_heads", 1, 256);
    c.attention.head_dim = file.integer("codec.post.head_dim", 2, 1024);
    // The window is the one size no tensor confirms, and every slot holds it: a wild value must not take all memory.
    c.attention.window = file.integer("codec.post.window", 1, 4096);
    c.post_ffn = file.integer("codec.post.ffn", 1, 65536);
    c.rope_base = file.real("codec.post.rope_base", 1.0f, 1e9f);
    c.post_eps = file.real("codec.post.norm_eps", 0.0f, 1.0f);
    c.rope_bf16 = file.boolean("codec.post.rope_bf16");
    if (c.attention.heads % c.attention.kv_heads != 0)
        throw Error(KS_ERROR_MODEL, "key 'codec.post.heads' must be a multiple of 'codec.post.kv_heads'");
    if (c.attention.head_dim % 2 != 0) throw Error(KS_ERROR_MODEL, "key 'codec.post.head_dim' must be even");

    c.upsample_strides = file.integers("codec.upsample.strides", 1, 64, 0, 8);
    c.upsample_ffn = file.integer("codec.upsample.ffn", 1, 65536);
    c.upsample_kernel = file.integer("codec.upsample.kernel", 1, 64);
    c.upsample_eps = file.real("codec.upsample.norm_eps", 0.0f, 1.0f);

    c.channels = file.integers("codec.decoder.channels", 1, 16384, 2, 9);
    c.strides = file.integers("codec.decoder.strides", 1, 64, c.channels.size() - 1, c.channels.size() - 1);
    c.dilations = file.integers("codec.decoder.dilations", 1, 1024, 1, 8);
    c.kernel = file.integer("codec.decoder.kernel", 1, 64);

    int64_t product = 1;
    for (int32_t stride : c.upsample_strides) product *= stride;
    for (int32_t stride : c.strides) {
        product *= stride;
        if (product > c.frame_size) break;
    }
    if (product != c.frame_size)
        throw Error(KS_ERROR_MODEL, "key 'codec.frame_size' is " + std::to_string(c.frame_size) +
                                        ", not the product of 'codec.upsample.strides' and 'codec.decoder.strides'");
    return c;
}

} // namespace ks
