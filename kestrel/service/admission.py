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


class Refused(Exception):
    """No place, now or in time; `retry_after` is in whole seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(f"{message}; try again in {retry_after} s")
        self.retry_after = retry_after


class QueueFull(Refused):
    """No place to wait."""


class DeadlineUnreachable(Refused):
    """There is a place to wait, but the deadline would pass there."""


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
    """First come, first served. `slots` jobs run, `queue_size` wait, all together for at most `max_audio_seconds`.

    A job that finds nothing before it is never too long.
    """

    def __init__(self, slots: int, queue_size: int, rtf: float = 1.0, *, max_audio_seconds: float = math.inf) -> None:
        self.slots = slots
        self.max_audio_seconds = max_audio_seconds
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

    @property
    def audio_seconds(self) -> float:
        """Audio that was promised and is not yet made, of jobs that rest as well; of requests alone."""
        background = sum(ticket.remaining_seconds for ticket in self._running if ticket.background)
        return sum(ticket.remaining_seconds for ticket in self._parked) + sum(self._ahead()) - background

    def _ahead(self) -> list[float]:
        ahead = [ticket.remaining_seconds for ticket in self._running]
        return ahead + [waiter.ticket.remaining_seconds for waiter in (*self._resuming, *self._waiting)]

    def retry_after(self) -> int:
        """Seconds after which a refused client should come back."""
        return retry_after(self._ahead(), self.rtf, self.slots)

    def _check(self, expected_seconds: float, within: float) -> None:
        """Raises Refused for a job that cannot be taken, now that all slots or all audio seconds are taken."""
        held = sum(ticket.background for ticket in self._running)
        if len(self._running) >= self.slots and len(self._waiting) >= self.queue_size + held:
            raise QueueFull(f"all places are taken and {len(self._waiting)} requests wait", self.retry_after())
        promised = self.audio_seconds
        excess = promised + expected_seconds - self.max_audio_seconds
        if promised > 0 and excess > 0:
            told = f"{promised:.0f} s of audio are being made or wait, and {self.max_audio_seconds:g} s are the limit"
            raise QueueFull(told, retry_after([excess], self.rtf, self.slots))
        wait = wait_seconds(self._ahead(), self.rtf, self.slots)
        if len(self._running) >= self.slots and wait > within:
            told = f"speech would begin in about {wait:.0f} s, after the deadline of {within:g} s"
            raise DeadlineUnreachable(told, max(1, math.ceil(wait - within)))

    def measured(self, rtf: float) -> None:
        """Takes the real-time factor of a finished request into account."""
        self.rtf = blend_rtf(self.rtf, rtf)

    @asynccontextmanager
    async def place(self, expected_seconds: float, within: float = math.inf) -> AsyncIterator[Ticket]:
        """Waits for a running place and holds it for the body. Raises Refused without waiting.

        `within`: seconds after which the caller will not wait any more, so that it need not begin.
        A caller cancelled while it waits leaves the queue at once.
        """
        ticket = Ticket(expected_seconds)
        self._check(expected_seconds, within)
        if len(self._running) < self.slots:
            self._running.add(ticket)
        else:
            await self._wait(ticket, self._waiting)
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

    def park(self, ticket: Ticket) -> bool:
        """Gives a running place away while its job waits for the client. False: too many are parked; it is kept."""
        if len(self._parked) >= PARKED_PER_SLOT * self.slots:
            return False
        self._parked.add(ticket)
        self._leave(ticket)
        return True

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
