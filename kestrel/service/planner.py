"""Text planner: cuts a cleaned text into pieces short enough for one utterance each.

Pure functions, shared by the server and `kestrel say`, so that both say the same thing the same way. Two promises hold
for every input and are tested as properties: the pieces joined are exactly the cleaned text, and a token (a word, or
one character of a script written without spaces) is never cut. All of it takes time linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kestrel.service.text import PlanError, clean, is_emoji, speakable

__all__ = [
    "MAX_PIECE_CHARS", "MAX_TOKEN_CHARS", "MIN_PIECE_CHARS", "Break", "Cut", "Packer", "PlanError", "clean", "cuts",
    "is_emoji", "is_opener", "is_unspaced", "plan", "speakable",
]  # fmt: skip

MAX_PIECE_CHARS = 200
MIN_PIECE_CHARS = 40
MAX_TOKEN_CHARS = 200

_ZERO_WIDTH_JOINERS = "\u200c\u200d"
# Han, kana, bopomofo, Thai, Lao, Myanmar, Khmer: words follow each other without spaces, so any base may start a piece.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
_WORD = re.compile(r"(\S+)(\s*)")
_SENTENCE_END = ".!?…。！？｡؟۔।॥"
_WIDE_SENTENCE_END = "。！？｡"
_CLAUSE_END = ",;:–—，、；：،؛"
_WIDE_CLAUSE_END = "，、；："
_OPENERS = "\"'([{“‘«‹「『【（《〈¿¡"
_CLOSERS = "\"')]}”’»›」』】）》〉"
_NO_START = _CLOSERS + _SENTENCE_END + _CLAUSE_END + "ーゝゞ々〻ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ・"
_ABBREVIATED = (
    "mr mrs ms dr prof sr jr st rev gen col capt lt sgt hon vs etc nos vol figs eq ch sec pp eds approx dept est inc "
    "ltd co corp jan feb apr aug sep sept oct nov dec mon tue wed thu fri e.g i.e cf al a.m p.m u.s u.k ph.d"
)
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())


class Break(IntEnum):
    """How good a place is for a cut."""

    WORD = 0
    CLAUSE = 1
    SENTENCE = 2
    PARAGRAPH = 3


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a piece may end: the index after the token and its trailing space, and how good the place is."""

    end: int
    kind: Break


def is_unspaced(char: str) -> bool:
    """True for a character of a script whose words follow each other without spaces."""
    return _UNSPACED.match(char) is not None


def is_opener(char: str) -> bool:
    """True for an opening bracket or quotation mark."""
    return char in _OPENERS


def plan(text: str, max_chars: int = MAX_PIECE_CHARS, min_chars: int = MIN_PIECE_CHARS) -> list[str]:
    """Cuts a cleaned text into pieces of at most `max_chars` characters (not counting the space that ends a piece).

    A piece ends at the first sentence or paragraph end that leaves it at least `min_chars` long; without one in reach,
    at the last clause end, then at the last word end. Trailing space stays with the piece before it. A token longer
    than `max_chars` is a piece of its own; one longer than MAX_TOKEN_CHARS raises PlanError. A piece may hold nothing
    speakable (a lone dash); the caller passes over it.
    """
    pieces: list[str] = []
    packer = Packer(max_chars, min_chars)
    start = 0
    for cut in cuts(text):
        for end in packer.take(text, cut):
            pieces.append(text[start:end])
            start = end
    if start < len(text):
        pieces.append(text[start:])
    return pieces


class Packer:
    """The rule of `plan`, cut by cut. At the start of a piece it remembers nothing that matters for later pieces."""

    def __init__(self, max_chars: int, min_chars: int) -> None:
        self._max_chars, self._min_chars = max_chars, min_chars
        self._start = 0
        self._sentence = self._clause = self._word = 0  # last cut of each kind; of use while it lies after `_start`

    def take(self, text: str, cut: Cut) -> list[int]:
        """Ends of the pieces that the next cut of `text` decides. Raises PlanError for an endless word."""
        ends: list[int] = []
        while len(text[self._start : cut.end].rstrip()) > self._max_chars:
            end = next((end for end in (self._sentence, self._clause, self._word) if end > self._start), None)
            if end is None:
                _check_token(text[self._start : cut.end].rstrip())
                break
            ends.append(end)
            self._start = end
        if cut.kind >= Break.SENTENCE:
            if cut.end - self._start >= self._min_chars:
                ends.append(cut.end)
                self._start = cut.end
            else:
                self._sentence = cut.end
        elif cut.kind == Break.CLAUSE:
            self._clause = cut.end
        else:
            self._word = cut.end
        return ends


def _check_token(token: str) -> None:
    if len(token) > MAX_TOKEN_CHARS:
        raise PlanError(
            f"the text holds a run of {len(token)} characters without a break; the longest word that can be spoken has "
            f"{MAX_TOKEN_CHARS} characters"
        )


def cuts(text: str, following: str = "", *, continues: bool = False) -> Iterator[Cut]:
    """Every place between two tokens of a cleaned text, in order; the last one is the end of the text.

    For a text that is only the middle of one: `following` is the beginning of what comes after it, in cleaned form;
    without a space before that the last word is not complete, and only cuts inside it are found. `continues`: the first
    word is the rest of one that holds a character of a script without spaces.

    Lazy: a list of all words of a book is made in one go of the regular expression engine and then walked by every
    garbage collection, and either holds up every other thread for half a second.
    """
    words = _WORD.finditer(text)
    match = next(words, None)
    while match is not None:
        successor = next(words, None)
        word, gap = match.group(1), match.group(2)
        open_end = following[:1] if successor is None and not gap else ""
        if continues or _UNSPACED.search(word):
            yield from _inner_cuts(word + open_end, match.start())
        if open_end:
            return
        after = following if successor is None else successor.group(1)
        kind = Break.PARAGRAPH if "\n" in gap else _kind_after(word, after)
        yield Cut(match.end(), kind)
        match, continues = successor, False


def _kind_after(word: str, following: str) -> Break:
    bare = word.rstrip(_CLOSERS)
    if not bare:
        return Break.WORD
    if bare[-1] in _CLAUSE_END:
        return Break.CLAUSE
    if bare[-1] not in _SENTENCE_END:
        return Break.WORD
    if bare[-1] == "." and not bare.endswith(".."):
        stem = bare[:-1].lstrip(_OPENERS)
        if stem.lower() in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha() and stem != "I"):
            return Break.WORD
    first = following.lstrip(_OPENERS)[:1]
    return Break.CLAUSE if first.islower() else Break.SENTENCE


def _inner_cuts(word: str, offset: int) -> Iterator[Cut]:
    """Cuts inside a run of a script without spaces: before any character that can start a line."""
    kind = Break.WORD
    for at in range(1, len(word)):
        before, after = word[at - 1], word[at]
        if before in _WIDE_SENTENCE_END:
            kind = Break.SENTENCE
        elif before in _WIDE_CLAUSE_END:
            kind = Break.CLAUSE
        elif before not in _CLOSERS:
            kind = Break.WORD
        if after in _NO_START or before in _OPENERS or unicodedata.category(after)[0] == "M":
            continue
        if after in _ZERO_WIDTH_JOINERS or before in _ZERO_WIDTH_JOINERS:
            continue
        if kind > Break.WORD or _UNSPACED.match(before) or _UNSPACED.match(after):
            yield Cut(offset + at, kind)
