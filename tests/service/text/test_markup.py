"""Markdown and pause tags: nothing of the markup is spoken, nothing of the text is lost, plain prose stays."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kestrel.service.text import MAX_PAUSE_SECONDS, Pause, PlanError, Switches, Traced, language_rules, normalise

ENGLISH = language_rules("en")


def spoken(text: str, switches: Switches | None = None) -> str:
    parts = normalise(text, switches or Switches(), ENGLISH)
    return " ".join(part.text for part in parts if isinstance(part, Traced))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("# Heading\nText", "Heading.\n\nText"),
        ("## Why? ##\nText", "Why?\n\nText"),
        ("Title\n=====\nBody", "Title.\n\nBody"),
        ("**bold**, *italic*, ***both***, __bold__, _italic_, ~~gone~~", "bold, italic, both, bold, italic, gone"),
        ("un**believ**able", "unbelievable"),
        ("2 * 3 and 4*5", "two times three and four times five"),
        ("a snake_case_name", "a snake case name"),
        ("- milk\n- eggs and\n  bread\n- done!", "milk. eggs and bread. done!"),
        ("* [x] one task\n* [ ] another", "one task. another."),
        ("1. Mix\n2. Bake", "one: Mix. two: Bake."),
        ("use `x = 1` and ``a ` b``", "use x equals one and a b"),
        ("```python\na **b** c\n```\nDone", "a **b** c\n\nDone"),
        ("[the docs](https://x.io/a_(b) \"title\") are here", "the docs are here"),
        ("[![a badge](b.svg)](http://y.io) and ![a cat](cat.png)", "a badge and a cat"),
        ("see [this][1] and [that][]\n\n[1]: https://x.io\n[that]: /y", "see this and that"),
        ("array[1][2] stays", "array[one][two] stays"),
        ("<https://x.io> and <b>bold</b> a < b", "x dot io and bold a < b"),
        ("one <!-- hidden --> two", "one two"),
        ("fish &amp; chips", "fish and chips"),
        ("\\*not italic\\*", "*not italic*"),
        ("> quoted\n> twice", "quoted twice"),
        ("one\n\n---\n\ntwo", "one\n\ntwo"),
        ("| Name | Age |\n|---|--:|\n| Ann | 5 |\n| Bob | |", "Name, Age.\n\nAnn, five. Bob."),
        ("a | b\n--|--\nc | d", "a, b.\n\nc, d."),
        ("fact[^1]\n\n[^1]: a note", "fact\n\na note."),
        ("https://x.io/__init__", "x dot io slash underscore underscore init underscore underscore"),
        ("Price: 5 * tax. It's (really) good - or not?", "Price: five * tax. It's (really) good - or not?"),
    ],
)  # fmt: skip
def test_markdown(written: str, expected: str) -> None:
    """Catches "asterisk asterisk", link targets read out, headings that run into the text, cells without a pause."""
    assert spoken(written) == expected


def test_markdown_can_be_switched_off() -> None:
    """Catches marks that vanish although the caller said that the text is no markdown."""
    assert spoken("# a **b**", Switches(markdown=False)) == "# a **b**"


@given(st.lists(st.sampled_from([*"#*_-`~|>[]()!\\<&; \n", "ab", "c", "1", "](u)", "\n- ", "| "]), max_size=60))
@example(list("| ) |\n|-|\n|"))
@example(list("[[[]](u)](u)"))
def test_no_word_is_lost_outside_link_targets(tokens: list[str]) -> None:
    """Catches a broken table, fence or bracket that swallows the words beside it."""
    text = "".join(tokens).replace("(", "[").replace("](u)", "")
    assume(not re.search("```|~~~", text))  # the word after a fence names the language of the code
    words = "".join(char for char in text if char.isalpha())
    switches = Switches(numbers=False, symbols=False, links=False)
    # Labels of link definitions and HTML tags are no words; the alphabet above can make neither.
    assert "".join(char for char in spoken(text, switches) if char.isalpha()) == words


def test_pauses_split_the_text() -> None:
    """Catches tags that are spoken, lengths in the wrong unit, lengths without a bound, and lost text beside a tag."""
    text = "One[pause:500ms]two [PAUSE: 1.5 s] three[pause:99s]"
    parts = normalise(text, Switches(), ENGLISH)
    shown = [part.text if isinstance(part, Traced) else part.seconds for part in parts]
    assert shown == ["One", 0.5, "two", 1.5, "three", MAX_PAUSE_SECONDS]
    pauses = [text[slice(*part.span)] for part in parts if isinstance(part, Pause)]
    assert pauses == ["[pause:500ms]", "[PAUSE: 1.5 s]", "[pause:99s]"]
    assert "pause" in spoken("a [pause:1s] b", Switches(pauses=False))


@pytest.mark.parametrize("tag", ["[pause:]", "[pause:5]", "[pause:-1s]", "[pause:1h]", "[pause:1e3s]", "[pause:٣s]"])
def test_a_malformed_pause_is_refused(tag: str) -> None:
    """Catches a tag that is read aloud because of a slip in it."""
    with pytest.raises(PlanError, match=r"valid: \[pause:500ms\]"):
        normalise(f"a {tag} b", Switches(), ENGLISH)


HOSTILE = [
    "a", "1", "1,", "1 ", "1-", "1.1", "[", "]", "![", "[a](", "[a](b[", "](u)", "`", "` ", "` `` ", "*a ", "_",
    "\\", "<", "<b ", "&", "&a", "a.", "a@", "a@a.", "http://", "http://a", "/a", "/a/", "$1", "$", "1:11", "5 km ",
    "Dr. ", "Henry V ", "XVI", "Nov 3 ", "+1 ", "(1)", "(", "|a", "- a\n", "|", "#", "# ", " ", "[pause:",
    "[pause:1s]", "1/", "1/2 ", "😀", "1x", "-", "- ", ">", "> ", "\n", "漢", "٣", "½", "1st ", "v1.", "e\u0301",
    "\u0301", "a_", "#a", "555-", "Ab ", "No. 5 ", "\"'", "1'", "~~~\n", "-1", "St. ", "www.a.", "a-", "1e", "[^",
    "[^a]", "[a]:", "\u200d", "'s", "12:3", "%", "3.3.", "[a][b]", "~~", "\r",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """A pattern that looks back over what it has read takes 16 times as long for 4 times the text; 8 is refused.

    Measured in processor time of this thread, three tries, because the machine may be busy with something else.
    """
    small, large = unit * (4_000 // len(unit)), unit * (16_000 // len(unit))

    def seconds(text: str) -> float:
        started = time.thread_time()
        normalise(text, Switches(emoji="name"), ENGLISH)
        return time.thread_time() - started

    assert any(seconds(large) < 8 * seconds(small) + 0.05 for _ in range(3))


def test_a_megabyte_of_hostile_text_ends() -> None:
    """Every hostile unit in one text: a quadratic step would need hours; the suite's own time limit is the judge."""
    text = "".join(unit * (1_000_000 // len(HOSTILE) // len(unit)) for unit in HOSTILE if "pause" not in unit)
    assert len(text) > 900_000
    assert normalise(text, Switches(), ENGLISH)
