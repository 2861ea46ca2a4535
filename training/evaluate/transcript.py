"""Comparison of a transcript with the sentence that was to be spoken.

The judge writes what it hears in its own way: "4:15", "$43.60", "1984", "Mr.". None of these is a fault of the voice,
so a transcript is expanded to words, and where digits can be read in several ways the closest reading counts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import jiwer
from num2words import num2words

_ABBREVIATIONS = {"mr": "mister", "mrs": "missis", "dr": "doctor", "st": "saint", "ok": "okay", "vs": "versus"}
_NUMBER = re.compile(r"[$£€]?\d[\d,]*(?:[.:]\d+)*(?:st|nd|rd|th)?(?:\s?%|\s?[ap]m\b)?")
_MOST_READINGS = 64


@dataclass(frozen=True)
class Errors:
    """Edits that turn the spoken words or characters into those wanted."""

    words: int
    word_edits: int
    characters: int
    character_edits: int

    @property
    def wer(self) -> float:
        return self.word_edits / max(1, self.words)

    @property
    def cer(self) -> float:
        return self.character_edits / max(1, self.characters)


def total(rows: Iterable[Errors]) -> Errors:
    """Sum over sentences: long sentences weigh more than short ones, as is usual for error rates."""
    listed = list(rows)
    return Errors(
        sum(e.words for e in listed),
        sum(e.word_edits for e in listed),
        sum(e.characters for e in listed),
        sum(e.character_edits for e in listed),
    )


def _words(number: int, to: str = "cardinal") -> str:
    return str(num2words(number, to=to)).replace("-", " ").replace(",", " ").replace(" and ", " ")


def number_readings(token: str) -> list[str]:
    """Ways to read a token of digits aloud, without "and"."""
    core = token.replace(",", "").strip("$£€")
    if match := re.fullmatch(r"(\d+)(st|nd|rd|th)", core):
        return [_words(int(match[1]), "ordinal")]
    unit = "percent" if core.endswith("%") else " ".join(core[-2:]) if core[-2:] in ("am", "pm") else ""
    core = core.rstrip("%apm ")
    digits = " ".join(_words(int(d)) for d in core if d.isdigit())
    if token[0] in "$£€":
        whole, _, cents = core.partition(".")
        money = f"{_words(int(whole))} dollars"
        if not cents.strip("0"):
            return [money]
        small = _words(int(cents))
        return [f"{money} {small} cents", f"{money} and {small} cents", f"{_words(int(whole))} {small}"]
    if ":" in core:
        hours, minutes = (int(p) for p in core.split(":")[:2])
        spoken = {0: [_words(hours), f"{_words(hours)} o clock"], 15: [f"quarter past {_words(hours)}"]}
        spoken[30] = [f"half past {_words(hours)}"]
        plain = f"{_words(hours)} {_words(minutes)}"
        return [f"{reading} {unit}".strip() for reading in [plain, *spoken.get(minutes, [])]]
    if "." in core:
        whole, fraction = core.split(".", 1)
        return [
            f"{_words(int(whole))} point {' '.join(_words(int(d)) for d in fraction if d.isdigit())} {unit}".strip()
        ]
    readings = [_words(int(core)), digits]
    if len(core) == 4:
        readings.append(f"{_words(int(core[:2]))} {_words(int(core[2:]))}")
    if len(core) == 3:
        readings.append(f"{_words(int(core[0]))} {_words(int(core[1:]))}")
    return [f"{reading} {unit}".strip() for reading in readings]


def plain(text: str) -> str:
    """Lower-case words without punctuation, apostrophes or "and" after "hundred" and "thousand"."""
    lowered = text.lower().replace("’", "'").replace("'", "")
    words = re.sub(r"[^a-z ]", " ", lowered).split()
    words = [_ABBREVIATIONS.get(w, w) for w in words]
    kept = [w for i, w in enumerate(words) if not (w == "and" and i and words[i - 1] in ("hundred", "thousand"))]
    return " ".join(kept)


def readings(text: str) -> list[str]:
    """All plain readings of a text, at most 64."""
    parts: list[list[str]] = []
    end = 0
    text = text.lower()
    for match in _NUMBER.finditer(text):
        minus = "minus " if re.search(r"(?<!\w)-$", text[: match.start()]) else ""
        parts.append([text[end : match.start()]])
        parts.append([f" {minus}{reading} " for reading in number_readings(match[0])])
        end = match.end()
    parts.append([text[end:]])
    return [plain("".join(p)) for p in itertools.islice(itertools.product(*parts), _MOST_READINGS)]


def compare(wanted: str, heard: str) -> Errors:
    """Errors of the reading of `heard` that is closest to `wanted`."""
    best: Errors | None = None
    for reference in readings(wanted):
        for hypothesis in readings(heard):
            words = jiwer.process_words(reference, hypothesis or " ")
            characters = jiwer.process_characters(reference, hypothesis or " ")
            errors = Errors(
                len(reference.split()),
                words.substitutions + words.deletions + words.insertions,
                len(reference),
                characters.substitutions + characters.deletions + characters.insertions,
            )
            if best is None or (errors.word_edits, errors.character_edits) < (best.word_edits, best.character_edits):
                best = errors
    assert best is not None  # both texts have at least one reading
    return best
