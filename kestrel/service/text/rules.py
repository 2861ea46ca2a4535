"""What a language brings to the text front end, and how its rules are applied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from kestrel.service.text.switches import Switches
from kestrel.service.text.trace import Edit, Traced


class Language(Protocol):
    """The rules of one language. Add a module with one and name it in `languages.py`."""

    @property
    def code(self) -> str:
        """Primary subtag of BCP 47."""
        ...

    def rewrite(self, traced: Traced, switches: Switches) -> Traced:
        """A cleaned text with everything written in signs spoken in words. Takes linear time."""
        ...

    def check(self, text: str) -> None:
        """Raises CharactersError, naming them, if `text` holds characters that no voice of this language can speak."""
        ...


Say = Callable[[re.Match[str], Switches], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Rewrites every match of `pattern` with what `say` gives for it; None leaves the match alone.

    `category` is the switch that turns it off. Patterns must match in linear time: every repeat is possessive or
    bounded, and what a failed match has read is not read again from a later start.
    """

    category: str
    pattern: re.Pattern[str]
    say: Say


def apply_rules(traced: Traced, rules: Iterable[Rule], switches: Switches) -> Traced:
    """The text after every rule whose switch is on, one after the other."""
    for rule in rules:
        if getattr(switches, rule.category):
            traced = traced.rewrite(_edits(traced.text, rule, switches))
    return traced


def _edits(text: str, rule: Rule, switches: Switches) -> list[Edit]:
    edits: list[Edit] = []
    for match in rule.pattern.finditer(text):
        spoken = rule.say(match, switches)
        if spoken is not None:
            spoken = _spaced(text, match.start(), match.end(), spoken)
            if edits and edits[-1].end == match.start() and edits[-1].spoken[-1:].isalnum() and spoken[:1].isalnum():
                spoken = f" {spoken}"  # "++": two words
            edits.append(Edit(match.start(), match.end(), spoken))
    return edits


def _spaced(text: str, start: int, end: int, spoken: str) -> str:
    """`spoken` with a space where it would grow together with a letter beside it."""
    if not spoken:
        return spoken
    before = " " if start and text[start - 1].isalnum() and spoken[0].isalnum() else ""
    after = " " if end < len(text) and text[end].isalnum() and spoken[-1].isalnum() else ""
    return before + spoken + after
