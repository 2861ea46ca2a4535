"""One ordered stream of events to a client, numbered as they leave, with a bound on what waits."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from kestrel.service.containers import Pcm
from kestrel.service.live.protocol import Event

MAX_REPLIES = 256
"""With so many waiting, no more messages are read: a client that writes and never reads must not fill the memory."""


class Socket(Protocol):
    """The sending half of a WebSocket."""

    async def send_text(self, data: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None: ...


@dataclass(eq=False, slots=True)
class _Item:
    event: Event | Callable[[], Event]
    owner: object
    pcm: Pcm | None = None
    sent: Callable[[], None] | None = None


class Outbox:
    """`put` from the event loop; `run` sends. Numbers are given when an event leaves, so dropped ones leave no gap."""

    def __init__(self) -> None:
        self.unsent_samples = 0
        self.unsent_replies = 0  # events without audio
        self.changed = asyncio.Event()  # set whenever something was sent or dropped
        self._items: deque[_Item] = deque()
        self._news = asyncio.Event()
        self._index = 0
        self._closed = False

    def put(
        self,
        event: Event | Callable[[], Event],
        owner: object = None,
        *,
        pcm: Pcm | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Adds an event, or what makes it when its turn comes, and its audio. `sent` is called when it has left."""
        self._items.append(_Item(event, owner, pcm, sent))
        self._count(self._items[-1], 1)
        self._news.set()

    def drop(self, owners: Iterable[object]) -> None:
        """Takes back what belongs to `owners` and has not left."""
        gone = set(map(id, owners))
        kept = [item for item in self._items if id(item.owner) not in gone]
        for item in self._items:
            if id(item.owner) in gone:
                self._count(item, -1)
        self._items = deque(kept)
        self.changed.set()

    @property
    def empty(self) -> bool:
        return not self.unsent_replies and not self.unsent_samples

    def finish(self) -> None:
        """`run` returns when everything has left."""
        self._closed = True
        self._news.set()

    async def room(self, free: Callable[[], bool]) -> None:
        """Returns once `free` holds; looks again after everything that is sent or dropped."""
        while not free():
            self.changed.clear()
            await self.changed.wait()

    async def run(self, socket: Socket, patience: float) -> None:
        """Sends in order until `finish`. Raises TimeoutError when an event does not leave within `patience` seconds."""
        while True:
            while self._items:
                item = self._items.popleft()
                async with asyncio.timeout(patience):
                    await self._send(socket, item)
                self._count(item, -1)
                if item.sent is not None:
                    item.sent()
                self.changed.set()
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    def _count(self, item: _Item, sign: int) -> None:
        """An event stays counted while it is being sent."""
        if item.pcm is None:
            self.unsent_replies += sign
        else:
            self.unsent_samples += sign * len(item.pcm)

    async def _send(self, socket: Socket, item: _Item) -> None:
        event = {"index": self._index, **(item.event() if callable(item.event) else item.event)}
        self._index += 1
        data = None if item.pcm is None else item.pcm.astype("<i2", copy=False).tobytes()
        if data is not None and "audio" in event:
            event["audio"] = base64.b64encode(data).decode()
            data = None
        # ASCII escapes: a message may quote a lone surrogate of the client, which UTF-8 cannot encode.
        await socket.send_text(json.dumps(event, ensure_ascii=True, separators=(",", ":")))
        if data is not None:
            await socket.send_bytes(data)
