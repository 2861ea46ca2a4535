"""What one request says, in order: pieces for the engine and silences, each with its place in the caller's text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kestrel.engine import TextTooLongError
from kestrel.service.containers import Pcm
from kestrel.service.planner import plan
from kestrel.service.text import Language, Pause, PlanError, Switches, Traced, normalise, speakable

Span = tuple[int, int]
"""Start and end of a part of the caller's text, in characters (Unicode code points)."""

_SILENT_BLOCK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one utterance. `span` is what it stands for in the caller's text."""

    spoken: Traced

    @property
    def text(self) -> str:
        return self.spoken.text

    @property
    def span(self) -> Span:
        return self.spoken.span(0, len(self.spoken))

    def original(self, start: int, end: int) -> Span:
        """Span in the caller's text of the part `[start, end)` of this piece, for example of an engine's WordTime."""
        return self.spoken.span(start, end)


def write_script(
    text: str, switches: Switches, language: Language | None, max_chars: int, min_chars: int
) -> list[Piece | Pause]:
    """Raises PlanError when there is nothing to say, a word is too long or a pause tag is malformed."""
    script: list[Piece | Pause] = []
    for part in normalise(text, switches, language):
        if isinstance(part, Pause):
            script.append(part)
            continue
        start = 0
        for planned in plan(part.text, max_chars, min_chars):
            if speakable(planned):
                script.append(Piece(part.slice(start, start + len(planned)).strip()))
            start += len(planned)
    if not any(isinstance(item, Piece) for item in script):
        raise PlanError("the text holds nothing to say; it needs at least one letter or digit")
    return script


def fitted(script: list[Piece | Pause], check: Callable[[str], None]) -> list[Piece | Pause]:
    """The script, with every piece that is too long for the engine split again.

    The planner counts characters; a piece of initialisms or figures can still have more sounds than one utterance
    holds. `check` is Engine.check. Raises TextError for what the voice cannot speak, before any audio is made.
    """
    fits: list[Piece | Pause] = []
    for item in script:
        fits.extend([item] if isinstance(item, Pause) else _fit(item, check))
    return fits


def _fit(piece: Piece, check: Callable[[str], None]) -> list[Piece]:
    try:
        check(piece.text)
    except TextTooLongError:
        parts = plan(piece.text, len(piece.text) // 2, 1)
        if len(parts) < 2:
            raise
        found: list[Piece] = []
        start = 0
        for part in parts:
            if speakable(part):
                found += _fit(Piece(piece.spoken.slice(start, start + len(part)).strip()), check)
            start += len(part)
        return found
    return [piece]


def silence(seconds: float, sample_rate: int) -> Iterator[Pcm]:
    """Exactly `round(seconds * sample_rate)` zero samples, in blocks of about a second."""
    left, most = round(seconds * sample_rate), round(_SILENT_BLOCK_SECONDS * sample_rate)
    while left > 0:
        yield np.zeros(min(left, most), np.int16)
        left -= most
