"""The languages that have rules of their own."""

from __future__ import annotations

from kestrel.service.text.english import English
from kestrel.service.text.rules import Language

_LANGUAGES: dict[str, Language] = {language.code: language for language in (English(),)}


def language_rules(tag: str | None) -> Language | None:
    """Rules for a BCP 47 tag, or None for a language that gets no more than markup and cleaning."""
    return None if tag is None else _LANGUAGES.get(tag.lower().replace("_", "-").split("-")[0])
