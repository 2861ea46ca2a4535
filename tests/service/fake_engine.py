"""A deterministic engine for tests of the queue and of failures: no threads, the test says when each thing happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from kestrel.engine import Chunk, Engine, Phase, Result, TextError, Utterance

RATE = 16000
Event = Chunk | Result | Exception


@dataclass
class FakeInfo:
    """The facts that the service reads."""

    name: str = "fake"
    version: str = "1"
    license: str = "none"
    sample_rate: int = RATE
    frame_size: int = 640
    text_mode: str = "prompt"
    voices: tuple[str, ...] = ("default",)
    languages: tuple[str, ...] = ("en",)
    max_characters: int | None = 20
    slots: int = 1
    backend: str = "cpu"
    parameters: int = 1
    weight_bytes: int = 1
    state_bytes: int = 1


@dataclass
class FakeStream:
    """One submitted utterance. The test emits its events; cancelling only sets a flag, as in the engine."""

    utterance: Utterance
    sink: Callable[[Event], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    samples: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        """One chunk, for the warm-up."""
        yield Chunk(np.ones(640, np.int16), 0.0, 0, 0.0)

    def result(self) -> Result:
        """Of the warm-up."""
        return Result("eos", 1, 0.04, 0.04, 1.0, {}, ())

    def cancel(self) -> None:
        self.cancelled.set()

    def speak(self, seconds: float, value: int = 1) -> None:
        pcm = np.full(int(seconds * RATE), value, np.int16)
        start, self.samples = self.samples / RATE, self.samples + len(pcm)
        self.sink(Chunk(pcm, start, 0, 0.0))

    def end(self, reason: str = "eos") -> None:
        audio = self.samples / RATE
        phases = {"queue": Phase(0.5, 1), "falcon_step": Phase(1.0, 10)}
        self.sink(Result(reason, int(audio * 25), audio, 2.0, 2.0 / audio if audio else 0.0, phases, ()))


class FakeEngine:
    """Records what is submitted. `gate`, when cleared, holds submissions back in their worker thread."""

    def __init__(self, on_submit: Callable[[FakeStream], None] | None = None) -> None:
        self.info = FakeInfo()
        self.streams: list[FakeStream] = []
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False
        self.on_submit = on_submit

    def submit(self, utterance: Utterance, sink: Callable[[Event], None] | None = None) -> FakeStream:
        if sink is None:  # the warm-up: always works
            return FakeStream(utterance, lambda event: None)
        self.gate.wait()
        if "unspeakable" in utterance.text:
            raise TextError("this text cannot be spoken")
        stream = FakeStream(utterance, sink)
        self.streams.append(stream)
        if self.on_submit is not None:
            self.on_submit(stream)
        return stream

    def check(self, text: str) -> None:
        if "unspeakable" in text:
            raise TextError("this text cannot be spoken")

    def close(self) -> None:
        self.closed = True

    @property
    def engine(self) -> Engine:
        """Itself, as the type the service asks for."""
        return cast(Engine, self)
