"""POST /v1/tts: text in, audio out."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from starlette.responses import Response

from kestrel.engine import ModelInfo, Sampling
from kestrel.service.containers import container
from kestrel.service.errors import ApiError
from kestrel.service.job import Job
from kestrel.service.record import RequestRecord, SpeechRecord
from kestrel.service.response import SpeechResponse
from kestrel.service.routes.documented import SPEECH_ERRORS, SPEECH_SUCCESS
from kestrel.service.runtime import Runtime
from kestrel.service.schema import SPEECH_EXAMPLES, SpeechRequest
from kestrel.service.settings import Settings
from kestrel.service.speech import Speech

router = APIRouter(tags=["speech"])

_RANDOM_SEEDS = 2**32




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


def speech_of(body: SpeechRequest, info: ModelInfo, settings: Settings) -> Speech:
    """The request as what to say, checked against the model and the limits. Raises ApiError 400."""
    if len(body.text) > settings.max_text_chars:
        message = f"the text has {len(body.text)} characters; the limit is {settings.max_text_chars}"
        raise ApiError(400, message, code="text_too_long", param="text")
    if body.voice not in info.voices:
        message = f"unknown voice {body.voice!r}; valid: {', '.join(info.voices)}"
        raise ApiError(400, message, code="unknown_voice", param="voice")
    if body.max_seconds is not None and body.max_seconds > settings.max_seconds:
        message = f"max_seconds is {body.max_seconds:g}; the limit is {settings.max_seconds:g}"
        raise ApiError(400, message, code="max_seconds_too_large", param="max_seconds")
    return Speech(
        text=body.text,
        voice=body.voice,
        language=language_of(body.language, info.languages),
        seed=secrets.randbelow(_RANDOM_SEEDS) if body.seed is None else body.seed,
        sampling=Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k),
        max_seconds=settings.max_seconds if body.max_seconds is None else body.max_seconds,
        first_chunk_frames=settings.first_chunk_frames,
        max_chunk_frames=settings.max_chunk_frames,
        piece_chars=settings.piece_chars,
        piece_min_chars=settings.piece_min_chars,
    )


def language_of(wanted: str | None, languages: tuple[str, ...]) -> str | None:
    """The model's spelling of a BCP 47 code, which is not case-sensitive (RFC 5646, 2.1.1). Raises ApiError 400."""
    if wanted is None:
        return None
    for language in languages:
        if language.lower() == wanted.lower():
            return language
    message = f"unknown language {wanted!r}; valid: {', '.join(languages)}"
    raise ApiError(400, message, code="unknown_language", param="language")
