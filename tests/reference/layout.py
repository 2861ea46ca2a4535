"""Tensor names, shapes and initialisers of the published Audio8 0.1B layout, for any dimensions.

The lists follow the tensor tables of `model.safetensors` (419 tensors at full size) and of `codec.pth` (455 after
weight-norm folding). Initialisers are chosen so that mistakes show: asymmetric kernels, norm weights far from 1,
LayerScale large enough to matter, weight-norm gains unrelated to the norms of the directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .dims import Dims

Kind = Literal["uniform", "normal", "log_uniform"]


@dataclass(frozen=True)
class Tensor:
    """One tensor: `normal` uses (mean, deviation); the uniform kinds use (low, high).

    `norm_gain` > 0 asks for a weight-normed tensor whose slices along axis 0 have about that norm; `legacy` then picks
    the `weight_g` / `weight_v` spelling over the parametrized one.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    first: float
    second: float
    norm_gain: float = 0.0
    legacy: bool = False


def _norm(name: str, size: int) -> Tensor:
    return Tensor(name, (size,), "uniform", 0.5, 1.5)


def _linear(name: str, rows: int, columns: int, gain: float = 1.0) -> Tensor:
    return Tensor(name, (rows, columns), "normal", 0.0, gain / math.sqrt(columns))


def _bias(name: str, size: int, deviation: float = 0.2) -> Tensor:
    return Tensor(name, (size,), "normal", 0.0, deviation)


def language_model(d: Dims) -> Iterator[Tensor]:
    """Tensors of `model.safetensors`."""
    yield Tensor("slow.embed_tokens.weight", (d.vocab, d.dim), "normal", 0.0, 1.0)
    yield Tensor(
        "codebook_embeddings.weight",
        (d.codebooks * d.semantic_size, d.dim),
        "normal",
        0.0,
        1.0,
    )
    for i in range(d.layers):
        layer = f"slow.layers.{i}"
        yield _norm(f"{layer}.input_layernorm.weight", d.dim)
        rows = d.ssm_inner + d.conv_channels + d.ssm_heads
        yield _linear(f"{layer}.mamba.in_proj.weight", rows, d.dim)
        yield Tensor(
            f"{layer}.mamba.conv1d.weight",
            (d.conv_channels, 1, d.ssm_conv),
            "normal",
            0.0,
            0.6,
        )
        yield _bias(f"{layer}.mamba.conv1d.bias", d.conv_channels)
        yield Tensor(f"{layer}.mamba.dt_bias", (d.ssm_heads,), "normal", -1.0, 1.0)
        yield Tensor(f"{layer}.mamba.A_log", (d.ssm_heads,), "log_uniform", 0.3, 4.3)
        yield Tensor(f"{layer}.mamba.D", (d.ssm_heads,), "normal", 0.0, 1.0)
        yield _linear(f"{layer}.mamba.out_proj.weight", d.dim, d.ssm_inner)
        yield _linear(f"{layer}.self_attn.q_proj.weight", d.heads * d.head_dim, d.dim, 1.5)
        yield _linear(f"{layer}.self_attn.k_proj.weight", d.kv_heads * d.head_dim, d.dim, 1.5)
        yield _linear(f"{layer}.self_attn.v_proj.weight", d.kv_heads * d.head_dim, d.dim)
        yield _linear(f"{layer}.self_attn.o_proj.weight", d.dim, d.heads * d.head_dim)
        yield _norm(f"{layer}.pre_ff_layernorm.weight", d.dim)
        yield _linear(f"{layer}.feed_forward.gate_proj.weight", d.ffn, d.dim)
        yield _linear(f"{layer}.feed_forward.up_proj.weight", d.ffn, d.dim)
        yield _linear(f"{layer}.feed_forward.down_proj.weight", d.dim, d.ffn)
    yield _norm("slow.final_layernorm.weight", d.dim)
    yield _linear("semantic_output.weight", d.semantic_size + 1, d.dim, 3.0)
    yield Tensor("fast_embeddings.weight", (d.semantic_size, d.dim), "normal", 0.0, 1.0)
    for i in range(d.fast_layers):
        layer = f"fast_layers.{i}"
        width = d.fast_heads * d.fast_head_dim
        yield from _block(layer, d.dim, width, d.fast_kv_heads * d.fast_head_dim, d.fast_ffn)
    yield _norm("fast_norm.weight", d.dim)
    yield _linear("fast_output.weight", d.semantic_size, d.dim, 3.0)


def _block(layer: str, dim: int, width: int, kv_width: int, ffn: int) -> Iterator[Tensor]:
    yield _linear(f"{layer}.attention.wqkv.weight", width + 2 * kv_width, dim, 1.5)
    yield _linear(f"{layer}.attention.wo.weight", dim, width)
    yield _linear(f"{layer}.feed_forward.w1.weight", ffn, dim)
    yield _linear(f"{layer}.feed_forward.w3.weight", ffn, dim)
    yield _linear(f"{layer}.feed_forward.w2.weight", dim, ffn)
    yield _norm(f"{layer}.attention_norm.weight", dim)
    yield _norm(f"{layer}.ffn_norm.weight", dim)


def _transformer(prefix: str, layers: int, dim: int, width: int, kv_width: int, ffn: int) -> Iterator[Tensor]:
    for i in range(layers):
        layer = f"{prefix}.layers.{i}"
        yield from _block(layer, dim, width, kv_width, ffn)
        yield Tensor(f"{layer}.attention_layer_scale.gamma", (dim,), "uniform", 0.2, 1.0)
        yield Tensor(f"{layer}.ffn_layer_scale.gamma", (dim,), "uniform", 0.2, 1.0)
    yield _norm(f"{prefix}.norm.weight", dim)


def _conv(name: str, out: int, inputs: int, kernel: int, gain: float = 1.0) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (out, inputs, kernel), "normal", 0.0, 1.0, norm_gain=gain)
    yield _bias(f"{name}.bias", out)


def _transposed(name: str, inputs: int, out: int, kernel: int, stride: int) -> Iterator[Tensor]:
    deviation = 1.0 / math.sqrt(inputs * kernel / stride)
    gain = deviation * math.sqrt(out * kernel)  # norm of one input channel's slice
    yield Tensor(f"{name}.weight", (inputs, out, kernel), "normal", 0.0, 1.0, norm_gain=gain)
    yield _bias(f"{name}.bias", out)


def _snake(name: str, channels: int) -> Tensor:
    return Tensor(name, (1, channels, 1), "uniform", 0.5, 2.0)


def _residual_unit(prefix: str, channels: int) -> Iterator[Tensor]:
    yield _snake(f"{prefix}.block.0.alpha", channels)
    yield from _conv(f"{prefix}.block.1.conv", channels, channels, 7)
    yield _snake(f"{prefix}.block.2.alpha", channels)
    yield from _conv(f"{prefix}.block.3.conv", channels, channels, 1, 0.4)


def _convnext(prefix: str, dim: int, ffn: int) -> Iterator[Tensor]:
    yield Tensor(f"{prefix}.dwconv.conv.weight", (dim, 1, 7), "normal", 0.0, 0.5)
    yield _bias(f"{prefix}.dwconv.conv.bias", dim)
    yield _norm(f"{prefix}.norm.weight", dim)
    yield _bias(f"{prefix}.norm.bias", dim)
    yield _linear(f"{prefix}.pwconv1.weight", ffn, dim)
    yield _bias(f"{prefix}.pwconv1.bias", ffn)
    yield _linear(f"{prefix}.pwconv2.weight", dim, ffn)
    yield _bias(f"{prefix}.pwconv2.bias", dim)
    yield Tensor(f"{prefix}.gamma", (dim,), "uniform", 0.2, 1.0)


def _vq(prefix: str, dim: int, code_dim: int, size: int) -> Iterator[Tensor]:
    yield Tensor(
        f"{prefix}.in_proj.weight",
        (code_dim, dim, 1),
        "normal",
        0.0,
        1.0,
        norm_gain=1.0,
        legacy=True,
    )
    yield _bias(f"{prefix}.in_proj.bias", code_dim)
    yield Tensor(
        f"{prefix}.out_proj.weight",
        (dim, code_dim, 1),
        "normal",
        0.0,
        1.0,
        norm_gain=1.0,
        legacy=True,
    )
    yield _bias(f"{prefix}.out_proj.bias", dim)
    yield Tensor(f"{prefix}.codebook.weight", (size, code_dim), "normal", 0.0, 1.0)


def codec_decoder(d: Dims) -> Iterator[Tensor]:
    """Tensors of `codec.pth` that decoding needs (the VQ input projections ride along)."""
    c = d.codec
    yield from _vq("quantizer.semantic_quantizer.quantizers.0", c.dim, c.code_dim, d.semantic_size)
    for i in range(d.codebooks - 1):
        yield from _vq(f"quantizer.quantizer.quantizers.{i}", c.dim, c.code_dim, c.residual_size)
    width, kv_width = c.post_heads * c.post_head_dim, c.post_kv_heads * c.post_head_dim
    yield from _transformer("quantizer.post_module", c.post_layers, c.dim, width, kv_width, c.post_ffn)
    for i, stride in enumerate(c.upsample):
        deviation = 1.0 / math.sqrt(c.dim)
        yield Tensor(
            f"quantizer.upsample.{i}.0.conv.weight",
            (c.dim, c.dim, stride),
            "normal",
            0.0,
            deviation,
        )
        yield _bias(f"quantizer.upsample.{i}.0.conv.bias", c.dim)
        yield from _convnext(f"quantizer.upsample.{i}.1", c.dim, c.upsample_ffn)
    yield from _conv("decoder.model.0.conv", c.channels[0], c.dim, 7)
    for i, stride in enumerate(c.strides):
        block = f"decoder.model.{i + 1}.block"
        yield _snake(f"{block}.0.alpha", c.channels[i])
        yield from _transposed(f"{block}.1.conv", c.channels[i], c.channels[i + 1], 2 * stride, stride)
        for unit in range(3):
            yield from _residual_unit(f"{block}.{unit + 2}", c.channels[i + 1])
    last = len(c.strides) + 1
    yield _snake(f"decoder.model.{last}.alpha", c.channels[-1])
    yield from _conv(f"decoder.model.{last + 1}.conv", 1, c.channels[-1], 7, 0.05)


def codec_encoder(d: Dims) -> Iterator[Tensor]:
    """The rest of `codec.pth`: what turning a recording into codes needs, and decoding must ignore."""
    c = d.codec
    yield from _conv("encoder.block.0.conv", c.encoder_width, 1, 7)
    channels = c.encoder_width
    for i, stride in enumerate(reversed(c.strides)):
        block = f"encoder.block.{i + 1}.block"
        for unit in range(3):
            yield from _residual_unit(f"{block}.{unit}", channels)
        yield _snake(f"{block}.3.alpha", channels)
        yield from _conv(f"{block}.4.conv", 2 * channels, channels, 2 * stride)
        channels *= 2
    width = c.post_heads * c.post_head_dim
    last = len(c.strides)
    yield from _transformer(
        f"encoder.block.{last}.block.5",
        c.encoder_layers,
        channels,
        width,
        width,
        c.pre_ffn,
    )
    yield _snake(f"encoder.block.{last + 1}.alpha", channels)
    yield from _conv(f"encoder.block.{last + 2}.conv", c.dim, channels, 3)
    for i, stride in enumerate(c.upsample):
        yield Tensor(
            f"quantizer.downsample.{i}.0.conv.weight",
            (c.dim, c.dim, stride),
            "normal",
            0.0,
            0.1,
        )
        yield _bias(f"quantizer.downsample.{i}.0.conv.bias", c.dim)
        yield from _convnext(f"quantizer.downsample.{i}.1", c.dim, c.upsample_ffn)
    yield from _transformer("quantizer.pre_module", c.pre_layers, c.dim, width, width, c.pre_ffn)
