"""Silence and levels of a clip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SOUND = 0.01
"""Samples above this (full scale = 1) belong to a sound."""
EDGE_SECONDS = 0.01
FLOOR_DB = -120.0


@dataclass(frozen=True)
class Level:
    """What can be measured of a clip without knowing what it says."""

    onset: float
    """Seconds before the first sound; the whole length if there is none."""
    tail: float
    """Seconds after the last sound."""
    first_db: float
    """Level of the first 10 ms in dB of full scale: high means a click."""
    last_db: float
    speech_db: float
    """Level between the first and the last sound."""
    peak: float


def _decibels(samples: NDArray[np.float32]) -> float:
    power = float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
    return max(FLOOR_DB, 10 * math.log10(power)) if power > 0 else FLOOR_DB


def measure(samples: NDArray[np.float32], rate: int) -> Level:
    """Measure mono samples in [-1, 1]."""
    loud = np.flatnonzero(np.abs(samples) > SOUND)
    first, last = (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (len(samples), len(samples))
    edge = int(EDGE_SECONDS * rate)
    return Level(
        onset=first / rate,
        tail=(len(samples) - last) / rate,
        first_db=_decibels(samples[:edge]),
        last_db=_decibels(samples[-edge:]),
        speech_db=_decibels(samples[first:last]),
        peak=float(np.abs(samples).max(initial=0.0)),
    )
