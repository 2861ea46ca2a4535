"""The text front end: the caller's text to what is spoken, with the spans of the caller's text kept."""

from __future__ import annotations

from kestrel.service.text.cleaning import cleaned
from kestrel.service.text.emoji_names import name_emoji
from kestrel.service.text.markdown import strip_markdown
from kestrel.service.text.pauses import Pause, split_pauses
from kestrel.service.text.rules import Language
from kestrel.service.text.switches import Switches
from kestrel.service.text.trace import Traced


def normalise(text: str, switches: Switches, language: Language | None) -> list[Traced | Pause]:
    """Passages to speak and pauses between them, in order; passages are cleaned and never empty.

    Without a `language` the words stay as they are written. Raises PlanError for a malformed pause tag. Pure, and
    linear in the length of `text`.
    """
    traced = Traced.of(text)
    if switches.markdown:
        traced = strip_markdown(traced)
    parts = split_pauses(traced) if switches.pauses else [traced]
    spoken = (part if isinstance(part, Pause) else _passage(part, switches, language) for part in parts)
    return [part for part in spoken if isinstance(part, Pause) or len(part)]


def _passage(traced: Traced, switches: Switches, language: Language | None) -> Traced:
    if switches.emoji == "name" and language is not None and language.code == "en":
        traced = traced.rewrite(name_emoji(traced.text))
    traced = cleaned(traced)
    if language is not None:
        traced = cleaned(language.rewrite(traced, switches))
    return traced
