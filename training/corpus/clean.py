"""Which lines the teacher may speak."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ALLOWED = re.compile(r"[A-Za-z ,.?!';:\-]+")


@dataclass(frozen=True)
class Limits:
    """Bounds of a line. The codes of a line are one training sequence, so its length bounds memory."""

    least_words: int = 1
    most_words: int = 22
    most_characters: int = 130


def tidy(text: str) -> str:
    """One line with single spaces, a capital first letter and a closing mark; quotation marks are dropped."""
    text = re.sub(r"[`\"]|''", "", text)
    text = re.sub(r"\s+", " ", text).strip().rstrip(" ;:,-")
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?!" else text + "."


def acceptable(text: str, limits: Limits) -> bool:
    """True for plain English of a speakable length: no digits, brackets or foreign letters."""
    words = text.split()
    if not limits.least_words <= len(words) <= limits.most_words or len(text) > limits.most_characters:
        return False
    return _ALLOWED.fullmatch(text) is not None and any(c.isalpha() for c in text)


def key(text: str) -> str:
    """What two lines must share to count as the same sentence."""
    return re.sub(r"[^a-z ]", "", text.lower()).strip()


def select(lines: Iterable[str], limits: Limits, taken: set[str]) -> list[str]:
    """Tidy lines, in order, that are acceptable and whose key is not in `taken`; their keys are added to it."""
    chosen = []
    for line in lines:
        text = tidy(line)
        if text and acceptable(text, limits) and key(text) not in taken:
            taken.add(key(text))
            chosen.append(text)
    return chosen
