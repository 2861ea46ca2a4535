"""Refusals from middleware: the same answers as the routes give, also to a WebSocket that is not yet accepted."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from kestrel.service.errors import ApiError


async def refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with `error` instead of passing the request on; leaves its code for the log and the counters."""
    record = scope.get("state", {}).get("record")
    if record is not None:
        record.error_code = error.code
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(error.response())
    else:
        await error.response()(scope, receive, send)
