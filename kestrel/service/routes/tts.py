"""POST /v1/tts: text in, audio out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from starlette.responses import Response

from kestrel.service.errors import ApiError
from kestrel.service.framing import BareAudio, Envelope, Framing, TimedEvents
from kestrel.service.intake import speech_of
from kestrel.service.job import Job
from kestrel.service.output import AudioOutput
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
    # An HTTP/1.0 body ends when the connection does, so broken audio would look complete; events tell their end.
    stream = body.delivery == "sse" or (body.delivery == "audio" and request.scope["http_version"] != "1.0")
    rate = request.app.state.runtime.speaking_engine().info.sample_rate
    output = AudioOutput(body.format, rate, whole=not stream, speed=body.speed)
    framing = TimedEvents(output) if body.delivery == "sse" else Envelope(output) if body.timings else BareAudio(output)
    return speech_response(request, body, output, framing)


def speech_response(
    request: Request,
    body: SpeechRequest,
    output: AudioOutput,
    framing: Framing,
    headers: Mapping[str, str] | None = None,
) -> SpeechResponse:
    """The reply to a speech request of any interface. Raises ApiError for what this model or these limits refuse."""
    runtime: Runtime = request.app.state.runtime
    engine, settings = runtime.speaking_engine(), runtime.settings
    speech = speech_of(body, engine.info, settings)
    job = Job(
        engine,
        runtime.admission,
        speech,
        read_ahead=None if output.whole else settings.read_ahead_seconds,
        timeout=body.deadline_seconds or settings.request_timeout,
    )
    record: RequestRecord = request.state.record
    record.speech = SpeechRecord(
        engine.info.name, speech.voice, body.format, not output.whole, len(body.text), speech.seed
    )
    if settings.log_text:
        record.speech.text = body.text
    return SpeechResponse(job, output, framing, record, runtime, text=body.text, headers=headers)
