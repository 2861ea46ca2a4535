"""Sentence lists: one sentence a line, sections opened by a line ``# name``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sentence:
    """A sentence to speak and where it stands."""

    section: str
    text: str


def read_sentences(path: Path) -> list[Sentence]:
    """Read a list; sentences before the first section belong to a section named after the file.

    Raises ValueError for a file without sentences.
    """
    section = path.stem
    sentences = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("#"):
            section = text.lstrip("# ")
        elif text:
            sentences.append(Sentence(section, text))
    if not sentences:
        raise ValueError(f"{path} holds no sentence")
    return sentences
