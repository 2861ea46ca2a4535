"""Requests, sampling and samples.

Faults caught: values that would reach the native library unchecked, overrides that break the balance between the
codebooks, and samples that wrap around.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.engine import Sampling, Utterance
from kestrel.engine.binding import NativeSampling
from kestrel.engine.pcm import to_int16
from kestrel.engine.utterance import resolve_sampling

NAN, INF = float("nan"), float("inf")
DEFAULTS = NativeSampling(0.25, 0.02, 0.9, 20, 10, 1.0, 0.8)


@pytest.mark.parametrize(
    "bad",
    [
        {"text": 5}, {"seed": -1}, {"seed": 2**64}, {"max_seconds": 0}, {"max_seconds": NAN}, {"max_seconds": INF},
        {"first_chunk_frames": 0}, {"max_chunk_frames": 3}, {"first_chunk_frames": 9, "max_chunk_frames": 8},
    ],
)  # fmt: skip
def test_bad_utterances_are_refused(bad: dict[str, object]) -> None:
    """On construction, with the valid range in the message."""
    with pytest.raises(ValueError, match="valid:"):
        Utterance(**{"text": "Hello.", **bad})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [{"temperature": -0.1}, {"temperature": NAN}, {"temperature": 3.0}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}],
)
def test_bad_sampling_is_refused(bad: dict[str, float]) -> None:
    """NaN compares false with everything and would pass a careless check."""
    with pytest.raises(ValueError, match="valid:"):
        Sampling(**bad)  # type: ignore[arg-type]


def test_defaults_are_kept() -> None:
    """No override, no change."""
    assert resolve_sampling(DEFAULTS, Sampling()) == DEFAULTS
    assert resolve_sampling(DEFAULTS, Sampling(top_p=0.5, top_k=3)) == replace(DEFAULTS, top_p=0.5, top_k=3)


def test_temperature_scales_the_fast_codebooks_alike() -> None:
    """One knob: the ratio of both temperatures is the model's, also where its default is greedy."""
    hot = resolve_sampling(DEFAULTS, Sampling(temperature=0.5))
    assert (hot.temperature, hot.fast_temperature) == pytest.approx((0.5, 0.04))
    assert resolve_sampling(DEFAULTS, Sampling(temperature=0)).fast_temperature == 0
    greedy_model = replace(DEFAULTS, temperature=0.0, fast_temperature=0.0)
    assert resolve_sampling(greedy_model, Sampling(temperature=0.7)).fast_temperature == 0.7


def test_samples_round_half_to_even_and_clamp() -> None:
    """A wrapped sample is a loud click."""
    half = 0.5 / 32767
    floats = np.array([0, 1, -1, 2, -9, INF, half, 3 * half, -half, 1 / 32767], dtype=np.float32)
    assert to_int16(floats).tolist() == [0, 32767, -32767, 32767, -32767, 32767, 0, 2, 0, 1]


@given(st.integers(-32767, 32767))
def test_samples_survive_a_round_trip(value: int) -> None:
    """Every 16-bit value but -32768 is reached."""
    assert to_int16(np.array([value / 32767], dtype=np.float32)).tolist() == [value]
