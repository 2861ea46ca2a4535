"""When each sentence and word of a reply is heard, and which part of the caller's text it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kestrel.engine import Result
from kestrel.service.script import Piece, Span


@dataclass(frozen=True, slots=True)
class Word:
    """A word, as it stands in the caller's text, and when it begins."""

    text: str
    span: Span
    start: float

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "span": list(self.span), "start": round(self.start, 6)}


@dataclass(frozen=True, slots=True)
class Sentence:
    """One piece of the text: a sentence, several short ones, or a part of a long one. Times in seconds of audio."""

    index: int
    text: str
    span: Span
    start: float
    end: float
    words: tuple[Word, ...]
    phases: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "text": self.text,
            "span": list(self.span),
            "start": round(self.start, 6),
            "end": round(self.end, 6),
            "words": [word.as_json() for word in self.words],
            "phases": {name: round(seconds, 6) for name, seconds in self.phases.items()},
        }


class Timeline:
    """Follows the pieces of one reply. `speed` turns seconds of the engine into seconds that are heard."""

    def __init__(self, original: str, pieces: Sequence[Piece], speed: float) -> None:
        self._original = original
        self._pieces = pieces
        self._speed = speed

    def span(self, piece: int) -> Span:
        return self._pieces[piece].span

    def ended(self, piece: int, start: float, result: Result) -> Sentence:
        """Piece number `piece`, which began `start` seconds into the engine's audio, has been spoken."""
        start /= self._speed
        span = self.span(piece)
        words: list[Word] = []
        for word in result.words:
            part = self._pieces[piece].original(word.start, word.end)
            words.append(Word(self._original[slice(*part)], part, start + word.seconds / self._speed))
        return Sentence(
            index=piece,
            text=self._original[slice(*span)],
            span=span,
            start=start,
            end=start + result.audio_seconds / self._speed,
            words=tuple(words),
            phases={name: phase.seconds for name, phase in result.phases.items()},
        )
