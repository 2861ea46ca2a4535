"""What a job is and what may happen to it: pure decisions, without clock, disk or engine.

A job's progress is always the fold of its finished sentences, so what a restart finds on disk and what an undisturbed
run has in memory cannot differ. The audio length of each sentence is kept as the engine told it and added in order:
`max_seconds` of a later sentence is derived from the sum, and the samples from that.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kestrel.service.admission import expected_audio_seconds
from kestrel.service.speech import Speech

Status = Literal["queued", "running", "completed", "failed"]
STATUSES: tuple[Status, ...] = ("queued", "running", "completed", "failed")
UNFINISHED: tuple[Status, ...] = ("queued", "running")

_ID = re.compile(r"job_[0-9a-f]{32}")

BYTES_PER_SAMPLE = 2


def new_id() -> str:
    """An id that nobody can guess."""
    return f"job_{secrets.token_hex(16)}"


def is_id(text: str) -> bool:
    """True for the shape of `new_id`. Nothing else may become part of a file name."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finished sentence: where its audio ends in the file, and how it was made. Times in seconds."""

    number: int
    ends_at: int  # bytes
    audio_seconds: float
    busy_seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. `finish_reason` is `eos` only if every sentence ended by itself, as in a speech request."""

    total: int
    done: int = 0
    size: int = 0  # bytes of audio
    audio_seconds: float = 0.0
    busy_seconds: float = 0.0
    finish_reason: str = ""

    def add(self, sentence: Sentence) -> Progress:
        """The progress with the next sentence. Raises ValueError for any but the next."""
        if sentence.number != self.done or sentence.number >= self.total or sentence.ends_at < self.size:
            raise ValueError(f"sentence {sentence.number} cannot follow {self.done} of {self.total}")
        return replace(
            self,
            done=self.done + 1,
            size=sentence.ends_at,
            audio_seconds=self.audio_seconds + sentence.audio_seconds,
            busy_seconds=self.busy_seconds + sentence.busy_seconds,
            finish_reason=sentence.finish_reason if self.finish_reason in ("", "eos") else self.finish_reason,
        )

    def cut_short(self) -> Progress:
        """The progress of a text whose last sentences did not fit into `max_seconds`."""
        return replace(self, finish_reason="length")

    @property
    def rtf(self) -> float | None:
        """Engine seconds per audio second so far."""
        return self.busy_seconds / self.audio_seconds if self.audio_seconds else None


def fold(total: int, sentences: Iterable[Sentence]) -> Progress:
    """The progress that these sentences, in order, make."""
    progress = Progress(total)
    for sentence in sentences:
        progress = progress.add(sentence)
    return progress


def intact(sentences: Sequence[Sentence], file_size: int) -> Sequence[Sentence]:
    """The sentences whose audio is wholly in a file of that size; the others must be spoken again.

    A crash leaves the file at least as long as the sentences say, since it is written first. Less means that somebody
    else took something away.
    """
    kept = len(sentences)
    while kept and sentences[kept - 1].ends_at > file_size:
        kept -= 1
    return sentences[:kept]


def over(progress: Progress, speech: Speech) -> bool:
    """True when no further sentence is to be spoken."""
    return progress.done == progress.total or speech.exhausted(progress.audio_seconds)


def concluded(progress: Progress) -> Progress:
    """The final progress of a job that is `over`."""
    return progress if progress.done == progress.total else progress.cut_short()


def audio_left(progress: Progress, characters: int, max_seconds: float) -> float:
    """Audio seconds still to be made: at the job's own rate once it has spoken, else at that of read speech."""
    if not progress.done:
        return expected_audio_seconds(characters, max_seconds)
    left = progress.audio_seconds / progress.done * (progress.total - progress.done)
    return max(0.0, min(left, max_seconds - progress.audio_seconds))


@dataclass(frozen=True, slots=True)
class Work:
    """What an unfinished job still needs."""

    id: str
    audio_seconds: float
    rtf: float | None  # its own, once measured


def seconds_left(job: str, unfinished: Sequence[Work], rtf: float, lanes: int) -> float:
    """Estimated wall seconds until `job` is done: its own work and, while it is not among the first, that before it.

    `unfinished` is in order of service. Interactive requests, which go first, are not foreseen.
    """
    place = next(index for index, work in enumerate(unfinished) if work.id == job)
    costs = [work.audio_seconds * (rtf if work.rtf is None else work.rtf) for work in unfinished[: place + 1]]
    ahead = sum(costs[:place]) / lanes if place >= lanes else 0.0
    return ahead + costs[place]


def expected_bytes(audio_seconds: float, sample_rate: int) -> int:
    """Size of so much audio on disk."""
    return round(audio_seconds * sample_rate) * BYTES_PER_SAMPLE
