"""Dimensions of a checkpoint: the language model's from `config.json`, the codec's mostly from tensor shapes.

The published configuration does not describe the codec, and two revisions of its post module exist (16 KV heads and an
FFN of 3072, or 8 and 1216), so shapes decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .configuration import Configuration
from .errors import ConvertError
from .tensors import TensorFile

DILATIONS = (
    1,
    3,
    9,
)  # of a block's residual units: fixed in the architecture, visible in no shape


@dataclass(frozen=True)
class Attention:
    """Sizes of a transformer stack."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


@dataclass(frozen=True)
class LanguageModel:
    """Slow and fast AR. `ssm_*` are the Mamba-2 branch of every slow layer."""

    slow: Attention
    fast: Attention
    ssm_heads: int
    ssm_head_dim: int
    ssm_state: int
    ssm_groups: int
    ssm_conv: int
    vocab: int
    semantic_begin: int
    semantic_size: int
    codebooks: int
    codebook_size: int

    @property
    def ssm_inner(self) -> int:
        return self.ssm_heads * self.ssm_head_dim

    @property
    def conv_channels(self) -> int:
        return self.ssm_inner + 2 * self.ssm_groups * self.ssm_state


@dataclass(frozen=True)
class Codec:
    """Codec decoder. `channels`: stem width, then the output width of every block."""

    codebook_sizes: tuple[int, ...]
    code_dim: int
    post: Attention
    window: int
    upsample: tuple[int, ...]
    upsample_ffn: int
    upsample_kernel: int
    channels: tuple[int, ...]
    strides: tuple[int, ...]
    kernel: int

    @property
    def frame_size(self) -> int:
        return math.prod(self.upsample) * math.prod(self.strides)


def language_model(config: Configuration) -> LanguageModel:
    """Dimensions of the AR stages. Raises ConvertError for a variant the engine does not compute."""
    c = config
    c.must_be(
        "slow_backbone",
        "falcon_h1",
        None,
        "the only slow backbone this converter knows",
    )
    c.must_be(
        "mamba_rms_norm",
        False,
        False,
        "a gated Mamba norm is not part of the published model",
    )
    for key in (
        "mamba_proj_bias",
        "projectors_bias",
        "mlp_bias",
        "attention_bias",
        "attention_qkv_bias",
    ):
        c.must_be(key, False, False, "linears have no bias")
    for key in (
        "attention_qk_norm",
        "fast_attention_qkv_bias",
        "fast_attention_qk_norm",
        "fast_attention_o_bias",
    ):
        c.must_be(key, False, False, "not part of the published model")
    c.must_be("mamba_conv_bias", True, True, "the Mamba convolution has a bias")
    c.must_be("hidden_act", "silu", "silu", "the FFN is SwiGLU")
    c.must_be("rope_scaling", None, None, "rotations are not scaled")
    slow = _attention(c, "dim", "n_layer", "n_head", "n_local_heads", "head_dim", "intermediate_size")
    c.must_be(
        "fast_dim",
        slow.dim,
        slow.dim,
        "the slow state enters the fast AR without a projection",
    )
    fast = _attention(
        c,
        "dim",
        "n_fast_layer",
        "fast_n_head",
        "fast_n_local_heads",
        "fast_head_dim",
        "fast_intermediate_size",
    )
    model = LanguageModel(
        slow=slow,
        fast=fast,
        ssm_heads=c.integer("mamba_n_heads"),
        ssm_head_dim=c.integer("mamba_d_head"),
        ssm_state=c.integer("mamba_d_state"),
        ssm_groups=c.integer("mamba_n_groups", 1),
        ssm_conv=c.integer("mamba_d_conv"),
        vocab=c.integer("vocab_size"),
        semantic_begin=c.integer("semantic_begin_id"),
        semantic_size=c.integer("semantic_end_id") - c.integer("semantic_begin_id") + 1,
        codebooks=c.integer("num_codebooks", least=2),
        codebook_size=c.integer("codebook_size"),
    )
    c.must_be(
        "mamba_d_ssm",
        model.ssm_inner,
        model.ssm_inner,
        "mamba_n_heads times mamba_d_head",
    )
    if model.ssm_heads % model.ssm_groups:
        raise ConvertError(f"{c.name}: key 'mamba_n_groups' must divide mamba_n_heads = {model.ssm_heads}")
    if not 0 < model.semantic_size <= min(model.codebook_size, model.vocab - model.semantic_begin):
        raise ConvertError(f"{c.name}: key 'semantic_end_id' gives {model.semantic_size} semantic codes, not 1 to "
                           f"{min(model.codebook_size, model.vocab - model.semantic_begin)}")  # fmt: skip
    return model


def _attention(
    c: Configuration,
    dim: str,
    layers: str,
    heads: str,
    kv: str,
    head_dim: str,
    ffn: str,
) -> Attention:
    a = Attention(*(c.integer(key) for key in (dim, layers, heads, kv, head_dim, ffn)))
    if a.heads % a.kv_heads or a.head_dim % 2:
        raise ConvertError(f"{c.name}: key {kv!r} must divide {heads!r}, and {head_dim!r} must be even")
    return a


class _Shapes:
    """Shapes of the codec's tensors, with errors that name the tensor."""

    def __init__(self, file: TensorFile) -> None:
        self._file = file
        self._names = set(file.names())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __call__(self, name: str, rank: int) -> tuple[int, ...]:
        if name not in self._names:
            raise ConvertError(f"tensor {name!r} is missing")
        shape = self._file.shape(name)
        if len(shape) != rank or 0 in shape:
            raise ConvertError(f"tensor {name!r} has shape {list(shape)}; expected {rank} axes, none empty")
        return shape

    def count(self, pattern: str, first: int = 0) -> int:
        n = 0
        while pattern.format(first + n) in self._names:
            n += 1
        return n


def codec(config: Configuration, file: TensorFile, codebooks: int) -> Codec:
    """Dimensions of the codec decoder, read from the shapes of its tensors and checked against the configuration."""
    shape = _Shapes(file)
    books = ["quantizer.semantic_quantizer.quantizers.0"]
    books += [f"quantizer.quantizer.quantizers.{i}" for i in range(codebooks - 1)]
    sizes = tuple(shape(f"{b}.codebook.weight", 2)[0] for b in books)
    code_dim = shape(f"{books[0]}.codebook.weight", 2)[1]
    dim = shape(f"{books[0]}.out_proj.weight", 3)[0]

    heads = config.integer("codec_post_n_head", 16)
    layer = "quantizer.post_module.layers.{}.attention.wqkv.weight"
    rows, width = (
        shape(layer.format(0), 2)[0],
        shape("quantizer.post_module.layers.0.attention.wo.weight", 2)[1],
    )
    head_dim, odd = divmod(width, heads)
    kv_heads, rest = divmod(rows - width, 2 * head_dim) if head_dim else (0, 1)
    if odd or rest or kv_heads < 1 or heads % kv_heads:
        raise ConvertError(f"tensor {layer.format(0)!r} has {rows} rows, which do not split into {heads} query heads")
    post = Attention(
        dim=dim,
        layers=shape.count(layer),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=shape("quantizer.post_module.layers.0.feed_forward.w1.weight", 2)[0],
    )

    stages = shape.count("quantizer.upsample.{}.0.conv.weight")
    if not stages:
        raise ConvertError("tensor 'quantizer.upsample.0.0.conv.weight' is missing")
    upsample = tuple(shape(f"quantizer.upsample.{i}.0.conv.weight", 3)[2] for i in range(stages))
    blocks = shape.count("decoder.model.{}.block.1.conv.weight", 1)
    if not blocks:
        raise ConvertError("tensor 'decoder.model.1.block.1.conv.weight' is missing")
    ups = [shape(f"decoder.model.{i + 1}.block.1.conv.weight", 3) for i in range(blocks)]
    if any(kernel % 2 for _, _, kernel in ups):
        raise ConvertError("tensor 'decoder.model.N.block.1.conv.weight': a kernel must be twice its stride, so even")
    stem = shape("decoder.model.0.conv.weight", 3)
    out = Codec(
        codebook_sizes=sizes,
        code_dim=code_dim,
        post=post,
        window=config.integer("codec_post_window_size", 128),
        upsample=upsample,
        upsample_ffn=shape("quantizer.upsample.0.1.pwconv1.weight", 2)[0],
        upsample_kernel=shape("quantizer.upsample.0.1.dwconv.conv.weight", 3)[2],
        channels=(stem[0], *(up[1] for up in ups)),
        strides=tuple(up[2] // 2 for up in ups),
        kernel=stem[2],
    )
    config.must_be(
        "codec_frame_size",
        out.frame_size,
        out.frame_size,
        "the product of the codec's strides",
    )
    return out
