"""Configuration and weights of the reference, keyed by the names of docs/model-format.md.

Loaded from a model file through the gguf package, dequantised, or from the published layout (`published.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from .dims import Multipliers


@dataclass(frozen=True)
class StackConfig:
    """A transformer stack with packed q|k|v, SwiGLU and interleaved rotation."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    rope_base: float
    norm_eps: float
    rope_bf16: bool


@dataclass(frozen=True)
class SlowConfig:
    """The Falcon-H1 backbone."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    max_positions: int
    rope_base: float
    norm_eps: float
    ssm_heads: int
    ssm_head_dim: int
    ssm_state: int
    ssm_groups: int
    ssm_conv: int
    multipliers: Multipliers


@dataclass(frozen=True)
class CodecConfig:
    """The codec decoder."""

    codebook_sizes: tuple[int, ...]
    dim: int
    post: StackConfig
    window: int
    upsample: tuple[int, ...]
    layer_norm_eps: float
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sample_rate: int


@dataclass(frozen=True)
class Config:
    """Everything but the weights. `codebook_sizes` are the rows of each book in `codebook_embeddings`."""

    vocab: int
    semantic_begin: int
    semantic_size: int
    eos_id: int
    has_next: bool
    codebook_sizes: tuple[int, ...]
    slow: SlowConfig
    fast: StackConfig
    codec: CodecConfig


@dataclass(frozen=True)
class Weights:
    """A model: configuration and float32 tensors."""

    config: Config
    tensors: dict[str, Tensor]


def single(value: float) -> float:
    """A float as a model file holds it."""
    return float(np.float32(value))


class ModelFileReader(gguf.GGUFReader):
    """The package's reader makes one object an element of every array: half a minute for an embedded lexicon."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
        array, byte = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT8
        if raw_type == array and self._get(orig_offs, np.uint32)[0] == byte:
            head = [self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)]
            data = self._get(orig_offs + 12, np.uint8, int(head[1][0]))
            return 12 + len(data), [*head, data], [2], [array, byte]
        parts: tuple[int, list[Any], list[int], list[Any]] = super()._get_field_parts(orig_offs, raw_type)
        return parts


def from_gguf(path: Path) -> Weights:
    """Loads a model file; quantised tensors are dequantised."""
    reader = ModelFileReader(path)
    k = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("kestrel.lexicon")}
    tensors = {}
    for t in reader.tensors:
        values = np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32)
        shape = [int(n) for n in reversed(t.shape)]
        tensors[t.name] = torch.from_numpy(values.reshape(shape).copy())
    factors = ("embedding", "attention_in", "attention_out", "key", "ssm_in", "ssm_out", "mlp_gate", "mlp_down")
    m: dict[str, Any] = {name: k[f"slow.mult.{name}"] for name in factors} | {"ssm": tuple(k["slow.mult.ssm"])}
    names = [f.name for f in fields(SlowConfig) if f.name != "multipliers"]
    slow: dict[str, Any] = {f: k[f"slow.{f.replace('ssm_', 'ssm.')}"] for f in names}
    config = Config(
        vocab=k["lm.vocab"],
        semantic_begin=k["lm.semantic_begin"],
        semantic_size=k["lm.semantic_size"],
        eos_id=k["kestrel.eos_id"],
        has_next=k["lm.has_next"],
        codebook_sizes=tuple(k["lm.codebook_sizes"]),
        slow=SlowConfig(**slow, multipliers=Multipliers(**m)),
        fast=_stack(k, "fast", k["fast.dim"]),
        codec=CodecConfig(
            codebook_sizes=tuple(k["codec.codebook_sizes"]),
            dim=k["codec.dim"],
            post=_stack(k, "codec.post", k["codec.dim"]),
            window=k["codec.post.window"],
            upsample=tuple(k["codec.upsample.strides"]),
            layer_norm_eps=k["codec.upsample.norm_eps"],
            strides=tuple(k["codec.decoder.strides"]),
            dilations=tuple(k["codec.decoder.dilations"]),
            sample_rate=k["codec.sample_rate"],
        ),
    )
    return Weights(config, tensors)


def _stack(k: dict[str, Any], prefix: str, dim: int) -> StackConfig:
    values: dict[str, Any] = {f.name: k[f"{prefix}.{f.name}"] for f in fields(StackConfig) if f.name != "dim"}
    return StackConfig(dim=dim, **values)
