"""A client of `/v1/tts/stream` that checks what every event must have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.service.server_process import PATIENCE

PATH = "/v1/tts/stream"


class LiveClient:
    """Sends messages, takes events in order; `pcm` collects the audio of each utterance."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.pcm: dict[int, bytes] = {}

    def send(self, kind: str, **fields: Any) -> None:
        self.connection.send(json.dumps({"type": kind, **fields}))

    def next(self) -> dict[str, Any]:
        """The next event. Its number must follow the one before, and its audio must have the length that it tells."""
        event: dict[str, Any] = json.loads(self.connection.recv(PATIENCE))
        assert event["index"] == len(self.events), (event, self.events[-1:])
        self.events.append(event)
        if event["type"] == "audio":
            if "audio" in event:
                data = base64.b64decode(event["audio"], validate=True)
            else:
                frame = self.connection.recv(PATIENCE)
                assert isinstance(frame, bytes)
                data = frame
            assert len(data) == 2 * event["samples"] > 0
            said = self.pcm.get(event["utterance"], b"")
            assert abs(event["start_seconds"] - len(said) / 32000) < 1e-4
            self.pcm[event["utterance"]] = said + data
        return event

    def until(self, kind: str) -> dict[str, Any]:
        """Takes events up to the next of this type."""
        while True:
            event = self.next()
            if event["type"] == kind:
                return event

    def rest(self) -> int:
        """Takes everything until the server closes; the code it closed with."""
        with suppress(ConnectionClosed):
            while True:
                self.next()
        code = self.connection.close_code
        assert code is not None
        return code

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


@contextmanager
def live(url: str, **options: Any) -> Iterator[LiveClient]:
    """A session on the server at `url`; `ready` has been received."""
    address = url.replace("http://", "ws://") + PATH
    with connect(address, compression=None, max_size=None, proxy=None, **options) as connection:
        client = LiveClient(connection)
        assert client.next()["type"] == "ready"
        yield client
