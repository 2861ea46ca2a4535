"""Byte ranges against a plain model: slices of a byte string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.service.ranges import Span, Unsatisfiable, asked_range, http_date, not_modified, range_applies

sizes = st.integers(0, 40)
numbers = st.integers(0, 60)


@given(sizes, numbers, st.none() | numbers)
def test_first_to_last(size: int, first: int, last: int | None) -> None:
    """Catches off-by-one ends and ranges that reach behind the end."""
    data = bytes(range(size))
    header = f"bytes={first}-{'' if last is None else last}"
    if last is not None and last < first:
        assert asked_range(header, size) is None
    elif first >= size:
        with pytest.raises(Unsatisfiable):
            asked_range(header, size)
    else:
        span = asked_range(header, size)
        assert span is not None
        assert data[span.start : span.end] == data[first : None if last is None else last + 1]
        assert 0 < span.size == len(data[span.start : span.end])


@given(sizes, numbers)
def test_suffix(size: int, count: int) -> None:
    """`bytes=-N` is the last N, all of a shorter file, and nothing at all for N = 0."""
    if count == 0 or size == 0:
        with pytest.raises(Unsatisfiable):
            asked_range(f"bytes=-{count}", size)
    else:
        assert asked_range(f"bytes=-{count}", size) == Span(max(0, size - count), size)


@given(st.text(max_size=30) | st.from_regex(r"(?i)bytes=[0-9 ,-]{0,60}", fullmatch=True), sizes)
def test_anything_else_is_the_whole_or_a_valid_span(header: str, size: int) -> None:
    """Catches headers that crash: huge numbers, other digits, several ranges, other units."""
    try:
        span = asked_range(header, size)
    except Unsatisfiable:
        return
    assert span is None or 0 <= span.start < span.end <= size


@pytest.mark.parametrize("header", [None, "", "bytes", "bytes=", "bytes=-", "items=0-1", "bytes=0-1,3-4", "bytes=٣-",
                                    "bytes=5-2", "bytes=99999999999999999999999999-"])  # fmt: skip
def test_what_gives_the_whole(header: str | None) -> None:
    """None of these may be a 206 or an error."""
    assert asked_range(header, 10) is None


def test_validators() -> None:
    """A part of something else must not be continued; a copy at hand must not be sent again."""
    etag, modified = '"job_1.wav"', http_date(784111777.9)
    assert modified == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert range_applies(None, etag, modified)
    assert range_applies('"job_1.wav"', etag, modified)
    assert range_applies(modified, etag, modified)
    assert not range_applies('W/"job_1.wav"', etag, modified)  # weak tags never match here
    assert not range_applies('"job_1.pcm"', etag, modified)
    assert not_modified('"a", W/"job_1.wav"', etag)
    assert not_modified("*", etag)
    assert not not_modified(None, etag)
    assert not not_modified('"job_1.pcm", job_1.wav', etag)
