"""WS /v1/tts/stream: text in pieces, audio out. Described in docs/websocket.md."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.websockets import WebSocket

from kestrel.service.errors import ApiError
from kestrel.service.live.session import Session
from kestrel.service.record import RequestRecord
from kestrel.service.runtime import Runtime

router = APIRouter(tags=["speech"])


@router.websocket("/v1/tts/stream")
async def stream(socket: WebSocket) -> None:
    """A failure before the connection is accepted is an HTTP answer with the usual body."""
    runtime: Runtime = socket.app.state.runtime
    record: RequestRecord = socket.scope["state"]["record"]
    try:
        engine = runtime.speaking_engine()
    except ApiError as error:
        record.error_code = error.code
        await socket.send_denial_response(error.response())
        return
    await socket.accept()
    with runtime.metrics.sessions.track_inprogress():
        await Session(socket, record.request_id, runtime, engine, socket.scope["state"]["take"]).run()
