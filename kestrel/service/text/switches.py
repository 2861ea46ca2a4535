"""What the text front end does and leaves alone, one switch a category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

DateOrder = Literal["mdy", "dmy"]
EmojiMode = Literal["drop", "name"]


@dataclass(frozen=True, slots=True)
class Switches:
    """Everything is on by default. Cleaning (white space, invisible characters) cannot be switched off."""

    markdown: bool = True  # headings, emphasis, lists, code, links, tables
    pauses: bool = True  # [pause:500ms]
    links: bool = True  # URLs, e-mail addresses, file names, hash tags
    versions: bool = True  # v1.2.3 and IP addresses
    phones: bool = True
    dates: bool = True
    times: bool = True
    money: bool = True
    units: bool = True  # 5 km, 20 °C, 15 %
    abbreviations: bool = True  # Dr., e.g., No. 5
    roman: bool = True  # Henry VIII, Chapter IV
    numbers: bool = True  # cardinals, ordinals, decimals, fractions, ranges, years
    symbols: bool = True  # &, +, ≈, C#
    emoji: EmojiMode = "drop"
    date_order: DateOrder = "mdy"  # of a date like 03/04/2026, which can be read both ways

    @classmethod
    def off(cls) -> Switches:
        """Nothing but cleaning: the text reaches the voice as it was written, and emoji are dropped."""
        none: dict[str, Any] = dict.fromkeys(CATEGORIES, False)
        return cls(**none)


CATEGORIES = (
    "markdown", "pauses", "links", "versions", "phones", "dates", "times", "money", "units", "abbreviations", "roman",
    "numbers", "symbols",
)  # fmt: skip
"""Names of the switches that are on or off."""
