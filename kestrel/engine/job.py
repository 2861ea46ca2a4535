"""One utterance on its way through the engine's thread: waiting, in a slot, ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kestrel.engine.binding import PHASES, NativeLimits, NativeModel, NativeSampling, NativeSession, NativeStatus
from kestrel.engine.errors import EngineError
from kestrel.engine.frontends import Prompt, Word
from kestrel.engine.pcm import to_int16
from kestrel.engine.stream import Chunk, Event, Phase, Result, Stream, WordTime
from kestrel.engine.utterance import Utterance

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rates:
    """What turns frames and samples into seconds."""

    sample_rate: int
    frames_per_second: float


class Job:
    """Used by the engine's thread alone, except for construction and its stream."""

    def __init__(
        self,
        utterance: Utterance,
        prompt: Prompt,
        sampling: NativeSampling,
        limits: NativeLimits,
        rates: Rates,
        stream: Stream,
        submitted: float,
    ) -> None:
        """`submitted`: time.monotonic() when submit was entered; now is when the text work is done."""
        self.stream = stream
        self.session: NativeSession | None = None
        self._utterance, self._prompt = utterance, prompt
        self._sampling, self._limits, self._rates = sampling, limits, rates
        self._submitted, self._queued = submitted, time.monotonic()
        self._opened: float | None = None
        self._samples = self._chunks = 0
        self._encode_seconds = 0.0

    def open(self, model: NativeModel) -> None:
        """Takes a slot and hands over the text. Raises EngineError."""
        self._opened = time.monotonic()
        self.session = model.open_session(
            self._prompt.columns,
            seed=self._utterance.seed,
            sampling=self._sampling,
            limits=self._limits,
            first_chunk_frames=self._utterance.first_chunk_frames,
            max_chunk_frames=self._utterance.max_chunk_frames,
        )
        if self._prompt.segments:
            for segment in self._prompt.segments:
                self.session.push(segment)
        if model.interleaved:
            self.session.end_text()

    def collect(self) -> bool:
        """After a step: delivers ready samples. True if the utterance has ended."""
        assert self.session is not None
        started = time.monotonic()
        status = self.session.status()
        if status.samples > 0:
            pcm = to_int16(self.session.read(status.samples))
            start = self._samples / self._rates.sample_rate
            self._samples += len(pcm)
            self._deliver(Chunk(pcm, start, self._chunks, time.monotonic() - self._submitted))
            self._chunks += 1
        self._encode_seconds += time.monotonic() - started
        if status.starved and not status.finish:  # all text was handed over in `open`
            raise EngineError("the session waits for text although its text has ended")
        if status.finish == "numeric":
            self.fail(EngineError("the model's scores overflowed on this text; try other wording"))
        elif status.finish:
            self.finish(status.finish, status)
        return bool(status.finish)

    def finish(self, reason: str, status: NativeStatus | None = None) -> None:
        """Ends the utterance normally and frees its slot."""
        if self.session is not None and status is None:
            status = self.session.status()
        segments = (
            self.session.segment_frames(status.segments) if self.session is not None and status is not None else ()
        )
        self.release()
        wall = time.monotonic() - self._submitted
        audio = self._samples / self._rates.sample_rate
        self._deliver(
            Result(
                finish_reason=reason,
                frames=status.frames if status is not None else 0,
                audio_seconds=audio,
                wall_seconds=wall,
                rtf=wall / audio if audio > 0 else 0.0,
                phases=self._phases(status),
                words=word_times(self._prompt.words, segments, status, self._rates.frames_per_second),
            )
        )

    def fail(self, error: Exception) -> None:
        """Ends the utterance with an error and frees its slot."""
        self.release()
        self._deliver(error)

    def release(self) -> None:
        """Gives the slot back. Idempotent."""
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def _phases(self, status: NativeStatus | None) -> Mapping[str, Phase]:
        opened = self._opened if self._opened is not None else time.monotonic()
        phases = {"text": Phase(self._queued - self._submitted, 1), "queue": Phase(opened - self._queued, 1)}
        clocks = status.phases if status is not None else ((0, 0),) * len(PHASES)
        for name, (nanoseconds, count) in zip(PHASES, clocks, strict=True):
            phases[name] = Phase(nanoseconds / 1e9, count)
        phases["encode"] = Phase(self._encode_seconds, self._chunks)
        return MappingProxyType(phases)

    def _deliver(self, event: Event) -> None:
        """A sink that fails must not harm the other streams, so its own stream is cancelled instead."""
        try:
            self.stream.deliver(event)
        except Exception:
            _log.exception("the sink of a stream failed; the stream is cancelled")
            self.stream.cancel()


def word_times(
    words: tuple[Word, ...],
    segment_frames: tuple[int, ...],
    status: NativeStatus | None,
    frames_per_second: float,
) -> tuple[WordTime, ...]:
    """Start of every word that was begun. Unit 0 begins with the first frame, unit k when segment k - 1 was taken."""
    if status is None or status.frames == 0:
        return ()
    begins = (0, *segment_frames)
    return tuple(
        WordTime(word.text, word.start, word.end, begins[word.unit] / frames_per_second)
        for word in words
        if 0 <= word.unit < len(begins) and begins[word.unit] < status.frames
    )
