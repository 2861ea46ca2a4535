"""Digits to English words."""

from __future__ import annotations

import re

from num2words import num2words

_CURRENCY = {"$": ("dollar", "cent"), "£": ("pound", "pence"), "€": ("euro", "cent"), "¥": ("yen", "")}
# A number this long is read digit by digit: it is a code, not a quantity (and num2words has no name beyond 10^306).
_LONGEST_QUANTITY = 15
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TIME = r"\d{1,2}:[0-5]\d(?!\d)"
MONEY = r"[$£€¥]\d[\d,]*(?:\.\d+)?(?: (?:thousand|million|billion|trillion)\b)?"
NUMBER = r"\d+(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+\.\d+|\d+(?:st|nd|rd|th)(?![A-Za-z])|\d{2,4}s(?![A-Za-z])|\d+"


def number_words(written: str) -> list[str]:
    """Words of one match of TIME, MONEY or NUMBER. "1984" is read as a year, "007" digit by digit."""
    if ":" in written:
        return _time(written)
    if written[0] in _CURRENCY:
        return _money(written[0], written[1:].replace(",", ""))
    digits = written.replace(",", "")
    if ordinal := re.fullmatch(r"(\d+)(?:st|nd|rd|th)", digits):
        return _spoken(ordinal[1], "ordinal")
    if decade := re.fullmatch(r"(\d+)s", digits):
        words = number_words(decade[1])
        return [*words[:-1], _plural(words[-1])]
    whole, _, fraction = digits.partition(".")
    if fraction:
        return [*_cardinal(whole), "point", *_digits(fraction)]
    if len(whole) == 4 and "," not in written and "1100" <= whole <= "2099" and not "2000" <= whole <= "2009":
        return _spoken(whole, "year")
    return _cardinal(whole)


def _cardinal(digits: str) -> list[str]:
    if len(digits) > _LONGEST_QUANTITY or (len(digits) > 1 and digits[0] == "0"):
        return _digits(digits)
    return _spoken(digits, "cardinal")


def _digits(digits: str) -> list[str]:
    return [_DIGITS[int(d)] for d in digits]


def _spoken(digits: str, to: str) -> list[str]:
    if len(digits) > _LONGEST_QUANTITY:
        return _digits(digits)
    return str(num2words(int(digits), to=to)).replace(",", "").split()


def _time(written: str) -> list[str]:
    hours, minutes = written.split(":")
    if minutes == "00":
        return _cardinal(str(int(hours)))
    return [*_cardinal(str(int(hours))), *(["oh"] if minutes[0] == "0" else []), *_cardinal(str(int(minutes)))]


def _money(sign: str, amount: str) -> list[str]:
    """ "$5.20" is five dollars and twenty cents, "$3.2 million" three point two million dollars."""
    unit, part = _CURRENCY[sign]
    number, _, scale = amount.partition(" ")
    whole, _, fraction = number.partition(".")
    if scale or (fraction and (len(fraction) != 2 or not part)):
        spoken = [*_cardinal(whole), *(["point", *_digits(fraction)] if fraction else []), *([scale] if scale else [])]
        return [*spoken, unit if unit == "yen" else f"{unit}s"]
    words = [*_cardinal(whole), unit if whole == "1" or unit == "yen" else f"{unit}s"]
    if fraction and (cents := int(fraction)):
        words += ["and", *_cardinal(str(cents)), part if cents == 1 or part == "pence" else f"{part}s"]
    return words


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"
