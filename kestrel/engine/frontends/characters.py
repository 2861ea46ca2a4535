"""Folds text to the ASCII the English front end reads, keeping track of where each character came from."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from kestrel.engine.errors import CharactersError

# Letters that have no Unicode decomposition into ASCII.
_LETTERS = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "th", "þ": "th", "ł": "l", "ı": "i", "ħ": "h", "ŋ": "ng",
    "Æ": "Ae", "Œ": "Oe", "Ø": "O", "Đ": "D", "Ð": "Th", "Þ": "Th", "Ł": "L", "Ħ": "H", "ẞ": "SS",
}  # fmt: skip
_MARKS = {
    **dict.fromkeys("‘’‛′＇`´", "'"),
    **dict.fromkeys("—–―‒⸺", ","),  # a dash is a pause
    **dict.fromkeys("‐‑−", "-"),
    **dict.fromkeys("。｡", "."),
    **dict.fromkeys("、，､", ","),
    **dict.fromkeys("！¡", "!"),
    **dict.fromkeys("？¿", "?"),
    **dict.fromkeys("；：", ","),
    "…": ".",
    "×": " times ",
    "÷": " divided by ",
    "½": " one half ",
    "¼": " one quarter ",
    "¾": " three quarters ",
    "№": " number ",
}
_SPOKEN_SYMBOLS = frozenset("£€¥°")


@dataclass(frozen=True, slots=True)
class Folded:
    """ASCII text (plus the currency and degree signs) and, for every character of it, its index in the original."""

    text: str
    origin: tuple[int, ...]


def fold(text: str) -> Folded:
    """Folds `text`; control characters, emoji and other silent symbols vanish, white space becomes one blank.

    Raises CharactersError if a letter or digit of another script is left.
    """
    out: list[str] = []
    origin: list[int] = []
    foreign: dict[str, None] = {}
    for index, char in enumerate(text):
        piece = _fold_character(char)
        if piece is None:
            foreign[char] = None
            continue
        for folded in piece:
            out.append(folded)
            origin.append(index)
    if foreign:
        named = ", ".join(f"{c} (U+{ord(c):04X})" for c in list(foreign)[:8])
        more = f" and {len(foreign) - 8} more" if len(foreign) > 8 else ""
        raise CharactersError(f"this voice speaks English; it cannot speak {named}{more}")
    return Folded("".join(out), tuple(origin))


def _fold_character(char: str) -> str | None:
    """ASCII for one character, "" if it is silent, None if it belongs to another script."""
    if char in _MARKS:
        return _MARKS[char]
    if char.isspace():
        return " "
    if char.isascii():
        return char if char.isprintable() else ""
    if char in _LETTERS or char in _SPOKEN_SYMBOLS:
        return _LETTERS.get(char, char)
    if unicodedata.category(char) == "Nd":
        return str(unicodedata.decimal(char))
    # Compatibility decomposition undoes accents, full-width forms, ligatures and styled letters.
    piece = "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))
    piece = "".join(_LETTERS.get(c, c) for c in piece)
    if piece.isascii():
        return piece
    return None if unicodedata.category(char)[0] in "LN" else ""
