"""Where in the caller's text a part of the spoken text comes from.

Cleaning a text drops emoji and control characters, joins white space and composes accents; it keeps every letter and
digit, in order. Those are counted on both sides, so the n-th one of the spoken text is the n-th one of the caller's.
Linear in the length of the text.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

from kestrel.service.planner import dropped

Span = tuple[int, int]
"""Start and end of a part of the caller's text, in characters (Unicode code points)."""


class Alignment:
    """Maps the pieces of a spoken text, which follow each other in `original`, to parts of it."""

    def __init__(self, original: str, pieces: Sequence[str]) -> None:
        self._original = original
        self._places = _places(original)
        self._pieces = pieces
        self._before: list[int] = []  # letters and digits before each piece
        count = 0
        for piece in pieces:
            self._before.append(count)
            count += len(_places(piece))

    def piece(self, index: int) -> Span:
        """The part that piece number `index` speaks, with its punctuation."""
        return self._span(self._before[index], len(_places(self._pieces[index])), punctuation=True)

    def part(self, index: int, start: int, end: int) -> Span:
        """The part that the characters `start` to `end` of piece number `index` come from."""
        piece = self._pieces[index]
        before = len(_places(piece[:start]))
        return self._span(self._before[index] + before, len(_places(piece[start:end])), punctuation=False)

    def _span(self, first: int, count: int, *, punctuation: bool) -> Span:
        if not self._places:
            return 0, 0
        if count == 0:
            at = self._places[min(first, len(self._places) - 1)]
            return at, at
        last = min(first + count, len(self._places)) - 1
        start, end = self._places[min(first, last)], self._places[last] + 1
        while end < len(self._original) and unicodedata.category(self._original[end])[0] == "M":
            end += 1  # an accent belongs to its letter
        if not punctuation:
            return start, end
        low = self._ending(self._places[first - 1] + 1) if first > 0 else 0
        while start > low and not self._original[start - 1].isspace():
            start -= 1
        return start, self._ending(end)

    def _ending(self, end: int) -> int:
        """`end`, moved behind the punctuation that follows it."""
        following = bisect_left(self._places, end)
        high = self._places[following] if following < len(self._places) else len(self._original)
        while end < high and not self._original[end].isspace():
            end += 1
        return end


def _places(text: str) -> list[int]:
    """Index of every letter and digit; as often as it has letters and digits once taken apart (NFD)."""
    if text.isascii():
        return [index for index, char in enumerate(text) if char.isalnum()]
    return [
        index
        for index, char in enumerate(text)
        if not dropped(char)
        for part in unicodedata.normalize("NFD", char)
        if part.isalnum()
    ]
