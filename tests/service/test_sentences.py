"""The sentence buffer: text in pieces must be cut exactly like the same text at once."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kestrel.service.live.sentences import Sentence, SentenceBuffer
from kestrel.service.planner import PlanError, clean, is_opener, is_unspaced, plan, speakable
from tests.service.test_planner import ANY_TEXT, PROSE

MARKS = st.lists(
    st.sampled_from(
        ["a", "B", "I", "e\u0301", "\u0301", "か", "\u3099", "漢", "。", "」", "「", "、", ".", "!", ",", '"', "(", " ",
         "\n", "\n\n", "\u200d", "\u200b", "\u00ad", "😀", "\u1100", "\u1161", "\u11a8", "ก", "\u0e33", "Dr.", "7",
         "\x00", "\u2028", "…", "\ufe0f", "ー"]
    ),
    max_size=60,
).map("".join)  # fmt: skip


def whole(text: str, max_chars: int, min_chars: int) -> list[str]:
    return [piece.strip() for piece in plan(clean(text), max_chars, min_chars) if speakable(piece)]


def fed(parts: list[str], max_chars: int, min_chars: int) -> list[Sentence]:
    buffer = SentenceBuffer(max_chars, min_chars)
    found = [sentence for part in parts for sentence in buffer.feed(part)]
    found += buffer.end()
    assert buffer.held == 0
    return found


def split(text: str, places: list[int]) -> list[str]:
    marks = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(marks)]


@given(ANY_TEXT | PROSE | MARKS, st.lists(st.integers(0, 500), max_size=30), st.integers(5, 60), st.integers(1, 30))
@example('He said. "so it is." Then.', list(range(30)), 20, 5)
@example("abc。def漢字。その次", list(range(30)), 20, 2)
@example("漢abc。def。ghi", list(range(30)), 8, 2)
@example('"Stop." "\u00adh yes."', list(range(30)), 20, 2)
@example("one " + "w" * 250 + " two", [3, 90], 20, 5)
def test_pieces_are_those_of_the_whole_text(text: str, places: list[int], max_chars: int, min_chars: int) -> None:
    """Catches audio that depends on how the writer's tokens happen to fall: lost, doubled or differently cut text."""
    try:
        expected = whole(text, max_chars, min_chars)
    except PlanError:
        with pytest.raises(PlanError):
            fed(split(text, places), max_chars, min_chars)
        return
    for parts in (split(text, places), list(text)):
        assert [sentence.text for sentence in fed(parts, max_chars, min_chars)] == expected


@given(PROSE | MARKS, st.lists(st.integers(0, 500), max_size=30))
def test_spans_refer_to_the_text_as_it_came(text: str, places: list[int]) -> None:
    """Catches captions that highlight other words than the ones spoken; in tidy text a span holds just its piece."""
    try:
        sentences = fed(split(text, places), 24, 7)
    except PlanError:
        return
    tidy = clean(text) == text
    end = 0
    for sentence in sentences:
        assert 0 <= sentence.start < sentence.end <= len(text)
        assert sentence.text in clean(text[sentence.start : sentence.end])
        if tidy:  # else a word that holds invisible characters may belong to two sentences
            assert end <= sentence.start
            assert text[sentence.start : sentence.end] == sentence.text
        end = sentence.end
        for at, char in enumerate(sentence.text):
            if not char.isspace():
                first, last = sentence.span(at, at + 1)
                assert char in unicodedata.normalize("NFC", text[first:last])
                assert not tidy or (text[first:last] == char)


@pytest.mark.parametrize(
    ("parts", "ready"),
    [
        (["The crow flew home. ", "It"], [[], ["The crow flew home."]]),
        (["The crow flew home.", " ", "It"], [[], [], ["The crow flew home."]]),
        (['He said: "Stop." ', '"', "Now"], [[], [], ['He said: "Stop."']]),
        (["今日は晴れです。", "明日"], [[], ["今日は晴れです。"]]),
        (["It was at 3.", "14 p.m. ", "then"], [[], [], []]),
        (["A title\n", "\n", "Body"], [[], [], ["A title"]]),
    ],
)
def test_a_sentence_is_given_as_soon_as_the_next_one_begins(parts: list[str], ready: list[list[str]]) -> None:
    """Catches a buffer that is right only because it waits for the end: the latency of a voice answer."""
    buffer = SentenceBuffer(200, 5)
    assert [[sentence.text for sentence in buffer.feed(part)] for part in parts] == ready


@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, " " * 20_000, "a " * 10_000, "漢" * 20_000, '"' * 20_000, "\u0301" * 20_000, "😀" * 20_000,
     "a\u0301\u0327" * 6_000, "。" * 20_000, '" ' * 10_000, "a漢" * 10_000],
    ids=lambda text: repr(text[:4]),
)  # fmt: skip
def test_hostile_text_character_by_character(text: str) -> None:
    """A quadratic step would need minutes; the suite's own time limit is the judge."""
    buffer = SentenceBuffer()
    try:
        for char in text:
            buffer.feed(char)
        buffer.end()
    except PlanError:
        assert text[:2] in ("aa", '""', "\u0301\u0301", "。。", "a\u0301")


def test_no_composition_changes_a_decision() -> None:
    """The buffer decides on a letter before its accents have come; no Unicode composition may turn that over."""
    for code in range(0x110000):
        char = chr(code)
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and parts[0][0] != "<":
            first = chr(int(parts[0], 16))
            if unicodedata.normalize("NFC", first + chr(int(parts[1], 16))) == char:
                assert [f(first) for f in (str.islower, is_opener, is_unspaced)] == [
                    f(char) for f in (str.islower, is_opener, is_unspaced)
                ]
