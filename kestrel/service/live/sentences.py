"""Sentences of a text that is still being written, cut exactly where `planner.plan` cuts the finished text.

Nothing here waits or sends. A text is taken apart into atoms: from the first letter of a word to the first letter of
the next one. Inside an atom a later character can still change what was read (a combining mark, a joiner, another
space); across its border nothing can, so an atom is cleaned once, as soon as the next one begins. A cut is decided when
the planner's rule can no longer be changed by what follows; equality with the planner is tested as a property.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field

from kestrel.service.planner import (
    MAX_PIECE_CHARS,
    MIN_PIECE_CHARS,
    Cut,
    Packer,
    clean,
    cuts,
    is_emoji,
    is_opener,
    is_unspaced,
    speakable,
)

_LOOK_AHEAD = 40  # characters in which the first letter of the next word must show, behind quotation marks and brackets
_DROPPED = ("Cc", "Cf", "Cs", "Co", "Cn")


@dataclass(frozen=True, slots=True)
class _Atom:
    start: int  # in the text as it came
    end: int  # without the space behind it
    at: int  # in the cleaned text
    exact: bool  # cleaning changed nothing, so that characters correspond one to one


@dataclass(frozen=True, slots=True)
class Sentence:
    """A piece to speak. `start` and `end` delimit it in the text as it came, in Unicode code points."""

    text: str
    start: int
    end: int
    _at: int = 0
    _atoms: tuple[_Atom, ...] = field(default=(), repr=False)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where that part of `text` is in the text as it came; whole words where cleaning changed something."""
        first, last = self._atom(start), self._atom(max(start, end - 1))
        begin = first.start + self._at + start - first.at if first.exact else first.start
        finish = last.start + self._at + end - last.at if last.exact else last.end
        return min(begin, first.end), min(finish, last.end)

    def _atom(self, at: int) -> _Atom:
        starts = [atom.at for atom in self._atoms]
        return self._atoms[max(0, bisect_right(starts, self._at + at) - 1)]


class SentenceBuffer:
    """Holds back what cannot be decided yet. `feed` and `end` return the sentences that are."""

    def __init__(self, max_chars: int = MAX_PIECE_CHARS, min_chars: int = MIN_PIECE_CHARS) -> None:
        self._max_chars, self._min_chars = max_chars, min_chars
        self._tail: list[str] = []  # the atom that is not finished
        self._scanned = 1  # characters of it that are known not to begin the next one
        self._tail_start = 0
        self._cleaned = ""  # finished atoms from the start of the next sentence on
        self._cleaned_at = 0
        self._continues = False  # _cleaned begins inside a word of a script without spaces
        self._atoms: list[_Atom] = []
        self._undecided = False  # the next character may decide a cut although it finishes no atom

    @property
    def held(self) -> int:
        """Characters that are held back."""
        return len(self._cleaned) + len(self._tail)

    def feed(self, text: str) -> list[Sentence]:
        """The next part of the text, of any length. Raises PlanError for a word too long to speak."""
        self._tail.extend(text)
        if not self._finish_atoms() and not self._undecided:
            return []
        ahead = clean("".join(self._tail[:_LOOK_AHEAD]))
        decided = list(cuts(self._cleaned, ahead, continues=self._continues))
        # The first letter of the next word tells whether the sentence goes on; brackets and quotation marks do not.
        hidden = self._cleaned[-1:].isspace() and all(map(is_opener, ahead))
        self._undecided = hidden and len(self._tail) < _LOOK_AHEAD
        return self._pack(decided[:-1] if hidden else decided)

    def end(self) -> list[Sentence]:
        """The rest: the text is complete. The buffer is empty then, also if it raises PlanError."""
        try:
            if self._tail:
                self._add("".join(self._tail), "")
            return self._pack(list(cuts(self._cleaned, continues=self._continues))) + self._cut(len(self._cleaned))
        finally:
            self._tail, self._cleaned, self._atoms = [], "", []

    def _finish_atoms(self) -> bool:
        """Moves every atom that is complete from the tail to the cleaned text. True if there was one."""
        begin, tail = 0, self._tail
        for at in range(self._scanned, len(tail)):
            if _begins_atom(tail[at - 1], tail[at]):
                self._add("".join(tail[begin:at]), "x")
                begin = at
        self._scanned = max(1, len(tail) - begin)
        del tail[:begin]
        return begin > 0

    def _add(self, raw: str, following: str) -> None:
        """One atom. `following` stands for the letter that begins the next one: it brings out the space between."""
        cleaned = clean(raw + following)
        if following:
            cleaned = cleaned[: -len(following)]
        bare = cleaned.rstrip()
        core = len(raw.rstrip())
        if cleaned:
            exact = raw.startswith(bare)
            end = self._tail_start + (len(bare) if exact else core)
            self._atoms.append(_Atom(self._tail_start, end, self._cleaned_at + len(self._cleaned), exact))
        self._cleaned += cleaned
        self._tail_start += len(raw)

    def _pack(self, decided: list[Cut]) -> list[Sentence]:
        packer = Packer(self._max_chars, self._min_chars)
        ends = [end for cut in decided for end in packer.take(self._cleaned, cut)]
        found: list[Sentence] = []
        taken = 0
        for end in ends:
            found += self._cut(end - taken)
            taken = end
        return found

    def _cut(self, end: int) -> list[Sentence]:
        """Takes the next sentence; nothing if there is nothing to say in it."""
        if not end:
            return []
        piece = self._cleaned[:end]
        atoms = tuple(atom for atom in self._atoms if atom.at < self._cleaned_at + end)
        at = self._cleaned_at + len(piece) - len(piece.lstrip())
        self._continues = not piece[-1:].isspace() and (self._continues or any(map(is_unspaced, piece.split()[-1])))
        self._cleaned = self._cleaned[end:]
        self._cleaned_at += end
        self._atoms = [*atoms[-1:], *self._atoms[len(atoms) :]]
        if not speakable(piece):
            return []
        sentence = Sentence(piece.strip(), 0, 0, at, atoms)
        return [Sentence(sentence.text, *sentence.span(0, len(sentence.text)), at, atoms)]


def _begins_atom(before: str, char: str) -> bool:
    """True if cleaning can be split in front of `char`: nothing before it can change it, and the other way round."""
    if not _plain(char):
        return False
    return before.isspace() or (_plain(before) and (is_unspaced(before) or is_unspaced(char)))


def _plain(char: str) -> bool:
    """A character that cleaning keeps, and that no normalisation joins to the one before it (Unicode, NFC)."""
    if char.isascii():
        return char.isprintable() and char != " "
    category = unicodedata.category(char)
    joins = category[0] == "M" or "\u1161" <= char <= "\u1175" or "\u11a8" <= char <= "\u11c2"
    return not (joins or category[0] == "Z" or category in _DROPPED or is_emoji(char))
