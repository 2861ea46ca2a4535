"""The request field `normalize`: which categories of the text front end are on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from kestrel.service.text import DateOrder, EmojiMode, Switches


class Categories(BaseModel):
    """One switch a category. What is left out keeps its default."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    markdown: bool = Field(default=True, description="Headings, emphasis, lists, code, links and tables.")
    pauses: bool = Field(default=True, description="`[pause:500ms]` as exact silence.")
    links: bool = Field(default=True, description="URLs, e-mail addresses, file names, hash tags.")
    versions: bool = Field(default=True, description="`v1.2.3` and IP addresses.")
    phones: bool = Field(default=True, description="Telephone numbers, digit by digit.")
    dates: bool = Field(default=True, description="`2026-11-30`, `Nov 30, 2026`.")
    times: bool = Field(default=True, description="`3:45pm`, `15:00`.")
    money: bool = Field(default=True, description="`$3.50`, `£2m`.")
    units: bool = Field(default=True, description="`5 km`, `20 °C`, `15%`.")
    abbreviations: bool = Field(default=True, description="`Dr.`, `e.g.`, `No. 5`.")
    roman: bool = Field(default=True, description="`Henry VIII`, `Chapter IV`.")
    numbers: bool = Field(default=True, description="Numbers, ordinals, fractions, ranges, years.")
    symbols: bool = Field(default=True, description="`&`, `+`, `≈`, `C#`.")
    emoji: EmojiMode = Field(default="drop", description="`drop`, or `name`: spoken by their names (English).")
    date_order: DateOrder = Field(
        default="mdy",
        description="Of a date with slashes that can be read both ways: `mdy` takes 03/04/2026 as March 4, `dmy` as "
        "April 3.",
    )

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        for name in data if isinstance(data, dict) else ():
            if name not in cls.model_fields:
                shown = str(name)[:64].encode("ascii", "backslashreplace").decode()
                raise PydanticCustomError(
                    "unknown_category",
                    "unknown category '{shown}'; valid: {valid}",
                    {"shown": shown, "valid": ", ".join(cls.model_fields)},
                )
        return data


def _form(value: Any) -> str | None:
    if isinstance(value, bool):
        return "switch"
    return "categories" if isinstance(value, dict | Categories) else None


Normalize = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[Categories, Tag("categories")],
    Discriminator(
        _form,
        custom_error_type="normalize_form",
        custom_error_message="must be true, false, or an object with a switch a category",
    ),
]


def switches_of(normalize: bool | Categories) -> Switches:
    """The switches that a request asks for."""
    if isinstance(normalize, Categories):
        return Switches(**normalize.model_dump())
    return Switches() if normalize else Switches.off()
