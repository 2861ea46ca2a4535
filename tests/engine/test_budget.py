"""Frame budget and guards. Faults caught: a budget that cuts ordinary speech, one that never ends a runaway, a caller's
limit that is ignored, and a text that is accepted although it cannot fit the context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kestrel.engine.budget import frame_budget, guard_limits, positions_needed

RATES = st.sampled_from([12.5, 21.533203125, 25.0])


@given(st.integers(0, 10_000), st.floats(0.5, 3.0), RATES)
def test_budget_leaves_twice_the_ordinary_length_and_a_floor(symbols: int, per_symbol: float, fps: float) -> None:
    """Slow speech takes up to twice the mean length (measured over the training lines), a lone word two seconds."""
    budget = frame_budget(symbols, per_symbol, fps, None)
    assert budget >= 2 * symbols * per_symbol
    assert budget >= 2 * fps
    assert budget <= 4 * symbols * per_symbol + 4 * fps


@given(st.integers(0, 1000), RATES, st.floats(0.001, 1000))
def test_caller_limit_is_kept(symbols: int, fps: float, seconds: float) -> None:
    """max_seconds never lengthens, is never exceeded by a whole frame, and leaves at least one frame."""
    free, limited = frame_budget(symbols, 2.0, fps, None), frame_budget(symbols, 2.0, fps, seconds)
    assert 1 <= limited <= free
    assert limited == 1 or limited <= seconds * fps


@given(RATES)
def test_guards_wait_longer_than_any_pause(fps: float) -> None:
    """A guard that fires within a second would cut pauses and held vowels; one beyond ten seconds guards nothing."""
    limits = guard_limits(100, 40, fps)
    assert (limits.max_frames, limits.max_segment_frames) == (100, 40)
    assert fps < limits.repetition_frames < 10 * fps
    assert fps < limits.silence_frames < 10 * fps
    assert 0 < limits.silence_rms < 0.01


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 500))
def test_positions_grow_with_text_and_speech(columns: int, ids: int, symbols: int) -> None:
    """Text ids and one position a frame, so an accepted text always has room for ordinary speech."""
    assert positions_needed(columns, ids, symbols, 2.0) == columns + ids + 2 * symbols
