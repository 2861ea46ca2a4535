"""The caller's end of an utterance: chunks of samples, then one result."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from kestrel.engine.errors import EngineError

CancelReason = Literal["cancelled", "deadline"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive samples. Times in seconds."""

    pcm: npt.NDArray[np.int16]  # mono
    start: float  # of its first sample in the audio
    index: int
    elapsed: float  # wall time from submit until these samples were ready


@dataclass(frozen=True, slots=True)
class Phase:
    """Time one stage took for this utterance, and how often it ran."""

    seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class WordTime:
    """Start of a spoken word. `start` and `end` delimit `text` in the utterance's text."""

    text: str
    start: int
    end: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """How an utterance ended. `rtf` is wall time over audio time, 0 without audio.

    finish_reason: eos, length, repetition, silence, cancelled, deadline or context.
    phases: text, queue, prefill, falcon_step, sample, fast_graph, codec_build, codec_compute; of stages that serve
    several utterances at once, this one's share; then encode: samples to 16 bits and their delivery.
    words: in order, those begun; empty where the model does not report
    them (prompt text).
    """

    finish_reason: str
    frames: int
    audio_seconds: float
    wall_seconds: float
    rtf: float
    phases: Mapping[str, Phase]
    words: tuple[WordTime, ...]


Event = Chunk | Result | Exception
Sink = Callable[[Event], None]


class Stream:
    """Iterate it for chunks, in any one thread; then ask for `result()`.

    With a sink, every event goes to the sink instead, called from the engine's thread: it must return at once, for
    example by handing the event to an event loop. A sink that raises ends its stream as cancelled.
    """

    def __init__(self, sink: Sink | None, wake: Callable[[], None]) -> None:
        self._sink = sink
        self._wake = wake
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._outcome: Result | Exception | None = None
        self._cancel_reason: CancelReason | None = None

    def __iter__(self) -> Iterator[Chunk]:
        """Chunks as they become ready, until the end. Raises what the utterance failed with."""
        if self._sink is not None:
            raise EngineError("this stream delivers to its sink; it cannot be iterated")
        while True:
            # An end that was already taken from the queue must not block a second iteration.
            if self._ended.is_set() and self._events.empty():
                self.result()
                return
            event = self._events.get()
            if isinstance(event, Chunk):
                yield event
            elif isinstance(event, Exception):
                raise event
            else:
                return

    def cancel(self, reason: CancelReason = "cancelled") -> None:
        """Ends the utterance before its next frame. Any thread; no effect once it has ended."""
        if self._cancel_reason is None:
            self._cancel_reason = reason
        self._wake()

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Reason of the first `cancel`, or None."""
        return self._cancel_reason

    @property
    def done(self) -> bool:
        """True once the utterance has ended."""
        return self._ended.is_set()

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the end. Raises what the utterance failed with, or TimeoutError after `timeout` seconds."""
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the utterance has not ended within {timeout} s")
        if isinstance(self._outcome, Result):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome

    def deliver(self, event: Event) -> None:
        """Engine's thread only. A Result or an Exception ends the stream; what comes after it is ignored."""
        if self._ended.is_set():
            return
        if not isinstance(event, Chunk):
            self._outcome = event
        if self._sink is None:
            self._events.put(event)
        if not isinstance(event, Chunk):
            self._ended.set()
        if self._sink is not None:
            self._sink(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaving the block ends the utterance if it still runs."""
        self.cancel()
