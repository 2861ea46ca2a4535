"""What one request says, in order: pieces for the engine and silences, each with its place in the caller's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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


def silence(seconds: float, sample_rate: int) -> Iterator[Pcm]:
    """Exactly `round(seconds * sample_rate)` zero samples, in blocks of about a second."""
    left, most = round(seconds * sample_rate), round(_SILENT_BLOCK_SECONDS * sample_rate)
    while left > 0:
        yield np.zeros(min(left, most), np.int16)
        left -= most
