"""What is known about a loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kestrel.engine.binding import BACKENDS, TEXT_MODES, NativeSampling
from kestrel.engine.metadata import Metadata


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Facts about a loaded model: sizes in bytes, rates in Hz or frames a second."""

    name: str
    version: str
    license: str
    path: Path
    voices: tuple[str, ...]
    languages: tuple[str, ...]
    text_mode: str  # "prompt" or "interleaved"
    frontend: str
    max_characters: int | None  # longest text the voice was trained on; split longer ones
    sample_rate: int
    frame_size: int  # samples
    frames_per_second: float
    codebooks: int
    max_positions: int
    slots: int
    threads: int
    backend: str  # of the codec
    slow_layers: int
    slow_dim: int
    fast_layers: int
    fast_dim: int
    parameters: int
    weight_bytes: int
    packed_bytes: int
    state_bytes: int
    compute_bytes: int
    temperature: float
    fast_temperature: float
    top_p: float
    top_k: int
    engine_version: str


def describe(
    metadata: Metadata,
    native: dict[str, int],
    sampling: NativeSampling,
    max_characters: int | None,
    engine_version: str,
) -> ModelInfo:
    """Joins the file's keys with what the native library reports (fields of ks_model_info). Raises ModelFileError."""
    return ModelInfo(
        name=metadata.text("general.name"),
        version=metadata.text("general.version"),
        license=metadata.text("general.license"),
        path=metadata.path,
        voices=metadata.texts("kestrel.voices"),
        languages=metadata.texts("kestrel.languages"),
        text_mode=TEXT_MODES[native["text_mode"]],
        frontend=metadata.text("kestrel.frontend"),
        max_characters=max_characters,
        sample_rate=native["sample_rate"],
        frame_size=native["frame_size"],
        frames_per_second=native["sample_rate"] / native["frame_size"],
        codebooks=native["n_codebooks"],
        max_positions=native["max_positions"],
        slots=native["n_slots"],
        threads=native["n_threads"],
        backend=BACKENDS[native["backend"]],
        slow_layers=native["slow_layers"],
        slow_dim=native["slow_dim"],
        fast_layers=native["fast_layers"],
        fast_dim=native["fast_dim"],
        parameters=native["n_parameters"],
        weight_bytes=native["weight_bytes"],
        packed_bytes=native["packed_bytes"],
        state_bytes=native["state_bytes"],
        compute_bytes=native["compute_bytes"],
        temperature=sampling.temperature,
        fast_temperature=sampling.fast_temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        engine_version=engine_version,
    )
