"""What a caller asks for, checked on construction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kestrel.engine.binding import NativeSampling

_LARGEST_SEED = 2**64 - 1
_CHUNK_SIZES = (1, 2, 4, 8, 16)


def _require(valid: bool, message: str) -> None:
    if not valid:
        raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Overrides of the model's sampling defaults; None keeps the default. Raises ValueError naming the valid range."""

    temperature: float | None = None  # 0 = always the likeliest token
    top_p: float | None = None
    top_k: int | None = None  # 0 = no limit

    def __post_init__(self) -> None:
        t, p, k = self.temperature, self.top_p, self.top_k
        _require(t is None or (math.isfinite(t) and 0 <= t <= 2), f"temperature is {t}; valid: 0 to 2")
        _require(p is None or (math.isfinite(p) and 0 < p <= 1), f"top_p is {p}; valid: above 0, at most 1")
        _require(k is None or 0 <= k <= 2**31 - 1, f"top_k is {k}; valid: 0 (no limit) or more")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One text to speak. Raises ValueError naming what is valid.

    `max_seconds` caps the audio. The first chunk holds `first_chunk_frames` frames, so that sound starts early; later
    ones double up to `max_chunk_frames` (1, 2, 4, 8 or 16), which decode faster. The samples do not depend on either.
    """

    text: str
    voice: str = "default"
    language: str | None = None  # BCP 47; None = the model's own
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    max_seconds: float | None = None
    first_chunk_frames: int = 2
    max_chunk_frames: int = 16

    def __post_init__(self) -> None:
        limit, first, most = self.max_seconds, self.first_chunk_frames, self.max_chunk_frames
        _require(isinstance(self.text, str), f"text is {type(self.text).__name__}; valid: a string")
        _require(0 <= self.seed <= _LARGEST_SEED, f"seed is {self.seed}; valid: 0 to {_LARGEST_SEED}")
        _require(limit is None or (math.isfinite(limit) and limit > 0), f"max_seconds is {limit}; valid: above 0")
        _require(most in _CHUNK_SIZES, f"max_chunk_frames is {most}; valid: {_CHUNK_SIZES}")
        _require(1 <= first <= most, f"first_chunk_frames is {first}; valid: 1 to max_chunk_frames ({most})")


def resolve_sampling(defaults: NativeSampling, asked: Sampling) -> NativeSampling:
    """Model defaults with the caller's overrides.

    The fast codebooks are sampled far cooler than the semantic one; a caller's temperature scales both alike.
    """
    temperature = defaults.temperature if asked.temperature is None else asked.temperature
    if asked.temperature is None:
        fast = defaults.fast_temperature
    elif defaults.temperature > 0:
        fast = defaults.fast_temperature * asked.temperature / defaults.temperature
    else:
        fast = asked.temperature
    return NativeSampling(
        temperature=temperature,
        fast_temperature=fast,
        top_p=defaults.top_p if asked.top_p is None else asked.top_p,
        top_k=defaults.top_k if asked.top_k is None else asked.top_k,
        ras_window=defaults.ras_window,
        ras_temperature=defaults.ras_temperature,
        ras_top_p=defaults.ras_top_p,
    )
