"""One request in flight: its pieces spoken in order through the engine, its PCM buffered for the sender.

Everything here belongs to the event loop. At most one piece of a job is in the engine at a time, so a job never holds
more than the one slot that admission gave it. The next piece starts when the one before has been *made*, not when it
has been sent, and waits only while the client is far behind; the job gives its place away meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic

from kestrel.engine import Engine, Result, Utterance
from kestrel.service.admission import Admission, Ticket, expected_audio_seconds
from kestrel.service.containers import Pcm
from kestrel.service.errors import deadline_exceeded
from kestrel.service.script import Piece, fitted, silence
from kestrel.service.speaking import speak
from kestrel.service.speech import Speech, Totals
from kestrel.service.text import Pause


@dataclass(frozen=True, slots=True)
class Block:
    """Samples of piece number `piece`."""

    piece: int
    pcm: Pcm


@dataclass(frozen=True, slots=True)
class PieceEnd:
    """Piece number `piece`, which began `start` seconds into the audio, has been spoken; its blocks came before."""

    piece: int
    start: float
    result: Result


class Job:
    """Speaks one `Speech`. Run `run()` as a task, and read `events()` or `blocks()` beside it.

    `read_ahead`: seconds of unsent audio at which the next piece waits; None for a reply that is collected whole.
    """

    def __init__(
        self, engine: Engine, admission: Admission, speech: Speech, *, read_ahead: float | None, timeout: float
    ) -> None:
        self.totals = Totals()
        self.pieces: list[Piece] = []  # known before the first event
        self.plan_seconds = 0.0
        self.queue_seconds = 0.0
        self.cancel_seconds: float | None = None
        self._engine = engine
        self.sample_rate = engine.info.sample_rate
        self._admission = admission
        self._speech = speech
        self._timeout = timeout
        self._read_ahead = None if read_ahead is None else int(read_ahead * self.sample_rate)
        self._events: deque[Block | PieceEnd] = deque()
        self._unsent = 0  # samples in _events
        self._produced = 0  # samples over all pieces
        self._held: list[Pcm] = []  # silence that waits for the piece after it
        self._news = asyncio.Event()  # something for events()
        self._space = asyncio.Event()  # something for _room()
        self._ended = False
        self._error: Exception | None = None

    async def run(self) -> None:
        """Plans, waits for a place, speaks. Failures end `events()`; cancelling this task frees the engine's slot."""
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                await self._run()
        except Exception as error:
            self._error = deadline_exceeded(self._timeout) if deadline.expired() else error
        finally:
            self._ended = True
            self._news.set()

    async def blocks(self) -> AsyncIterator[Pcm]:
        """The samples of `events()` alone."""
        async for event in self.events():
            if isinstance(event, Block):
                yield event.pcm

    async def events(self) -> AsyncIterator[Block | PieceEnd]:
        """Blocks of samples and ends of pieces in order, as they come; then the failure, if there was one."""
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, Block):
                    self._unsent -= len(event.pcm)
                    self._space.set()
                yield event
            if self._ended:
                break
            self._news.clear()
            await self._news.wait()
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        started = monotonic()
        script = await asyncio.to_thread(self._script)
        self.pieces = [item for item in script if isinstance(item, Piece)]
        planned = monotonic()
        self.plan_seconds = planned - started
        expected = expected_audio_seconds(sum(len(piece.text) for piece in self.pieces), self._speech.max_seconds)
        async with self._admission.place(expected, self._timeout) as ticket:
            self.queue_seconds = monotonic() - planned
            for item in script:
                if self._speech.exhausted(self.totals.audio_seconds):
                    self.totals = self.totals.cut_short()
                    break
                if isinstance(item, Pause):
                    self._pause(item)
                    continue
                await self._room(ticket)
                index, start = self.totals.pieces, self.totals.audio_seconds
                result = await self._speak(self._speech.utterance(item.text, index, start), index, ticket)
                self.totals = self.totals.add(result)
                self._events.append(PieceEnd(index, start, result))
                self._news.set()
            self._release(self.totals.pieces - 1, ticket)

    def _script(self) -> list[Piece | Pause]:
        """All of the text is looked at before any of it is spoken: a reply that has begun can no longer be refused."""
        return fitted(self._speech.script(), self._engine.check)

    def _pause(self, pause: Pause) -> None:
        """Holds silence back until the next piece has sound: a failure before that must still become a status."""
        seconds = min(pause.seconds, self._speech.max_seconds - self.totals.audio_seconds)
        blocks = list(silence(seconds, self.sample_rate))
        self._held += blocks
        self.totals = self.totals.silent(sum(map(len, blocks)) / self.sample_rate)

    def _release(self, index: int, ticket: Ticket, *more: Pcm) -> None:
        """Hands the silence that is due, then `more`, to the sender, as of piece number `index`."""
        for pcm in (*self._held, *more):
            self._events.append(Block(index, pcm))
            self._unsent += len(pcm)
            self._produced += len(pcm)
        self._held.clear()
        ticket.produced_seconds = self._produced / self.sample_rate
        self._news.set()

    async def _room(self, ticket: Ticket) -> None:
        """Back-pressure: returns once the client is close enough behind, with a place."""
        if self._read_ahead is None or self._unsent <= self._read_ahead:
            return
        self._admission.park(ticket)
        while self._unsent > self._read_ahead:
            self._space.clear()
            await self._space.wait()
        behind = monotonic()
        await self._admission.resume(ticket)
        self.queue_seconds += monotonic() - behind

    async def _speak(self, utterance: Utterance, index: int, ticket: Ticket) -> Result:
        def heard(pcm: Pcm) -> None:
            self._release(index, ticket, pcm)

        def left(seconds: float, result: Result | None) -> None:
            self.cancel_seconds = seconds
            if result is not None:
                self.totals = self.totals.add(result)

        return await speak(self._engine, utterance, heard, left)
