"""A session's place in the engine: held while it speaks, given away while it waits for text or for its client."""

from __future__ import annotations

from contextlib import AsyncExitStack
from time import monotonic
from types import TracebackType
from typing import Self

from kestrel.service.admission import Admission, Ticket


class Place:
    """Async context manager around one utterance. The first `take` queues like any request; later ones go ahead."""

    def __init__(self, admission: Admission, within: float) -> None:
        """`within`: seconds that one `take` may wait."""
        self.waited_seconds = 0.0
        self._admission = admission
        self._within = within
        self._stack = AsyncExitStack()
        self._ticket: Ticket | None = None
        self._parked = False

    async def take(self, expected_seconds: float) -> Ticket:
        """Waits for the place, for so much audio. Raises Refused at the first time."""
        started = monotonic()
        if self._ticket is None:
            self._ticket = await self._stack.enter_async_context(self._admission.place(expected_seconds, self._within))
        elif self._parked:
            self._parked = False
            await self._admission.resume(self._ticket)
        self._ticket.expected_seconds = self._ticket.produced_seconds + expected_seconds
        self.waited_seconds += monotonic() - started
        return self._ticket

    async def rest(self, expected_seconds: float) -> None:
        """Gives the place away until the next `take`, for so much audio; for good when too many rest already."""
        if self._ticket is None or self._parked:
            return
        self._ticket.expected_seconds = self._ticket.produced_seconds + expected_seconds
        self._parked = self._admission.park(self._ticket)
        if not self._parked:
            await self._stack.aclose()
            self._ticket = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
