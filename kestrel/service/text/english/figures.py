"""Numbers of every kind that no other rule has taken, and the signs between and around them."""

from __future__ import annotations

import re
import unicodedata

from kestrel.service.text.english.numerals import (
    DASH,
    MINUS,
    NUMBER,
    cardinal,
    digits,
    is_year,
    number,
    ordinal,
    plain,
    plural,
    signed,
    year,
)
from kestrel.service.text.rules import Rule
from kestrel.service.text.switches import Switches

_DENOMINATORS = frozenset((2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 32, 64, 100, 1000))
_LONGEST_IN_NAME = 4
_FIXED = {"24/7": "twenty-four seven", "9/11": "nine eleven", "50/50": "fifty-fifty"}
_SIGNS = {
    "&": "and", "+": "plus", "±": "plus or minus", "×": "times", "÷": "divided by", "=": "equals",
    "≠": "is not equal to", "≈": "about", "≤": "at most", "≥": "at least", "√": "square root of",
    "∞": "infinity", "→": "to", "§": "section", "¶": "paragraph", "©": "copyright", "®": "", "™": "",
    "°": "degrees", "%": "percent", "@": "at", "²": "squared", "³": "cubed", "µ": "micro", "$": "dollar",
    "€": "euro", "£": "pound", "¥": "yen", "₹": "rupee", "¢": "cent",
}  # fmt: skip
_BETWEEN = {"+": "plus", "*": "times", "×": "times", "÷": "divided by", "=": "equals", "<": "is less than",
            ">": "is greater than", "<=": "is at most", ">=": "is at least", "==": "equals", "!=": "is not equal to",
            "−": "minus"}  # fmt: skip
_ALONE = r"(?<![\w.,])"


def _folded(match: re.Match[str], switches: Switches) -> str | None:
    """Digits of other scripts, ½, ① and Ⅷ in ASCII."""
    char = match[0]
    if unicodedata.category(char) == "Nd":
        return str(unicodedata.decimal(char))
    plain_form = unicodedata.normalize("NFKC", char).replace("⁄", "/")
    return plain_form if plain_form.isascii() and plain_form != char else None


def _fraction(match: re.Match[str], switches: Switches) -> str | None:
    whole, over, under = match["whole"], match["over"], match["under"]
    if fixed := _FIXED.get(match[0]):
        return fixed
    if over[0] == "0" or len(over) > 4 or len(under) > 4 or int(under) not in _DENOMINATORS or int(over) >= int(under):
        return f"{f'{cardinal(whole)} ' if whole else ''}{cardinal(over)} over {cardinal(under)}"
    parts = {"2": "half", "4": "quarter"}.get(under) or ordinal(under)
    spoken = f"{cardinal(over)} {parts}{'' if over == '1' else 's'}"
    if not whole:
        return spoken
    return f"{cardinal(whole)} and {'a ' + parts if over == '1' else spoken}"


def _decade(match: re.Match[str], switches: Switches) -> str | None:
    written = match["decade"]
    if len(written) == 2:
        return None if written[0] < "2" or written[1] != "0" else plural(cardinal(written))
    if not is_year(written) or written[-1] != "0":
        return None
    *before, last = year(written).split(" ")
    return " ".join([*before, plural(last)])


def _ordinal(match: re.Match[str], switches: Switches) -> str | None:
    return ordinal(match[1])


def _range(match: re.Match[str], switches: Switches) -> str | None:
    first, last = match["first"], match["last"]
    if is_year(first) and len(last) == 2 and last.isdecimal():
        return f"{year(first)} to {cardinal(last)}"
    return f"{signed(match['sign'], plain(first))} to {plain(last)}"


def _ratio(match: re.Match[str], switches: Switches) -> str | None:
    return f"{cardinal(match[1])} to {cardinal(match[2])}"


def _by(match: re.Match[str], switches: Switches) -> str | None:
    return " by "


def _times(match: re.Match[str], switches: Switches) -> str | None:
    return f"{number(match[1])} times"


def _power(match: re.Match[str], switches: Switches) -> str | None:
    base, sign, exponent = match["base"], match["sign"], match["exponent"]
    base = base if base.isalpha() else number(base)
    if not sign and exponent in ("2", "3"):
        return f"{base} {'squared' if exponent == '2' else 'cubed'}"
    return f"{base} to the power of {signed(sign, cardinal(exponent))}"


def _scaled(match: re.Match[str], switches: Switches) -> str | None:
    return f"{number(match[1])} {'billion' if match[2] == 'bn' else 'trillion'}"


def _number(match: re.Match[str], switches: Switches) -> str | None:
    sign, written = match["sign"], match["number"]
    if (
        len(written) > _LONGEST_IN_NAME
        and written.isdecimal()
        and match.string[match.start() - 1 : match.start()].isalpha()
    ):
        return digits(written)  # "AA10123456784"
    return signed(sign, number(written) if sign else plain(written))


def _point(match: re.Match[str], switches: Switches) -> str | None:
    return signed(match["sign"], f"point {digits(match['digits'])}")


def _apart(match: re.Match[str], switches: Switches) -> str | None:
    return " "


def _between(match: re.Match[str], switches: Switches) -> str | None:
    return f" {_BETWEEN[match[1]]} "


def _named(match: re.Match[str], switches: Switches) -> str | None:
    return f"{match[1]} {'plus plus' if match[2] == '++' else 'sharp'}"


def _number_sign(match: re.Match[str], switches: Switches) -> str | None:
    return "number "


def _about(match: re.Match[str], switches: Switches) -> str | None:
    return "about "


def _sign(match: re.Match[str], switches: Switches) -> str | None:
    return _SIGNS[match[0]]


FIRST = (
    Rule("numbers", re.compile(r"[^\W\d_a-zA-Z²³]|(?![0-9])\d"), _folded),
    Rule("numbers", re.compile(r"(?<![\w.,])['’‘]?(?P<decade>[0-9]{4}|[0-9]{2})['’]?s(?![\w'’])"), _decade),
    Rule("symbols", re.compile(r"[~≈] ?(?=[0-9$£€])"), _about),
    Rule("numbers", re.compile(r"(?<=[0-9])(?<!\b0) ?x ?(?=[0-9])"), _by),
)
"""Before all other rules: they know ASCII digits only, and would take "90s" for seconds and "10x20 cm" apart."""

RULES = (
    Rule("symbols", re.compile(r"#(?=[0-9])"), _number_sign),
    Rule("symbols", re.compile(r"\b([CFJ])(#|\+\+)(?!\w)"), _named),
    Rule("symbols", re.compile(r"(?<=[0-9a-z)]) ?(<=|>=|==|!=|[+*×÷=<>−]) ?(?=[0-9(])"), _between),
    Rule(
        "numbers",
        re.compile(
            rf"{_ALONE}(?:(?P<whole>[0-9]{{1,6}}) )?(?P<over>[0-9]{{1,15}})/(?P<under>[0-9]{{1,15}})(?![\w/]|[.,][0-9])"
        ),
        _fraction,
    ),
    Rule(
        "numbers",
        re.compile(r"(?<![\w.])([0-9]{1,3}(?:,[0-9]{3})++|[0-9]++)(?:st|nd|rd|th)(?![A-Za-z])", re.IGNORECASE),
        _ordinal,
    ),
    Rule(
        "numbers",
        re.compile(rf"(?<![\w.,])(?P<base>{NUMBER}|[A-Za-z])\^(?P<sign>[-−]?)(?P<exponent>[0-9]{{1,6}})(?![\w.])"),
        _power,
    ),
    Rule(
        "numbers",
        re.compile(rf"(?<![\w.,-])(?P<sign>{MINUS})(?P<first>{NUMBER}){DASH}(?P<last>{NUMBER})(?![A-Za-z]|[-–—][0-9])"),
        _range,
    ),
    Rule("numbers", re.compile(r"(?<![\w.,:])([0-9]{1,15}):([0-9]{1,15})(?![\w:])"), _ratio),
    Rule("numbers", re.compile(rf"(?<![\w.,])({NUMBER})[x×](?!\w)"), _times),
    Rule("numbers", re.compile(rf"(?<![\w.,])({NUMBER}) ?(bn|tn)(?!\w)"), _scaled),
    Rule("numbers", re.compile(r"(?<=[0-9])[-–](?=[0-9])"), _apart),
    Rule("numbers", re.compile(rf"(?<![\w.])(?P<sign>{MINUS})\.(?P<digits>[0-9]++)"), _point),
    Rule("numbers", re.compile(rf"(?:(?<=[A-Za-z])-)?+(?P<sign>{MINUS})(?P<number>{NUMBER})"), _number),
    Rule("symbols", re.compile(r"(?<=[^\W_])_++(?=[^\W_])"), _apart),
    Rule("symbols", re.compile("[" + re.escape("".join(_SIGNS)) + "]"), _sign),
)
