"""Digits to English words."""

from __future__ import annotations

from functools import lru_cache

from num2words import num2words

# As number patterns: "3,497.5", "12", "0.25". Possessive, so that a long run of digits is read once.
NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?+"
MINUS = r"(?:(?<![^\s(\[=])[-−](?=[0-9$£€¥₹.]))?+"
DASH = r"(?:[-–—]| [-–—] )"  # of a range; after a space alone it is a minus
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# A number this long is read digit by digit: it is a code, not a quantity.
_LONGEST_QUANTITY = 15


def digits(written: str) -> str:
    """ "007" -> "zero zero seven"; everything but digits is skipped."""
    return " ".join(_DIGITS[int(char)] for char in written if char in "0123456789")


def cardinal(written: str) -> str:
    """A whole number. Leading zeros or great length make it a code, read digit by digit."""
    whole = written.replace(",", "")
    if len(whole) > _LONGEST_QUANTITY or (len(whole) > 1 and whole[0] == "0"):
        return digits(whole)
    return _words(int(whole), "cardinal")


def ordinal(written: str) -> str:
    """ "21" -> "twenty-first"."""
    whole = written.replace(",", "")
    return digits(whole) if len(whole) > _LONGEST_QUANTITY else _words(int(whole), "ordinal")


def year(written: str) -> str:
    """ "1984" -> "nineteen eighty-four"; 2000 to 2009 are read in full."""
    return cardinal(written) if "2000" <= written <= "2009" else _words(int(written), "year")


def is_year(written: str) -> bool:
    """True for four digits that are read as a year where nothing says otherwise."""
    return len(written) == 4 and written.isdecimal() and "1100" <= written <= "2099"


def number(written: str) -> str:
    """NUMBER, with or without a fraction: "3.14" -> "three point one four"."""
    whole, _, fraction = written.partition(".")
    if not fraction:
        return cardinal(whole)
    # Before a point even "0010" is a quantity.
    stem = digits(whole) if len(whole) > _LONGEST_QUANTITY else _words(int(whole.replace(",", "")), "cardinal")
    return f"{stem} point {digits(fraction)}"


def plain(written: str) -> str:
    """NUMBER where it stands alone: four digits are a year."""
    return year(written) if is_year(written) else number(written)


def signed(sign: str | None, spoken: str) -> str:
    return f"minus {spoken}" if sign else spoken


def is_one(written: str) -> bool:
    return written == "1"


def plural(word: str) -> str:
    """Of a number word: "ninety" -> "nineties", "six" -> "sixes"."""
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"


@lru_cache(maxsize=4096)
def _words(value: int, to: str) -> str:
    return str(num2words(value, to=to)).replace(",", "").replace("oh-", "oh ")
