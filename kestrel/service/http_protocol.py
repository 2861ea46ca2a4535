"""HTTP/1.1 under uvicorn with bounds before anything is parsed: size of the head, and time until it is complete."""

from __future__ import annotations

import asyncio
import sys

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from kestrel.service.errors import ApiError


class HttpProtocol(H11Protocol):
    """uvicorn's own answers to a broken head are plain text, always 400, and it waits for a head without end."""

    head_timeout = 30.0

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn while it handles h11's complaint, which knows the fitting status."""
        complaint = sys.exc_info()[1]
        status = getattr(complaint, "error_status_hint", 400)
        if status == 431:
            limit = self.config.h11_max_incomplete_event_size
            self._refuse(ApiError(431, f"the request line and headers exceed {limit} bytes", code="headers_too_large"))
        else:
            self._refuse(ApiError(status, "this is not a valid HTTP/1.1 request", code="invalid_http"))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The WebSocket library reads the head again, with narrower bounds; what it refuses would hang unanswered."""
        super().handle_websocket_upgrade(event)
        if not getattr(self.transport.get_protocol(), "handshake_initiated", True):
            told = "a WebSocket begins with a GET without a body, at most 128 headers, and 8,000 bytes in each"
            self._refuse(ApiError(400, told, code="invalid_handshake"))

    def _watch_head(self) -> None:
        """Lets a timer run exactly while the head of a request is awaited or incomplete."""
        waiting = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
        if not waiting or self.transport.is_closing():
            self._unwatch()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout, self._head_too_late)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_too_late(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE and not self.transport.is_closing():
            told = f"the request line and headers did not come within {self.head_timeout:g} s"
            self._refuse(ApiError(408, told, code="headers_timeout"))

    def _refuse(self, error: ApiError) -> None:
        body = bytes(error.response().body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        try:
            response = h11.Response(status_code=error.status, headers=headers, reason=STATUS_PHRASES[error.status])
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # in the middle of an answer: closing is all that can be said
        self.transport.close()
