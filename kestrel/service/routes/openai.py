"""POST /v1/audio/speech: OpenAI's speech API, for clients that know it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from starlette.responses import Response

from kestrel.engine import ModelInfo
from kestrel.service.errors import model_not_found
from kestrel.service.framing import BareAudio, OpenAiEvents
from kestrel.service.openai_schema import MODELS, OPENAI_EXAMPLES, SAMPLE_RATE, VOICES, OpenAiSpeechRequest
from kestrel.service.output import AudioOutput
from kestrel.service.response import SpeechResponse
from kestrel.service.routes.documented import OPENAI_ERRORS, OPENAI_SUCCESS
from kestrel.service.routes.tts import require_json, speech_response
from kestrel.service.runtime import Runtime
from kestrel.service.schema import SpeechRequest

router = APIRouter(tags=["speech"])

_NAMES = {"text": "input", "format": "response_format"}


@router.post(
    "/v1/audio/speech",
    summary="Speak a text, as OpenAI's API does",
    response_class=Response,
    dependencies=[Depends(require_json)],
    responses={200: OPENAI_SUCCESS, **OPENAI_ERRORS},
)
async def create_speech(
    request: Request, body: Annotated[OpenAiSpeechRequest, Body(openapi_examples=OPENAI_EXAMPLES)]
) -> SpeechResponse:
    """Speaks `input`. Point a client of OpenAI's at `/v1` of this server; its key can be anything."""
    request.state.param_names = _NAMES
    runtime: Runtime = request.app.state.runtime
    info = runtime.speaking_engine().info
    if body.model not in (info.name, "default", *MODELS):
        raise model_not_found(body.model, info.name)
    # An HTTP/1.0 body ends when the connection does, so broken audio would look complete; events tell their end.
    whole = body.stream_format == "audio" and request.scope["http_version"] == "1.0"
    output = AudioOutput(body.response_format, info.sample_rate, whole=whole, speed=body.speed, rate=SAMPLE_RATE)
    framing = OpenAiEvents() if body.stream_format == "sse" else BareAudio(output)
    unused = {"X-Unused-Parameters": "instructions"} if body.instructions else {}
    return speech_response(request, _as_kestrels(body, info), output, framing, unused)


def _as_kestrels(body: OpenAiSpeechRequest, info: ModelInfo) -> SpeechRequest:
    """The same request in the words of /v1/tts."""
    return SpeechRequest(
        text=body.input,
        voice=info.voices[0] if body.voice in VOICES and body.voice not in info.voices else body.voice,
        language=body.language,
        seed=body.seed,
        max_seconds=body.max_seconds,
        normalize=body.normalize,
        speed=body.speed,
        format=body.response_format,
    )
