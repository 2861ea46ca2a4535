"""A text that remembers where each of its characters came from."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces `text[start:end]` by `spoken`. `start == end` inserts; an empty `spoken` deletes."""

    start: int
    end: int
    spoken: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Words as they are spoken and the part of the caller's text, `[start, end)`, that they stand for."""

    spoken: str
    start: int
    end: int


class Traced:
    """Immutable text in which every character knows its span in the caller's text.

    Both ends of the spans never decrease from one character to the next, whatever is edited; a rewritten passage as a
    whole has the span of what it replaces. Every operation takes time linear in the length of the text.
    """

    __slots__ = ("_ends", "_starts", "text")

    def __init__(self, text: str, starts: array[int], ends: array[int]) -> None:
        assert len(text) == len(starts) == len(ends)
        self.text = text
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, text: str) -> Traced:
        """The caller's own text: each character stands for itself."""
        return cls(text, array("l", range(len(text))), array("l", range(1, len(text) + 1)))

    def __len__(self) -> int:
        return len(self.text)

    def slice(self, start: int, end: int) -> Traced:
        """Part of the text with its spans."""
        return Traced(self.text[start:end], self._starts[start:end], self._ends[start:end])

    def strip(self) -> Traced:
        """Without white space at either end."""
        start = len(self.text) - len(self.text.lstrip())
        return self.slice(start, max(start, len(self.text.rstrip())))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Span in the caller's text of the characters `[start, end)`; an empty one lies between its neighbours."""
        if start < end:
            return self._starts[start], self._ends[end - 1]
        at = self._ends[start - 1] if start else (self._starts[0] if self._starts else 0)
        return at, at

    def rewrite(self, edits: Iterable[Edit]) -> Traced:
        """The text after `edits`, which must be in order and must not overlap."""
        parts: list[str] = []
        starts, ends = array("l"), array("l")
        at = 0
        for edit in edits:
            assert at <= edit.start <= edit.end, "edits overlap"
            parts += (self.text[at : edit.start], edit.spoken)
            first, last = self.span(edit.start, edit.end)
            starts += self._starts[at : edit.start] + array("l", [first]) * len(edit.spoken)
            ends += self._ends[at : edit.start] + array("l", [last]) * len(edit.spoken)
            at = edit.end
        if not parts:
            return self
        parts.append(self.text[at:])
        return Traced("".join(parts), starts + self._starts[at:], ends + self._ends[at:])

    def segments(self) -> Iterator[Segment]:
        """The words in order: runs between white space, those of one rewritten passage together."""
        start = 0
        for at in range(1, len(self.text) + 1):
            if at < len(self.text) and not self._parts_before(at):
                continue
            first, last = start, at
            while first < last and self.text[first].isspace():
                first += 1
            while first < last and self.text[last - 1].isspace():
                last -= 1
            if first < last:
                yield Segment(self.text[first:last], *self.span(first, last))
            start = at

    def _parts_before(self, at: int) -> bool:
        """True where white space stands between two passages of different origin."""
        if not self.text[at - 1].isspace():
            return False
        return at < 2 or self._starts[at] >= self._ends[at - 2]
