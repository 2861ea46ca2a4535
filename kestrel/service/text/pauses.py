"""The tag `[pause:500ms]`: exact silence at a place of the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kestrel.service.text.errors import PlanError
from kestrel.service.text.trace import Traced

MAX_PAUSE_SECONDS = 10.0
"""A longer pause is shortened to this."""

_TAG = re.compile(r"\[pause:([^\[\]\n]*)\]", re.IGNORECASE)
_LENGTH = re.compile(r" ?(\d+(?:\.\d+)?) ?(ms|s) ?", re.ASCII | re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0}
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Pause:
    """`seconds` of silence, asked for by the part `span` of the caller's text."""

    seconds: float
    span: tuple[int, int]


def split_pauses(traced: Traced) -> list[Traced | Pause]:
    """The text between the tags, and the tags as pauses, in order. Raises PlanError for a tag without a length."""
    parts: list[Traced | Pause] = []
    at = 0
    for match in _TAG.finditer(traced.text):
        length = _LENGTH.fullmatch(match[1])
        if length is None:
            raise PlanError(f"{match[0][:_SHOWN]!r} is not a pause; valid: [pause:500ms] or [pause:1.5s]")
        seconds = min(float(length[1]) * _UNITS[length[2].lower()], MAX_PAUSE_SECONDS)
        parts.append(traced.slice(at, match.start()))
        parts.append(Pause(seconds, traced.span(match.start(), match.end())))
        at = match.end()
    parts.append(traced.slice(at, len(traced)))
    return parts
