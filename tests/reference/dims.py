"""Dimensions of generated checkpoints, with the small presets of the parity tests and the published 0.1B size."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Multipliers:
    """muP multipliers of Falcon-H1; the published checkpoint uses 1 everywhere but for the embedding."""

    embedding: float = 0.10888671875
    attention_in: float = 1.0
    attention_out: float = 1.0
    key: float = 1.0
    ssm_in: float = 1.0
    ssm_out: float = 1.0
    mlp_gate: float = 1.0
    mlp_down: float = 1.0
    ssm: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class CodecDims:
    """Codec sizes. `channels` is the stem width and then the output width of every decoder block."""

    dim: int = 32
    code_dim: int = 8
    residual_size: int = 16
    post_layers: int = 3
    post_heads: int = 4
    post_kv_heads: int = 2
    post_head_dim: int = 16
    post_ffn: int = 48
    post_window: int = 8
    upsample: tuple[int, ...] = (2, 2)
    upsample_ffn: int = 128
    channels: tuple[int, ...] = (48, 24, 12, 6, 3)
    strides: tuple[int, ...] = (8, 8, 4, 2)
    pre_layers: int = 2
    pre_ffn: int = 64
    encoder_width: int = 2
    encoder_layers: int = 1
    sample_rate: int = 44100

    @property
    def frame_size(self) -> int:
        return math.prod(self.upsample) * math.prod(self.strides)


@dataclass(frozen=True)
class Dims:
    """Sizes of one checkpoint. Defaults are the "tiny hybrid": every axis has another length, no accidental symmetry.

    `text_vocab` counts the ids before the semantic ones. `eos_gain` scales the EOS row of the compact head: small
    values make random weights speak on, 1 lets EOS compete with the semantic codes.
    """

    dim: int = 64
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    ffn: int = 96
    max_positions: int = 2048
    rope_base: float = 1e11
    norm_eps: float = 1e-5
    ssm_heads: int = 6
    ssm_head_dim: int = 16
    ssm_state: int = 16
    ssm_groups: int = 1
    ssm_conv: int = 4
    multipliers: Multipliers = field(default_factory=Multipliers)
    text_vocab: int = 320
    semantic_size: int = 32
    eos_id: int = 228
    codebooks: int = 4
    fast_layers: int = 2
    fast_heads: int = 4
    fast_kv_heads: int = 2
    fast_head_dim: int = 16
    fast_ffn: int = 160
    codec: CodecDims = field(default_factory=CodecDims)
    eos_gain: float = 0.1
    temperature: float = 0.7
    top_p: float = 0.9
    top_k: int = 50

    @property
    def ssm_inner(self) -> int:
        return self.ssm_heads * self.ssm_head_dim

    @property
    def conv_channels(self) -> int:
        return self.ssm_inner + 2 * self.ssm_groups * self.ssm_state

    @property
    def vocab(self) -> int:
        return self.text_vocab + self.semantic_size


TINY = Dims()

TINY_MULTIPLIERS = Dims(
    multipliers=Multipliers(0.37, 1.3, 0.8, 0.6, 1.4, 0.7, 1.7, 0.55, (0.9, 1.2, 0.7, 1.5, 1.1)),
    heads=6,
    kv_heads=2,
    head_dim=16,
)
"""All multipliers differ from 1, and the query width differs from the model width."""

TINY_WIDE_STATE = Dims(ssm_heads=3, ssm_head_dim=32, ssm_state=64)
"""The published Mamba-2 state and head sizes."""

TINY_GROUPS = Dims(ssm_groups=2)
"""B and C are no longer shared by all heads."""

PRESETS = {
    "tiny": TINY,
    "multipliers": TINY_MULTIPLIERS,
    "wide_state": TINY_WIDE_STATE,
    "groups": TINY_GROUPS,
}

FULL = Dims(
    dim=512,
    layers=24,
    heads=8,
    kv_heads=2,
    head_dim=64,
    ffn=768,
    ssm_heads=24,
    ssm_head_dim=32,
    ssm_state=64,
    text_vocab=65537,
    semantic_size=4096,
    codebooks=10,
    fast_layers=4,
    fast_heads=8,
    fast_kv_heads=2,
    fast_head_dim=64,
    fast_ffn=4864,
    codec=CodecDims(
        dim=1024,
        residual_size=1024,
        post_layers=8,
        post_heads=16,
        post_kv_heads=8,
        post_head_dim=64,
        post_ffn=1216,
        post_window=128,
        upsample_ffn=4096,
        channels=(1536, 768, 384, 192, 96),
        pre_layers=8,
        pre_ffn=3072,
        encoder_width=64,
        encoder_layers=4,
    ),
)
"""Sizes of the published 0.1B checkpoint: 169,779,904 language-model and 337,396,721 codec parameters."""
