"""Body of OpenAI's speech request: https://platform.openai.com/docs/api-reference/audio/createSpeech."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from kestrel.service.formats import FormatName
from kestrel.service.normalization import Normalize
from kestrel.service.schema import MAX_SEED, Name, RequestBody, Speed, Text

SAMPLE_RATE = 24_000
"""Of every reply. OpenAI's clients play `pcm` at this rate without asking."""

MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
)  # fmt: skip
"""Names that OpenAI's clients have built in. Here they mean the loaded model and its first voice."""


def _voice(value: Any) -> Any:
    """`{"id": name}` as `name`."""
    if not isinstance(value, dict):
        return value
    if set(value) != {"id"} or not isinstance(value["id"], str):
        raise PydanticCustomError("voice", "must be the name of a voice, or an object that holds it as `id` alone")
    return value["id"]


_VOICE_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 64},
        {
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 64}},
            "required": ["id"],
            "additionalProperties": False,
        },
    ]
}


class OpenAiSpeechRequest(RequestBody):
    """Body of POST /v1/audio/speech. `seed`, `language`, `max_seconds` and `normalize` are Kestrel's own."""

    model: Name = Field(
        description=f"A model of GET /v1/models, or {', '.join(f'`{name}`' for name in MODELS)} for the loaded one.",
        examples=["tts-1"],
    )
    input: Text = Field(
        description="What to say, up to 4096 characters. Needs at least one letter or digit.",
        examples=["The quick brown fox jumps over the lazy dog."],
        min_length=1,
        max_length=4096,
    )
    voice: Annotated[Name, BeforeValidator(_voice), WithJsonSchema(_VOICE_SCHEMA)] = Field(
        description='A voice of GET /v1/voices, as a string or `{"id": …}`. OpenAI\'s own names are taken and mean the '
        "first voice; `X-Voice` of the reply tells which one spoke.",
        examples=["alloy", {"id": "default"}],
    )
    instructions: Annotated[Text, Field(max_length=4096)] | None = Field(
        default=None,
        description="How to say it. No model here can use it yet: the reply says so with `X-Unused-Parameters`.",
        examples=["Speak cheerfully."],
    )
    response_format: FormatName = Field(default="mp3", description="Format of the audio, always at 24 kHz, mono.")
    speed: Speed = Field(default=1.0, description="0.25 to 4, with the pitch kept.", examples=[1.25])
    stream_format: Literal["audio", "sse"] = Field(
        default="audio",
        description="Both are sent while the rest is still being made. `audio`: the bytes. `sse`: events "
        "`speech.audio.delta` with base64, then `speech.audio.done`; its usage counts characters in, codec frames out.",
    )
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="As in POST /v1/tts.", examples=[7])
    language: Name | None = Field(default=None, description="As in POST /v1/tts.", examples=["en"])
    max_seconds: float | None = Field(default=None, gt=0, description="As in POST /v1/tts.", examples=[30])
    normalize: Normalize = Field(default=True, description="As in POST /v1/tts.", examples=[True])


OPENAI_EXAMPLES: dict[str, Any] = {
    "shortest": {"summary": "MP3", "value": {"model": "tts-1", "voice": "alloy", "input": "Hello from Kestrel."}},
    "pcm": {
        "summary": "Samples for a player, twice as fast",
        "value": {"model": "tts-1", "voice": "alloy", "input": "Fast.", "response_format": "pcm", "speed": 2},
    },
    "events": {
        "summary": "Server-sent events",
        "value": {"model": "tts-1", "voice": {"id": "default"}, "input": "In events.", "stream_format": "sse"},
    },
}
