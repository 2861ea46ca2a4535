"""What surrounds every request: its id, its size limit, its log line and counters, and a last answer for any failure.

Plain ASGI, not Starlette's BaseHTTPMiddleware, which would stand between the response and the disconnect message.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from time import monotonic
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kestrel.service.errors import ApiError, body_too_large, no_such_path, to_api_error
from kestrel.service.logs import log_request
from kestrel.service.metrics import Metrics
from kestrel.service.record import RequestRecord
from kestrel.service.refusal import refuse

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BEGINNINGS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
_BODY_TIMEOUT = 30.0
_DRAIN_BYTES = 64 << 20
"""A refused body is read and dropped up to this size: many clients read the answer only after sending everything."""


def request_id(offered: str | None) -> str:
    """The client's own id if it has a harmless shape, else a new one."""
    if offered is not None and _REQUEST_ID.fullmatch(offered):
        return offered
    return secrets.token_hex(12)


class RequestContext:
    """Outermost layer: identifies, times, counts and logs; turns a failure that nobody handled into an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        method = scope.get("method", "GET")  # a WebSocket begins with a GET
        record = RequestRecord(request_id(Headers(scope=scope).get("x-request-id")), method)
        scope.setdefault("state", {})["record"] = record

        async def send_with_id(message: Message) -> None:
            if message["type"] == "websocket.close" and record.status == 0:  # no route took it
                await refuse(no_such_path(), scope, receive, send_with_id)
                return
            if message["type"] in _BEGINNINGS:
                record.status = message.get("status", 101)
                MutableHeaders(raw=message.setdefault("headers", []))["x-request-id"] = record.request_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception as error:
            failure = to_api_error(error)
            record.error_code = failure.code
            if scope["type"] == "websocket":
                await _close(record, failure, scope, receive, send_with_id)
            elif record.status == 0:
                await failure.response()(scope, receive, send_with_id)
            # Otherwise the body stays without its end, and the server closes the connection.
        finally:
            record.seconds = monotonic() - record.started
            record.endpoint = endpoint(scope)
            if record.status != 101:  # the utterances of a WebSocket count, not how long it was open
                self.metrics.ended(record)
            log_request(record)


async def _close(record: RequestRecord, failure: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """The failure of a WebSocket: an HTTP answer while it is not accepted, else a close frame."""
    try:
        if record.status == 0:
            await refuse(failure, scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1011})
    except (OSError, RuntimeError):
        pass  # the connection is gone, or was closed before


def endpoint(scope: Scope) -> str:
    """Path template of the matched route, or `other`: a label from a fixed set, whatever clients send."""
    route: Any = scope.get("route")
    return getattr(route, "path", "other") if route is not None else "other"


class BodyLimit:
    """Reads the whole body within the size limit before anything parses it; 413 beyond, 408 when it does not come."""

    def __init__(self, app: ASGIApp, limit: int, larger: Mapping[str, int] | None = None) -> None:
        """`larger`: limits of the paths that have their own."""
        self.app = app
        self.limit = limit
        self.larger = dict(larger or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.larger.get(scope["path"], self.limit)
        try:
            async with asyncio.timeout(_BODY_TIMEOUT):
                body = await self._read(Headers(scope=scope), receive, limit)
        except TimeoutError:
            headers = {"Connection": "close"}
            slow = ApiError(
                408, f"the body did not come within {_BODY_TIMEOUT:g} s", code="body_timeout", headers=headers
            )
            await slow.response()(scope, receive, send)
            return
        if body is None:
            refusal = body_too_large(limit)
            refusal.headers["Connection"] = "close"
            await refusal.response()(scope, receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive, limit: int) -> bytes | None:
        """The body, or None if it is too large. An early disconnect gives what came; the parser then refuses it."""
        announced = headers.get("content-length", "0")
        too_large = int(announced) > limit if announced.isdigit() else False
        if too_large and (headers.get("expect", "").lower() == "100-continue" or int(announced) > _DRAIN_BYTES):
            return None  # the client waits for our word before it sends, or has more to send than we would read
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                break
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                too_large = True
                chunks.clear()
            if not too_large:
                chunks.append(chunk)
            if not message.get("more_body", False) or size > _DRAIN_BYTES:
                break
        return None if too_large else b"".join(chunks)
