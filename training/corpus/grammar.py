"""Random sentences from a context-free grammar kept in a text file."""

from __future__ import annotations

import random
import re
from pathlib import Path

_SLOT = re.compile(r"<([a-z_]+)>")
_MOST_DEPTH = 12

# fmt: off
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
# fmt: on


def number_words(n: int) -> str:
    """A number below a million in words."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10 - 2] + ("" if n % 10 == 0 else f"-{_ONES[n % 10]}")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + ("" if n % 100 == 0 else f" and {number_words(n % 100)}")
    return f"{number_words(n // 1000)} thousand" + ("" if n % 1000 == 0 else f" {number_words(n % 1000)}")


class Grammar:
    """Rules ``name = expansion | expansion``; a slot ``<name>`` is replaced by one of that name's expansions.

    Built-in slots: ``<digit>``, ``<small>`` (2 to 40), ``<number>`` (0 to 9999), ``<teen>`` (10 to 99).
    """

    def __init__(self, text: str) -> None:
        self._rules: dict[str, list[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, separator, body = line.partition("=")
            if not separator:
                raise ValueError(f"grammar line {number}: expected `name = expansion | ...`")
            self._rules.setdefault(name.strip(), []).extend(part.strip() for part in body.split("|"))
        for name, expansions in self._rules.items():
            for slot in _SLOT.findall(" ".join(expansions)):
                if slot not in self._rules and slot not in ("digit", "small", "number", "teen"):
                    raise ValueError(f"grammar rule {name}: unknown slot <{slot}>")

    @classmethod
    def read(cls, path: Path) -> Grammar:
        return cls(path.read_text(encoding="utf-8"))

    def expand(self, name: str, rng: random.Random, depth: int = 0) -> str:
        """A random expansion of a rule. Raises ValueError for rules that recurse without end."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"grammar rule {name} recurses too deeply")
        built_in = {"digit": (0, 9), "small": (2, 40), "teen": (10, 99), "number": (0, rng.choice([99, 999, 9999]))}
        if name in built_in and name not in self._rules:
            return number_words(rng.randint(*built_in[name]))
        chosen = rng.choice(self._rules[name])
        text = _SLOT.sub(lambda match: self.expand(match[1], rng, depth + 1), chosen)
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
