"""Byte ranges and validators of a download (RFC 9110, sections 8.8, 13 and 14), as pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

_RANGE = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.IGNORECASE | re.ASCII)
_ETAG = re.compile(r'(?:W/)?"[^"]*"')


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end`, which is not part of it."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Unsatisfiable(Exception):
    """The range begins behind the end: 416."""


def asked_range(header: str | None, size: int) -> Span | None:
    """The span that a Range header asks for; None for the whole. Raises Unsatisfiable.

    A header that is malformed, in another unit, or of several ranges is passed over, as section 14.2 allows.
    """
    match = _RANGE.fullmatch(header.strip()) if header is not None else None
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        if not last:
            return None
        if int(last) == 0 or size == 0:
            raise Unsatisfiable
        return Span(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None  # syntactically invalid
    if int(first) >= size:
        raise Unsatisfiable
    return Span(int(first), min(int(last) + 1, size) if last else size)


def range_applies(if_range: str | None, etag: str, modified: str) -> bool:
    """False when the client holds a part of something else, and needs the whole."""
    return if_range is None or if_range.strip() in (etag, modified)


def not_modified(if_none_match: str | None, etag: str) -> bool:
    """True when the client already holds it. Weak comparison, as section 13.1.2 says."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    return etag in (tag.removeprefix("W/") for tag in _ETAG.findall(if_none_match))


def http_date(moment: float) -> str:
    """Seconds since the epoch as an HTTP date."""
    return format_datetime(datetime.fromtimestamp(int(moment), UTC), usegmt=True)
