"""Front end of interleaved phoneme voices: text to words of phonemes, in the form the voice was trained on.

A unit is what one segment feeds: the phonemes of a word with its pause mark attached, as in "kˈɑpəɹ.". The prompt holds
the first two units, so the model always sees one word ahead; every segment holds the next unit (or END) and the marker
that asks for speech:

    BOS unit0 unit1 A | unit2 A | unit3 A | … | END A
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from kestrel.engine.errors import ModelFileError, TextError
from kestrel.engine.frontends.characters import fold
from kestrel.engine.frontends.lexicon import BEFORE_PAUSE, BEFORE_VOWEL, PLAIN, VOWELS, Lexicon
from kestrel.engine.frontends.numbers import MONEY, NUMBER, TIME, number_words
from kestrel.engine.frontends.prompt import Prompt, Word, text_columns

# Frames a symbol takes in the training lines: 66.2 frames a line of 31.9 symbols, stress marks counted, blanks not.
FRAMES_PER_SYMBOL = 2.1

_SPOKEN_MARKS = {"&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "#": "hash", "°": "degrees"}
_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "vs": "versus",
    "etc": "et cetera", "jr": "junior", "sr": "senior", "approx": "approximately", "no": "number", "dept": "department",
}  # fmt: skip
_PIECE = re.compile(
    rf"(?P<number>{TIME}|{MONEY}|{NUMBER})"
    r"|(?P<minus>(?<!\S)-(?=\d))"
    r"|(?P<dot>(?-i:(?<=[a-z0-9])\.(?=[a-z])))"  # "example.com"; a capital after it opens a sentence
    r"|(?P<initials>(?:[A-Za-z]\.){2,})"
    r"|(?P<abbreviation>\b(?:mr|mrs|ms|dr|prof|st|vs|etc|jr|sr|approx|dept)\.|\bno\.(?= ?\d))"
    r"|(?P<word>'?[A-Za-z]+(?:'[A-Za-z]+)*(?:-[A-Za-z]+(?:'[A-Za-z]+)*)*'?)"
    rf"|(?P<mark>[{re.escape(''.join(_SPOKEN_MARKS))}])"
    r"|(?P<pause>[.,?!;:]+|(?<=\s)--?(?=\s)|--+)",
    re.IGNORECASE,
)
_FIXED = {"minus": "minus", "dot": "dot", "mark": ""}
# A chain longer than this is no compound but a list, spoken as separate words.
_LONGEST_COMPOUND = 4
# Of several marks the strongest is kept; all the voice has heard often enough to know.
_PAUSES = {"?": "?", "!": "!", ".": ".", ",": ",", ";": ",", ":": ",", "-": ","}
_CONTROL_TOKENS = ("bos", "end", "marker")


@dataclass(slots=True)
class _Unit:
    """One word to speak: its hyphenated parts, the index of its Word, and the pause mark after it."""

    parts: list[str]
    word: int
    pause: str = ""
    spelled: bool = False


class PhonemeWords:
    """See the module. Built from the keys `kestrel.phonemes` and `kestrel.lexicon`."""

    frames_per_symbol = FRAMES_PER_SYMBOL

    def __init__(self, phonemes: str, lexicon: bytes, codebooks: int) -> None:
        try:
            table = json.loads(phonemes)
            self._ids = {str(symbol): int(number) for symbol, number in table["ids"].items()}
            self._bos, self._end, self._marker = (int(table[name]) for name in _CONTROL_TOKENS)
            limit = table.get("max_characters")
            self._limit = int(limit) if limit else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"kestrel.phonemes is not valid: {error!r}") from error
        missing = {mark for mark in _PAUSES.values() if mark not in self._ids}
        if missing:
            raise ModelFileError(f"kestrel.phonemes lacks the pause marks {sorted(missing)}")
        self.lexicon = Lexicon(lexicon, frozenset(self._ids))
        self._codebooks = codebooks

    @property
    def max_characters(self) -> int | None:
        return self._limit

    def encode(self, text: str) -> Prompt:
        """Raises TextError if `text` holds nothing to speak or letters of another script."""
        spoken, words = self.phonemize(text)
        units = [[self._ids[symbol] for symbol in unit] for unit, _ in spoken]
        first = [self._bos, *units[0], *(units[1] if len(units) > 1 else [self._end]), self._marker]
        segments = [[*unit, self._marker] for unit in units[2:]]
        if len(units) > 1:
            segments.append([self._end, self._marker])
        return Prompt(
            columns=text_columns(first, self._codebooks),
            segments=tuple(np.array(segment, dtype=np.int32) for segment in segments),
            words=words,
            symbols=sum(len(unit) for unit in units),
        )

    def phonemize(self, text: str) -> tuple[list[tuple[str, int]], tuple[Word, ...]]:
        """Units as (phonemes, index of the word they belong to), and the words in order."""
        units, spans = self._read(text)
        spoken: list[tuple[str, int]] = []
        following = ""
        for unit in reversed(units):  # a word's form may depend on the next one's first sound
            if unit.pause or not following:
                context = BEFORE_PAUSE
            else:
                context = BEFORE_VOWEL if following.lstrip("ˈˌ")[:1] in VOWELS else PLAIN
            following = self._sound(unit, context)
            spoken.append((following + unit.pause, unit.word))
        spoken.reverse()
        # Every training line ended with one of these; without it the voice does not know that it may stop.
        last, word = spoken[-1]
        if last[-1] not in ".?!":
            spoken[-1] = (last.rstrip(",") + ".", word)
        first_unit: dict[int, int] = {}
        for index, (_, word) in enumerate(spoken):
            first_unit.setdefault(word, index)
        words = tuple(Word(text[a:b], a, b, first_unit[i]) for i, (a, b) in enumerate(spans))
        return spoken, words

    def _sound(self, unit: _Unit, context: str) -> str:
        if unit.spelled:
            return self.lexicon.spell(unit.parts[0])
        whole = "-".join(unit.parts)
        if len(unit.parts) > 1 and (known := self.lexicon.known(whole, context)):
            return known
        return self.lexicon.compound([self.lexicon.pronounce(part, context) for part in unit.parts])

    def _read(self, text: str) -> tuple[list[_Unit], list[tuple[int, int]]]:
        """Units to speak and the span of each word in `text`."""
        folded = fold(text)
        shouting = folded.text.upper() == folded.text
        units: list[_Unit] = []
        spans: list[tuple[int, int]] = []
        for match in _PIECE.finditer(folded.text):
            piece, kind = match.group(), match.lastgroup
            if kind == "pause":
                self._pause(units, piece)
                continue
            said = self._say(piece, kind or "", first=not units, shouting=shouting)
            if not said:
                continue
            core = piece.rstrip(".") if kind == "abbreviation" else piece
            start = match.start()
            span = folded.origin[start], folded.origin[start + len(core) - 1] + 1
            if not spans or spans[-1] != span:  # one character may stand for several words: "½"
                spans.append(span)
            for unit in said:
                unit.word = len(spans) - 1
            units += said
        if not units:
            raise TextError("the text holds nothing to speak; give at least one word, number or letter")
        return units, spans

    def _say(self, piece: str, kind: str, *, first: bool, shouting: bool) -> list[_Unit]:
        """Units of one piece of text."""
        if kind == "number":
            return [_Unit(word.split("-"), 0) for word in number_words(piece.lower())]
        if kind == "initials":
            return [_Unit([piece], 0, spelled=True)]
        if kind == "abbreviation":
            return [_Unit([word], 0) for word in _ABBREVIATIONS[piece.rstrip(".").lower()].split()]
        if kind in _FIXED:
            return [_Unit([_FIXED[kind] or _SPOKEN_MARKS[piece]], 0)]
        word = piece.lower() if shouting and len(piece) > 1 and self.lexicon.known(piece.lower()) else piece
        if len(word) == 1 and word.isupper() and word != "I" and not first and not shouting:
            return [_Unit([word], 0, spelled=True)]  # "plan A", "vitamin D"
        # A quotation mark may look like an apostrophe: drop what the lexicon does not know with it.
        if word[0] == "'" and not self.lexicon.known(word):
            word = word[1:]
        if word.endswith("'") and not word.lower().endswith("s'"):
            word = word[:-1]
        parts = [part for part in word.split("-") if part]
        return [_Unit(parts, 0)] if len(parts) <= _LONGEST_COMPOUND else [_Unit([part], 0) for part in parts]

    @staticmethod
    def _pause(units: list[_Unit], marks: str) -> None:
        """Attaches the strongest of `marks` to the unit before it; marks before the first word are silent."""
        if not units:
            return
        marks = re.sub(r"\.\.+", ",", marks)  # an ellipsis is a pause; a full stop would end the voice's sentence
        found = {_PAUSES[mark] for mark in units[-1].pause + marks}
        units[-1].pause = next(mark for mark in "?!.," if mark in found)
