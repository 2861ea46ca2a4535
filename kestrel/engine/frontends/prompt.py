"""What a front end hands to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the caller's text that the model speaks as a unit.

    `start` and `end` delimit it in the original text. `unit` says when it begins: 0 with the first frame, k when the
    model takes segment k - 1.
    """

    text: str
    start: int
    end: int
    unit: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text made ready for one session.

    `columns` is [1 + codebooks][T]: row 0 holds text-vocabulary ids, the rows below codes, 0 at text positions.
    `segments` are fed one by one while the model speaks (interleaved text); empty for prompt text.
    `symbols` counts what is to be spoken, in units of the front end (characters or phonemes), for the frame budget.
    """

    columns: Ids
    segments: tuple[Ids, ...]
    words: tuple[Word, ...]
    symbols: int


class FrontEnd(Protocol):
    """Text work of one model. Implementations are immutable, so any thread may call `encode`."""

    @property
    def max_characters(self) -> int | None:
        """Longest text the model was trained on, or None if it has no such limit; a caller should split there."""

    @property
    def frames_per_symbol(self) -> float:
        """Frames of audio one symbol takes in ordinary speech."""

    def encode(self, text: str) -> Prompt:
        """Raises TextError if `text` holds nothing to speak or characters the model cannot speak."""


def text_columns(ids: list[int], codebooks: int) -> Ids:
    """Prompt matrix of a text without audio: ids in row 0, zeros below. [1 + codebooks][len(ids)]."""
    columns = np.zeros((1 + codebooks, len(ids)), dtype=np.int32)
    columns[0] = ids
    return columns
