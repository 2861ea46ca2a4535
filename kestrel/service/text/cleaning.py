"""Cleaning that every text gets: NFC, single spaces, nothing that has no sound and breaks tokenizers."""

from __future__ import annotations

import re
import unicodedata
from array import array

from kestrel.service.text.trace import Edit, Traced

_MAX_MARKS = 30  # combining marks on one base, as in the Stream-Safe Text Format of UAX #15; more is an attack on NFC
_MAX_REPEATS = 3  # of one punctuation mark or symbol: a line of dashes or dots is no word of that length
_ZERO_WIDTH_JOINERS = "\u200c\u200d"
_EMOJI = re.compile(
    "[\U0001f000-\U0001fbff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\u20e3\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)
# Characters that canonical composition may join to the one before: marks, and the vowels and finals of Hangul.
_JOINING = re.compile("[\u1160-\u11ff]")


def clean(text: str) -> str:
    """The text as it will be spoken: NFC, without emoji, control and invisible format characters, single spaces.

    A paragraph break becomes one blank line; every other run of white space becomes one space. Of a punctuation mark
    that is repeated at most three are kept. Idempotent.
    """
    return cleaned(Traced.of(text)).text


def is_emoji(char: str) -> bool:
    """True for what `clean` takes out as a picture, even one that counts as a number."""
    return _EMOJI.match(char) is not None


def speakable(text: str) -> bool:
    """True if there is anything to say: at least one letter or digit of any script."""
    return any(char.isalnum() for char in text)


def cleaned(traced: Traced) -> Traced:
    """`clean`, with spans."""
    return _composed(_without_silent(traced))


def _without_silent(traced: Traced) -> Traced:
    kept: list[str] = []
    starts, ends = array("l"), array("l")
    space, newlines, marks = False, 0, 0

    def keep(piece: str, first: int, last: int) -> None:
        kept.append(piece)
        starts.extend([first] * len(piece))
        ends.extend([last] * len(piece))

    for index, char in enumerate(traced.text):
        category = unicodedata.category(char)
        if category[0] == "M":
            marks += 1
            if marks > _MAX_MARKS:
                continue
        if char in "\n\u2029\x85\u2028":
            space, newlines = True, newlines + (2 if char == "\u2029" else 1)
        elif char.isspace() or category == "Cc" or char == "\u200b" or is_emoji(char):
            space = True
        elif category in ("Cf", "Cs", "Co", "Cn"):
            # Joiners shape letters in several scripts; beside anything else they are left over from an emoji.
            if char in _ZERO_WIDTH_JOINERS and kept and not space and unicodedata.category(kept[-1])[0] in "LM":
                keep(char, *traced.span(index, index + 1))
                marks = 0
        elif category[0] in "PS" and not space and kept[-_MAX_REPEATS:] == [char] * _MAX_REPEATS:
            continue
        else:
            first, last = traced.span(index, index + 1)
            if space and kept:
                # Between passages the gap, inside a rewritten one its span: neither end may run backwards.
                keep("\n\n" if newlines > 1 else " ", min(first, ends[-1]), max(first, ends[-1]))
            space, newlines = False, 0
            keep(char, first, last)
            if category[0] != "M":
                marks = 0
    return Traced("".join(kept), starts, ends)


def _composed(traced: Traced) -> Traced:
    """NFC. Characters that compose get the span of all of them."""
    text = traced.text
    if unicodedata.is_normalized("NFC", text):
        return traced
    wanted = unicodedata.normalize("NFC", text)
    for joins in (
        _joins,
        _is_not_ascii,
    ):  # the second is coarse but always right: nothing composes with ASCII before it
        edits: list[Edit] = []
        start = 0
        for at in range(1, len(text) + 1):
            if at < len(text) and joins(text[at]):
                continue
            composed = unicodedata.normalize("NFC", text[start:at])
            if composed != text[start:at]:
                edits.append(Edit(start, at, composed))
            start = at
        result = traced.rewrite(edits)
        if result.text == wanted:
            return result
    raise AssertionError("NFC of the parts differs from NFC of the whole")


def _joins(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" or _JOINING.match(char) is not None


def _is_not_ascii(char: str) -> bool:
    return not char.isascii()
