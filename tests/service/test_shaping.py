"""Speed changes how long a voice speaks and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel.service.shaping import Shaper, tempo_steps
from tests.service.decoding import buzz

RATE = 16000


def shaped(pcm: np.ndarray, speed: float, to_rate: int = RATE, block: int = 1280) -> np.ndarray:
    shaper = Shaper(RATE, to_rate, speed)
    return np.concatenate([*(shaper.shape(pcm[at : at + block]) for at in range(0, len(pcm), block)), shaper.finish()])


def pitch(samples: np.ndarray, rate: int) -> float:
    """Median fundamental frequency of the loud parts, by autocorrelation."""
    size, found = rate // 20, []
    samples = samples.astype(float)
    for at in range(0, len(samples) - 2 * size, size):
        window = samples[at : at + 2 * size]
        if np.abs(window).max() < 5000:
            continue
        window = window * np.hanning(len(window))
        correlation = np.correlate(window, window, "full")[len(window) - 1 :]
        low, high = rate // 250, rate // 80
        found.append(rate / (low + int(np.argmax(correlation[low:high]))))
    assert len(found) > 5
    return float(np.median(found))


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.8, 1.25, 2.0, 3.3, 4.0])
@pytest.mark.parametrize("to_rate", [RATE, 24000])
def test_duration_changes_by_the_factor_and_pitch_stays(speed: float, to_rate: int) -> None:
    """Catches resampling in place of stretching (a chipmunk), a lost tail, and a wrong factor at either end."""
    pcm = buzz(4.0, RATE)
    result = shaped(pcm, speed, to_rate)
    assert len(result) / to_rate == pytest.approx(4.0 / speed, abs=0.03)
    assert pitch(result, to_rate) == pytest.approx(pitch(pcm, RATE), rel=0.04)
    assert np.abs(result[: to_rate // 50]).max() > 5000  # loud at both ends, as what went in
    assert np.abs(result[-to_rate // 12 :]).max() > 5000


@settings(max_examples=30, deadline=None)
@given(
    speed=st.floats(0.25, 4.0), to_rate=st.sampled_from([RATE, 24000, 48000]),
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=10),
)  # fmt: skip
def test_streamed_equals_whole(speed: float, to_rate: int, sizes: list[int]) -> None:
    """The filter alone gives other samples for other block sizes, so a streamed reply would differ from a whole one."""
    pcm = buzz(sum(sizes) / RATE + 0.01, RATE)[: sum(sizes)]
    shaper = Shaper(RATE, to_rate, speed)
    streamed = [shaper.shape(part) for part in np.split(pcm, np.cumsum(sizes)[:-1])]
    assert np.array_equal(np.concatenate([*streamed, shaper.finish()]), shaped(pcm, speed, to_rate, block=10**6))


def test_nothing_to_change_changes_nothing() -> None:
    """Speed 1 at the engine's rate must be the engine's samples, not a filter's idea of them."""
    pcm = buzz(0.5, RATE)
    assert np.array_equal(shaped(pcm, 1.0), pcm)


def test_audio_flows_while_it_comes() -> None:
    """Catches a filter that keeps everything to the end: first audio would wait for the whole text."""
    shaper = Shaper(RATE, 24000, 0.7)
    given_seconds = taken_seconds = 0.0
    for block in np.split(buzz(3.2, RATE), 80):
        taken_seconds += len(shaper.shape(block)) / 24000
        given_seconds += len(block) / RATE
        assert taken_seconds > given_seconds / 0.7 - 0.3


@given(st.floats(0.25, 4.0))
def test_steps_are_within_what_the_filter_does_well(speed: float) -> None:
    """Outside of 0.5 to 2 the filter refuses, or drops samples between its windows."""
    steps = tempo_steps(speed)
    assert np.prod(steps) == pytest.approx(speed)
    assert all(0.499999 < step < 2.000001 for step in steps)
