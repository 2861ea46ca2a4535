"""Bounded admission in front of the engine: so many jobs run, so many wait, the rest are refused at once.

Running is bounded by the engine's slots and waiting by the queue size, because an unbounded queue turns overload into
seconds of silence for everyone. A job whose client is slower than speech is made gives its place away meanwhile
(`park`), and gets the next free one when the client has caught up (`resume`), before anyone who has heard nothing yet:
otherwise a few listeners in real time would hold all slots of an idle engine.

Work in the background (the sentences of a job, which nobody listens to yet) runs only while no request waits, and its
places do not count against the requests' bounds: a server busy with a book alone turns nobody away.

The estimates are pure functions; `Admission` is the loop-side bookkeeping around them. Not thread-safe: every call
belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CHARACTERS_PER_SECOND = 15.0
"""Rough speed of read speech, used only to estimate queued work before it is spoken."""

MAX_RETRY_AFTER = 600
PARKED_PER_SLOT = 16
"""Bound on the jobs that wait for their client, each with some seconds of audio in memory."""

_RTF_BLEND = 0.2


class QueueFull(Exception):
    """No place to wait; `retry_after` is in whole seconds."""

    def __init__(self, waiting: int, retry_after: int) -> None:
        super().__init__(f"all places are taken and {waiting} requests wait; try again in {retry_after} s")
        self.retry_after = retry_after


def expected_audio_seconds(characters: int, max_seconds: float) -> float:
    """Audio seconds that a text of so many characters is expected to give."""
    return min(characters / CHARACTERS_PER_SECOND, max_seconds)


def wait_seconds(audio_seconds: Iterable[float], rtf: float, slots: int) -> float:
    """Wall seconds until the given amounts of queued audio are spoken by `slots` lanes, each at `rtf`.

    `rtf` is the measured wall seconds per audio second of one request among others, so lanes do not slow it further.
    """
    return sum(audio_seconds) * rtf / slots


def retry_after(audio_seconds: Iterable[float], rtf: float, slots: int) -> int:
    """Whole seconds for a Retry-After header: when the work ahead will be done; 1 to 600."""
    return max(1, min(MAX_RETRY_AFTER, math.ceil(wait_seconds(audio_seconds, rtf, slots))))


def blend_rtf(current: float, measured: float) -> float:
    """Moving average of the real-time factor; one odd request does not swing Retry-After."""
    return current + _RTF_BLEND * (measured - current)


@dataclass(eq=False, slots=True)
class Ticket:
    """One job's place: how much audio it is expected to give and has given."""

    expected_seconds: float
    produced_seconds: float = 0.0
    background: bool = False

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self.expected_seconds - self.produced_seconds)


@dataclass(eq=False, slots=True)
class _Waiter:
    ticket: Ticket
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Admission:
    """First come, first served. `slots` jobs run, `queue_size` wait."""

    def __init__(self, slots: int, queue_size: int, rtf: float = 1.0) -> None:
        self.slots = slots
        self.queue_size = queue_size
        self.rtf = rtf
        self._running: set[Ticket] = set()
        self._waiting: deque[_Waiter] = deque()
        self._resuming: deque[_Waiter] = deque()
        self._background: deque[_Waiter] = deque()
        self._parked: set[Ticket] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def retry_after(self) -> int:
        """Seconds after which a refused client should come back."""
        ahead = [ticket.remaining_seconds for ticket in self._running]
        ahead += [waiter.ticket.remaining_seconds for waiter in (*self._resuming, *self._waiting)]
        return retry_after(ahead, self.rtf, self.slots)

    def measured(self, rtf: float) -> None:
        """Takes the real-time factor of a finished request into account."""
        self.rtf = blend_rtf(self.rtf, rtf)

    @asynccontextmanager
    async def place(self, expected_seconds: float) -> AsyncIterator[Ticket]:
        """Waits for a running place and holds it for the body. Raises QueueFull without waiting.

        A caller cancelled while it waits leaves the queue at once.
        """
        ticket = Ticket(expected_seconds)
        if len(self._running) < self.slots:
            self._running.add(ticket)
        elif len(self._waiting) < self.queue_size + sum(running.background for running in self._running):
            await self._wait(ticket, self._waiting)
        else:
            raise QueueFull(len(self._waiting), self.retry_after())
        try:
            yield ticket
        finally:
            self._parked.discard(ticket)
            if ticket in self._running:
                self._leave(ticket)

    @asynccontextmanager
    async def background_place(self, expected_seconds: float) -> AsyncIterator[Ticket]:
        """Waits for a running place that no request wants and holds it for the body. Its callers bound themselves."""
        ticket = Ticket(expected_seconds, background=True)
        if len(self._running) < self.slots:
            self._running.add(ticket)
        else:
            await self._wait(ticket, self._background)
        try:
            yield ticket
        finally:
            self._leave(ticket)

    def park(self, ticket: Ticket) -> None:
        """Gives a running place away while its job waits for the client; keeps it when too many are parked already."""
        if len(self._parked) < PARKED_PER_SLOT * self.slots:
            self._parked.add(ticket)
            self._leave(ticket)

    async def resume(self, ticket: Ticket) -> None:
        """Waits for a running place again, ahead of the queue. No effect on a job that kept its place."""
        if ticket not in self._parked:
            return
        self._parked.remove(ticket)
        if len(self._running) < self.slots:
            self._running.add(ticket)
        else:
            await self._wait(ticket, self._resuming)

    async def _wait(self, ticket: Ticket, queue: deque[_Waiter]) -> None:
        waiter = _Waiter(ticket)
        queue.append(waiter)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if ticket in self._running:  # granted and cancelled in the same turn of the loop: pass the place on
                self._leave(ticket)
            else:
                queue.remove(waiter)
            raise

    def _leave(self, ticket: Ticket) -> None:
        self._running.remove(ticket)
        queue = self._resuming or self._waiting or self._background
        if queue:
            # The place moves to the first waiter now, not when its task wakes, so that nobody overtakes it.
            waiter = queue.popleft()
            self._running.add(waiter.ticket)
            waiter.granted.set_result(None)
