"""The table of tensors: name in the model file, name and shape in the published checkpoint, and kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .dimensions import DILATIONS, Attention, Codec, LanguageModel

Kind = Literal["linear", "embedding", "conv", "plain"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One tensor. `shape` is its shape in the source; `squeeze`: axes of length 1 that the target leaves out."""

    target: str
    source: str
    shape: Shape
    kind: Kind = "plain"
    squeeze: tuple[int, ...] = ()

    @property
    def target_shape(self) -> Shape:
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.squeeze)


def language_model_rows(m: LanguageModel) -> Iterator[Row]:
    """Tensors of `model.safetensors`."""
    slow, fast, dim = m.slow, m.fast, m.slow.dim
    yield Row("embed_tokens.weight", "slow.embed_tokens.weight", (m.vocab, dim), "embedding")
    books = (m.codebooks * m.codebook_size, dim)
    yield Row("codebook_embeddings.weight", "codebook_embeddings.weight", books, "embedding")
    for i in range(slow.layers):
        t, s = f"slow.{i}", f"slow.layers.{i}"
        yield Row(f"{t}.input_norm.weight", f"{s}.input_layernorm.weight", (dim,))
        rows = m.ssm_inner + m.conv_channels + m.ssm_heads
        yield Row(
            f"{t}.mamba.in_proj.weight",
            f"{s}.mamba.in_proj.weight",
            (rows, dim),
            "linear",
        )
        kernel = (m.conv_channels, 1, m.ssm_conv)
        yield Row(f"{t}.mamba.conv.weight", f"{s}.mamba.conv1d.weight", kernel, squeeze=(1,))
        yield Row(f"{t}.mamba.conv.bias", f"{s}.mamba.conv1d.bias", (m.conv_channels,))
        for name in ("dt_bias", "A_log", "D"):
            yield Row(f"{t}.mamba.{name}", f"{s}.mamba.{name}", (m.ssm_heads,))
        yield Row(
            f"{t}.mamba.out_proj.weight",
            f"{s}.mamba.out_proj.weight",
            (dim, m.ssm_inner),
            "linear",
        )
        shapes = {
            "q": (slow.width, dim),
            "k": (slow.kv_width, dim),
            "v": (slow.kv_width, dim),
            "o": (dim, slow.width),
        }
        for name, shape in shapes.items():
            yield Row(
                f"{t}.attn.{name}.weight",
                f"{s}.self_attn.{name}_proj.weight",
                shape,
                "linear",
            )
        yield Row(f"{t}.ffn_norm.weight", f"{s}.pre_ff_layernorm.weight", (dim,))
        for name, shape in {
            "gate": (slow.ffn, dim),
            "up": (slow.ffn, dim),
            "down": (dim, slow.ffn),
        }.items():
            yield Row(
                f"{t}.ffn.{name}.weight",
                f"{s}.feed_forward.{name}_proj.weight",
                shape,
                "linear",
            )
    yield Row("slow.norm.weight", "slow.final_layernorm.weight", (dim,))
    yield Row(
        "semantic_output.weight",
        "semantic_output.weight",
        (m.semantic_size + 1, dim),
        "linear",
    )
    yield Row(
        "fast_embeddings.weight",
        "fast_embeddings.weight",
        (m.codebook_size, dim),
        "embedding",
    )
    for i in range(fast.layers):
        yield from _block(f"fast.{i}", f"fast_layers.{i}", fast)
    yield Row("fast.norm.weight", "fast_norm.weight", (dim,))
    yield Row("fast_output.weight", "fast_output.weight", (m.codebook_size, dim), "linear")


def _block(t: str, s: str, a: Attention) -> Iterator[Row]:
    yield Row(f"{t}.attn_norm.weight", f"{s}.attention_norm.weight", (a.dim,))
    yield Row(
        f"{t}.attn.qkv.weight",
        f"{s}.attention.wqkv.weight",
        (a.width + 2 * a.kv_width, a.dim),
        "linear",
    )
    yield Row(f"{t}.attn.o.weight", f"{s}.attention.wo.weight", (a.dim, a.width), "linear")
    yield Row(f"{t}.ffn_norm.weight", f"{s}.ffn_norm.weight", (a.dim,))
    yield Row(f"{t}.ffn.gate.weight", f"{s}.feed_forward.w1.weight", (a.ffn, a.dim), "linear")
    yield Row(f"{t}.ffn.up.weight", f"{s}.feed_forward.w3.weight", (a.ffn, a.dim), "linear")
    yield Row(f"{t}.ffn.down.weight", f"{s}.feed_forward.w2.weight", (a.dim, a.ffn), "linear")


def codec_rows(c: Codec) -> Iterator[Row]:
    """Tensors of `codec.pth` that decoding needs, weight norm folded."""
    dim = c.post.dim
    for q, size in enumerate(c.codebook_sizes):
        s = f"quantizer.quantizer.quantizers.{q - 1}" if q else "quantizer.semantic_quantizer.quantizers.0"
        yield Row(f"codec.vq.{q}.codebook", f"{s}.codebook.weight", (size, c.code_dim))
        yield Row(
            f"codec.vq.{q}.out.weight",
            f"{s}.out_proj.weight",
            (dim, c.code_dim, 1),
            squeeze=(2,),
        )
        yield Row(f"codec.vq.{q}.out.bias", f"{s}.out_proj.bias", (dim,))
    for i in range(c.post.layers):
        t, s = f"codec.post.{i}", f"quantizer.post_module.layers.{i}"
        yield from _block(t, s, c.post)
        yield Row(f"{t}.attn_scale", f"{s}.attention_layer_scale.gamma", (dim,))
        yield Row(f"{t}.ffn_scale", f"{s}.ffn_layer_scale.gamma", (dim,))
    yield Row("codec.post.norm.weight", "quantizer.post_module.norm.weight", (dim,))
    for i, stride in enumerate(c.upsample):
        yield from _upsample(f"codec.up.{i}", f"quantizer.upsample.{i}", c, stride)
    yield from _conv(
        "codec.dec.stem",
        "decoder.model.0.conv",
        (c.channels[0], dim, c.kernel),
        c.channels[0],
    )
    for i, stride in enumerate(c.strides):
        yield from _decoder_block(f"codec.dec.{i}", f"decoder.model.{i + 1}.block", c, i, stride)
    last = len(c.strides) + 1
    yield _snake("codec.dec.tail.snake", f"decoder.model.{last}.alpha", c.channels[-1])
    yield from _conv(
        "codec.dec.tail",
        f"decoder.model.{last + 1}.conv",
        (1, c.channels[-1], c.kernel),
        1,
    )


def _conv(t: str, s: str, shape: Shape, out: int) -> Iterator[Row]:
    yield Row(f"{t}.weight", f"{s}.weight", shape, "conv")
    yield Row(f"{t}.bias", f"{s}.bias", (out,))


def _snake(t: str, s: str, channels: int) -> Row:
    return Row(t, s, (1, channels, 1), squeeze=(0, 2))


def _upsample(t: str, s: str, c: Codec, stride: int) -> Iterator[Row]:
    dim, ffn = c.post.dim, c.upsample_ffn
    yield from _conv(f"{t}.conv", f"{s}.0.conv", (dim, dim, stride), dim)
    yield Row(
        f"{t}.dw.weight",
        f"{s}.1.dwconv.conv.weight",
        (dim, 1, c.upsample_kernel),
        squeeze=(1,),
    )
    yield Row(f"{t}.dw.bias", f"{s}.1.dwconv.conv.bias", (dim,))
    yield Row(f"{t}.norm.weight", f"{s}.1.norm.weight", (dim,))
    yield Row(f"{t}.norm.bias", f"{s}.1.norm.bias", (dim,))
    yield Row(f"{t}.pw1.weight", f"{s}.1.pwconv1.weight", (ffn, dim), "linear")
    yield Row(f"{t}.pw1.bias", f"{s}.1.pwconv1.bias", (ffn,))
    yield Row(f"{t}.pw2.weight", f"{s}.1.pwconv2.weight", (dim, ffn), "linear")
    yield Row(f"{t}.pw2.bias", f"{s}.1.pwconv2.bias", (dim,))
    yield Row(f"{t}.scale", f"{s}.1.gamma", (dim,))


def _decoder_block(t: str, s: str, c: Codec, block: int, stride: int) -> Iterator[Row]:
    before, after = c.channels[block], c.channels[block + 1]
    yield _snake(f"{t}.snake", f"{s}.0.alpha", before)
    yield from _conv(f"{t}.up", f"{s}.1.conv", (before, after, 2 * stride), after)
    for r in range(len(DILATIONS)):
        unit = f"{s}.{r + 2}.block"
        yield _snake(f"{t}.res.{r}.snake1", f"{unit}.0.alpha", after)
        yield from _conv(f"{t}.res.{r}.conv1", f"{unit}.1.conv", (after, after, c.kernel), after)
        yield _snake(f"{t}.res.{r}.snake2", f"{unit}.2.alpha", after)
        yield from _conv(f"{t}.res.{r}.conv2", f"{unit}.3.conv", (after, after, 1), after)
