"""The English rules against a table of what a person would say, and what must hold for every text."""

from __future__ import annotations

import re
import string
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrel.service.normalization import Categories, switches_of
from kestrel.service.text import CATEGORIES, PlanError, Switches, Traced, language_rules, normalise

ENGLISH = language_rules("en")
ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "english.tsv").read_text(encoding="utf-8").splitlines()
    if "\t" in line
]
PLAIN = Switches(markdown=False, pauses=False)
WRITTEN = st.lists(
    st.sampled_from([row[0] for row in ROWS]) | st.text(string.ascii_letters + "0123456789.,:/-$%+' ", max_size=8),
    max_size=8,
).map(" ".join)


def spoken(text: str, switches: Switches = PLAIN) -> str:
    return " ".join(part.text for part in normalise(text, switches, ENGLISH) if isinstance(part, Traced))


def test_the_table_is_long_enough() -> None:
    """Guards the promise of the documentation: at least 200 rows, none twice."""
    assert len({row[0] for row in ROWS}) == len(ROWS) > 200


@pytest.mark.parametrize(("written", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_table(written: str, expected: str) -> None:
    """Catches "thirty-four ninety-seven", "asterisk", "dollar three point fifty" and their kin, alone and in prose."""
    assert spoken(written) == expected
    # In the middle of a sentence too, where there is no edge of the text beside it.
    if not written[0].isupper() and written[-1] not in ".":
        assert spoken(f"so {written} then") == f"so {expected} then"


@given(WRITTEN)
@example("1 of 2, 3-4-5 or 6/7/8 at 9:10:11:12, 1.2.3.4.5.6.7.8, 2026-13-45, $1.2.3, 1e5, 0x1f, -.5-, 1,2,3")
def test_no_digit_is_left(text: str) -> None:
    """A digit left over is read by each voice its own way."""
    assert not re.search(r"[0-9]", spoken(text))


@given(st.lists(st.sampled_from([row[0] for row in ROWS]), max_size=6).map(" and ".join))
def test_a_second_pass_changes_nothing(text: str) -> None:
    """Words that a rule has made must not set off another: "a.m." is no file name, "Act one" no numeral."""
    assert spoken(spoken(text)) == spoken(text)


@given(WRITTEN | st.text(st.characters(codec="utf-8"), max_size=60))
def test_every_letter_and_digit_is_covered_by_a_span(text: str) -> None:
    """Catches words lost by a rule, and spans that run backwards or outside the text: highlighting would break."""
    covered: set[int] = set()
    start = end = 0
    for part in normalise(text, PLAIN, ENGLISH):
        assert isinstance(part, Traced)
        for segment in part.segments():
            assert start <= segment.start
            assert end <= segment.end
            assert segment.start <= segment.end <= len(text)
            start, end = segment.start, segment.end
            covered.update(range(segment.start, segment.end))
    lost = {char for index, char in enumerate(text) if char.isascii() and char.isalnum() and index not in covered}
    assert not lost


@pytest.mark.parametrize("category", sorted(set(CATEGORIES) - {"markdown", "pauses"}))
def test_a_switch_turns_off_its_category_and_no_other(category: str) -> None:
    """Catches a rule filed under the wrong switch, or one that nothing turns off."""
    samples = {
        "links": "see a@b.com", "versions": "v1.2.3", "phones": "+44 20 7946 0958", "dates": "2026-11-30",
        "times": "3:45pm",
        "money": "$3.50", "units": "5 km", "abbreviations": "Dr. Smith", "roman": "Henry VIII", "numbers": "12",
        "symbols": "a & b",
    }  # fmt: skip
    assert spoken(samples[category], Switches.off()) == samples[category]
    alone = Switches(**dict.fromkeys(CATEGORIES, False) | {category: True})  # type: ignore[arg-type]
    assert spoken(samples[category], alone) != samples[category]
    for name, text in samples.items():
        if name != category and category not in ("numbers", "symbols"):  # these two are in nearly every sample
            assert spoken(text, alone) == text, name


def test_every_switch_is_documented() -> None:
    """Catches a switch of the request, or of the rules, that the other or the page does not have."""
    page = (Path(__file__).parents[3] / "docs" / "text.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)`", page, re.MULTILINE)
    assert documented == [*CATEGORIES, "emoji", "date_order"] == list(Categories.model_fields)
    assert switches_of(Categories()) == switches_of(True) == Switches()
    assert switches_of(False) == Switches.off()


def test_ambiguous_dates_follow_the_switch() -> None:
    """Catches a British date read as an American one although the caller said which it is."""
    assert spoken("03/04/2026", Switches(date_order="dmy")) == "April third, twenty twenty-six"
    assert spoken("03/04/2026", Switches(date_order="mdy")) == "March fourth, twenty twenty-six"


def test_emoji_are_dropped_or_named() -> None:
    """Catches skin tones and flags spoken as loose code points, and a picture that glues two words together."""
    assert spoken("I ❤️ it👍🏽now 🇩🇪") == "I it now"
    named = spoken("I ❤️ it👍🏽now 🇩🇪", Switches(emoji="name"))
    assert named == "I red heart it thumbs up medium skin tone now Germany"


@settings(max_examples=300)
@given(st.text(max_size=200), st.booleans(), st.sampled_from(["drop", "name"]), st.sampled_from(["en", "ja", None]))
@example("[pause:1s][pause:x]", True, "drop", "en")
def test_any_string_is_normalised_or_refused(text: str, on: bool, emoji: str, language: str | None) -> None:
    """Bad input may raise the documented error and nothing else; surrogates, controls and marks included."""
    switches = Switches(emoji=emoji) if on else Switches.off()  # type: ignore[arg-type]
    parts = []
    with suppress(PlanError):
        parts = normalise(text, switches, language_rules(language))
    for part in parts:
        if isinstance(part, Traced):
            part.text.encode()
            assert part.text == part.text.strip() != ""
