"""How long an utterance may become: frame budget from the text, and the guards against runaways. Pure functions."""

from __future__ import annotations

import math

from kestrel.engine.binding import NativeLimits

# A voice that needs more than this times the usual length for its text has lost the thread.
GENEROSITY = 3.0
# Even one word may take this long.
FLOOR_SECONDS = 3.0
# The codec repeats codes in silence, and a speaker may hold a vowel; neither lasts this long.
REPETITION_SECONDS = 2.5
SILENCE_SECONDS = 4.0
SILENCE_RMS = 0.001  # -60 dB


def frame_budget(symbols: int, frames_per_symbol: float, frames_per_second: float, max_seconds: float | None) -> int:
    """Most frames a text of `symbols` may take, at least one; `max_seconds` of the caller lowers it further."""
    expected = symbols * frames_per_symbol * GENEROSITY
    budget = math.ceil(max(expected, FLOOR_SECONDS * frames_per_second))
    if max_seconds is not None:
        budget = min(budget, math.floor(max_seconds * frames_per_second))
    return max(1, budget)


def guard_limits(max_frames: int, max_segment_frames: int, frames_per_second: float) -> NativeLimits:
    """Native limits of a session."""
    return NativeLimits(
        max_frames=max_frames,
        max_segment_frames=max_segment_frames,
        repetition_frames=math.ceil(REPETITION_SECONDS * frames_per_second),
        silence_frames=math.ceil(SILENCE_SECONDS * frames_per_second),
        silence_rms=SILENCE_RMS,
    )


def positions_needed(prompt_columns: int, segment_ids: int, symbols: int, frames_per_symbol: float) -> int:
    """Context positions an utterance of ordinary length takes: its text and one for every frame."""
    return prompt_columns + segment_ids + math.ceil(symbols * frames_per_symbol)
