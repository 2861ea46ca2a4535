"""POST /v1/tts: text in, audio out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from starlette.responses import Response

from kestrel.service.containers import container
from kestrel.service.errors import ApiError
from kestrel.service.intake import speech_of
from kestrel.service.job import Job
from kestrel.service.record import RequestRecord, SpeechRecord
from kestrel.service.response import SpeechResponse
from kestrel.service.routes.documented import SPEECH_ERRORS, SPEECH_SUCCESS
from kestrel.service.runtime import Runtime
from kestrel.service.schema import SPEECH_EXAMPLES, SpeechRequest

router = APIRouter(tags=["speech"])


def require_json(request: Request) -> None:
    """415 for any other type. A web page of another origin can send text/plain unasked, but not application/json."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = "send the body as Content-Type: application/json"
        raise ApiError(415, message, code="unsupported_media_type")


@router.post(
    "/v1/tts",
    summary="Speak a text",
    response_class=Response,
    dependencies=[Depends(require_json)],
    responses={200: SPEECH_SUCCESS, **SPEECH_ERRORS},
)
async def speak(
    request: Request, body: Annotated[SpeechRequest, Body(openapi_examples=SPEECH_EXAMPLES)]
) -> SpeechResponse:
    """Speaks `text` with `voice`. The same seed, text and options give the same samples, streamed or not."""
    runtime: Runtime = request.app.state.runtime
    engine = runtime.speaking_engine()
    info, settings = engine.info, runtime.settings
    speech = speech_of(body, info, settings)
    # An HTTP/1.0 body ends when the connection does, so a broken stream would look complete.
    stream = body.stream and request.scope["http_version"] != "1.0"
    job = Job(
        engine,
        runtime.admission,
        speech,
        read_ahead=settings.read_ahead_seconds if stream else None,
        timeout=settings.request_timeout,
    )
    record: RequestRecord = request.state.record
    record.speech = SpeechRecord(info.name, speech.voice, body.format, stream, len(body.text), speech.seed)
    return SpeechResponse(job, container(body.format, info.sample_rate), record, runtime)
