"""Configuration of AR training, read from a TOML file with one table per dataclass."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes of the dual AR. The fast model has the slow model's width (its input projection is the identity)."""

    dim: int = 192
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 48
    ffn: int = 512
    ssm_inner: int = 384
    ssm_heads: int = 6
    ssm_state: int = 32
    ssm_conv: int = 4
    fast_layers: int = 2
    fast_heads: int = 4
    fast_kv_heads: int = 2
    fast_head_dim: int = 48
    fast_ffn: int = 512
    codebook_sizes: tuple[int, ...] = (1024, 256, 256, 256)
    aligned_layers: tuple[int, ...] = (1, 2)
    """Slow layers whose first attention head is supervised to the symbol being spoken."""


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where utterances come from and how they are disturbed."""

    lead_frames: int = 7
    """Frames cut off at the start. The teacher is silent for its first 0.294 s or more (40 sentences measured)."""
    trail_seconds: float = 0.18
    """What is kept from the nominal start of the last sound on. It really ends -0.06 to 0.09 s after that."""
    anticipation: float = 0.0
    """Seconds by which the codes are ahead of the teacher's durations.

    Its sounds are heard about 50 ms before its durations say, but the first codec's codebook 0 was supervised with the
    durations as they are, and its codes agree with them best at 0. A codec supervised with corrected labels needs 0.05.
    """
    lettered_modes: tuple[float, float, float, float] = (0.4, 0.3, 0.2, 0.1)
    """Chances that an utterance is spelled: not at all, in one word, each word with `lettered_word`, everywhere."""
    lettered_word: float = 0.4
    replace_frame: float = 0.08
    """Chance that a past frame is another frame of the batch: the model must survive its own mistakes."""
    replace_residual: float = 0.06
    """Chance that only the residual codes of a past frame come from another frame."""
    drop_frame: float = 0.05
    """Chance that a past frame is silent to the model (zero embedding)."""


@dataclasses.dataclass(frozen=True)
class OptimiserConfig:
    """Muon for the matrices of the layers, AdamW for everything else."""

    batch: int = 28
    muon_rate: float = 0.02
    adam_rate: float = 2e-3
    warm_up: int = 60
    floor: float = 0.03
    """Share of the learning rate left at the end of the decay phase."""
    residual_weights: tuple[float, ...] = (1.0, 0.8, 0.5)
    align_weight: float = 0.3
    clip: float = 1.0
    seed: int = 1


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Where and how often things are written."""

    device: str = "cpu"
    threads: int = 1
    bfloat16: bool = True
    """Matrix products in bfloat16; weights, residual stream, decays and losses stay float32."""
    log_every: int = 25
    held_out_every: int = 200
    save_seconds: float = 180.0
    keep: int = 3


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything but paths."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    run: RunConfig = RunConfig()


def _table(kind: type[T], name: str, values: dict[str, Any]) -> T:
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in [{name}]; valid: {', '.join(sorted(known))}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})


def load_config(path: Path) -> Config:
    """Read a TOML file; absent keys keep their defaults.

    Raises ValueError for an unknown table or key, naming the valid ones: a misspelt key would otherwise train
    with the default for hours.
    """
    tables = tomllib.loads(path.read_text())
    kinds = {"model": ModelConfig, "data": DataConfig, "optimiser": OptimiserConfig, "run": RunConfig}
    for name in tables:
        if name not in kinds:
            raise ValueError(f"unknown table [{name}]; valid: {', '.join(kinds)}")
    return Config(**{name: _table(kind, name, tables.get(name, {})) for name, kind in kinds.items()})
