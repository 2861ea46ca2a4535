"""The text planner: lost or doubled text, cuts inside words, and inputs that take quadratic time."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrel.service.planner import MAX_TOKEN_CHARS, Break, PlanError, clean, cuts, plan, speakable

ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=400)
PROSE = st.lists(
    st.sampled_from(
        ["The", "crow", "flew", "home.", "Then,", "Dr.", "Smith", "said:", '"Go!"', "\n\n",
         "漢字かな交じり文です。", "そう、", "สวัสดี", "e.g.", "3.14", "well-known", "end?", "—", "naïve", "J.", "U.S."]
    ),
    max_size=120,
).map(" ".join)  # fmt: skip


@given(ANY_TEXT | PROSE)
@example("a\u00ad" + "\u0300\u00ad" * 200)
@example("x\u200d\U0001f600 \u200d y")
def test_clean_is_idempotent_and_normal(text: str) -> None:
    """Cleaning twice must change nothing, else the pieces of a text differ from the text that was shown as cleaned."""
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert cleaned == cleaned.strip()
    assert not re.search(r"[^\S \n]|  |(?<!\n)\n(?!\n)|\n{3}| \n|\n ", cleaned)


@given(ANY_TEXT | PROSE, st.integers(5, 60), st.integers(1, 30))
@example("one two " + "w" * 100 + " three", 20, 5)
@example("one two " + "w" * 201 + " three", 20, 5)
def test_pieces_join_to_the_cleaned_text(text: str, max_chars: int, min_chars: int) -> None:
    """Catches text lost, doubled or reordered at a cut, pieces over the limit, and cuts inside a word."""
    cleaned = clean(text)
    places = {cut.end for cut in cuts(cleaned)}
    try:
        pieces = plan(cleaned, max_chars, min_chars)
    except PlanError:
        ends = sorted(places)
        assert max(len(cleaned[a:b].rstrip()) for a, b in zip([0, *ends], ends, strict=False)) > MAX_TOKEN_CHARS
        return
    assert "".join(pieces) == cleaned
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece)
        assert end in places
        assert len(piece.rstrip()) <= max_chars or not places & set(range(start + 1, end))


@given(PROSE)
def test_a_space_separated_word_is_never_cut(text: str) -> None:
    """Looks at the text alone, not at cuts(): a piece that ends between two letters ends in an unspaced script."""
    for piece, following in zip(plan(clean(text), 40, 10), plan(clean(text), 40, 10)[1:], strict=False):
        if piece[-1] not in " \n":
            assert max(piece[-1], following[0]) > "\u0e00", (piece, following)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One is here. Two is there.", ["One is here. ", "Two is there."]),
        ("Dr. Smith met J. R. Jones. He left.", ["Dr. Smith met J. R. ", "Jones. ", "He left."]),
        ("First clause here, second one follows here", ["First clause here, ", "second one follows here"]),
        ("no marks at all in this one text", ["no marks at all in this ", "one text"]),
        (
            "今日は晴れです。明日は雨でしょう、たぶん。その次は分からない。",
            ["今日は晴れです。", "明日は雨でしょう、たぶん。", "その次は分からない。"],
        ),
        ("A title\n\nThe body text.", ["A title\n\n", "The body text."]),
    ],
)
def test_cuts_prefer_sentence_then_clause_then_word(text: str, pieces: list[str]) -> None:
    """Catches a wrong order of preference: each text has a better and a worse place inside the limit."""
    assert plan(clean(text), 24, 7) == pieces


def test_abbreviations_do_not_end_a_sentence() -> None:
    """A pause after 'Dr.' or 'e.g.' is heard as a mistake."""
    text = clean('Dr. Smith came. "Well, e.g. this!" she said. It was 3.14 p.m. then. The end... or not. I see.')
    ends = [text[: cut.end].split()[-1] for cut in cuts(text) if cut.kind == Break.SENTENCE]
    assert ends == ["came.", "said.", "then.", "see."] or ends == ["came.", "said.", "then.", "not.", "see."]


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "😀👍🏽", "👨\u200d👩\u200d👧", "…!?", "\u200b\ufeff"])
def test_nothing_to_say_is_recognised(text: str) -> None:
    """These would give a 200 with silence."""
    assert not speakable(clean(text))


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, "a " * 100_000, "." * 200_000, "a." * 100_000, "(" * 200_000, "e\u0301\u0327" * 60_000,
     "a" + "\u0301\u0327" * 100_000, "\u200d" * 200_000, "漢" * 200_000, "\n" * 200_000, "a\n\n" * 60_000,
     '"' * 200_000, "— " * 100_000, "。" * 200_000, "1\ufe0f\u20e3" * 60_000],
    ids=lambda text: repr(text[:4]),
)  # fmt: skip
def test_hostile_text_takes_linear_time(text: str) -> None:
    """A quadratic step would need minutes for these; the suite's own time limit is the judge."""
    cleaned = clean(text)
    with suppress(PlanError):
        assert "".join(plan(cleaned)) == cleaned


@settings(max_examples=30)
@given(st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3))
def test_lone_surrogates_do_not_survive(text: str) -> None:
    """A lone surrogate cannot be encoded and would fail deep inside the tokenizer."""
    assert clean("a" + text + "b").encode()
