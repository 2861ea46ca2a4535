"""Request and reply bodies of the HTTP interface, with the descriptions and examples of the OpenAPI page."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from kestrel.service.formats import FASTEST, SLOWEST, FormatName
from kestrel.service.normalization import Normalize

MAX_SEED = 2**53 - 1
"""Largest integer that every JSON client keeps exact."""


def _text(value: str) -> str:
    if "\x00" in value:
        raise PydanticCustomError("nul_byte", "must not hold NUL characters")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise PydanticCustomError("surrogate", "must be valid Unicode; it holds a lone surrogate")
    return value


Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_text)]


def _stream(value: Any) -> Any:
    # One message for the whole union, instead of one a member.
    if not isinstance(value, bool) and value not in ("audio", "sse"):
        raise PydanticCustomError("stream", "must be true, false, 'audio' or 'sse'")
    return value


Speed = Annotated[float, Field(ge=SLOWEST, le=FASTEST)]


class RequestBody(BaseModel):
    """Base of request bodies. Fields that are not listed are refused, never ignored."""

    # Inputs are hidden from error messages, which may end in the log: it never holds a text.
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise PydanticCustomError("not_an_object", "the body must be a JSON object")
        for name in data:
            if name not in cls.model_fields:
                # Escaped: pydantic cannot carry a lone surrogate in an error.
                shown = str(name)[:64].encode("ascii", "backslashreplace").decode()
                raise PydanticCustomError(
                    "unknown_field",
                    "unknown field '{param}'; valid fields: {valid}",
                    {"param": shown, "valid": ", ".join(cls.model_fields)},
                )
        return data


class SpeechRequest(RequestBody):
    """Body of POST /v1/tts. Fields that are not listed are refused, never ignored."""

    text: Text = Field(
        description="What to say. Needs at least one letter or digit. The longest valid text: `limits.max_text_chars` "
        "of GET /v1/models.",
        examples=["The quick brown fox jumps over the lazy dog."],
        min_length=1,
    )
    voice: Name = Field(default="default", description="A voice of GET /v1/voices.", examples=["default"])
    language: Name | None = Field(
        default=None,
        description="BCP 47 code, one of the voice's `languages`; null lets the model choose.",
        examples=["en"],
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MAX_SEED,
        description="The same seed, text and options give the same samples. Null draws one, told by X-Seed.",
        examples=[7],
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="Randomness of the draw, 0 = greedy. Null: the model's own value.",
        examples=[0.25],
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Nucleus of the draw. Null: the model's own value.", examples=[0.9]
    )
    top_k: int | None = Field(
        default=None,
        ge=0,
        le=65536,
        description="Draw from this many best, 0 = all. Null: the model's own.",
        examples=[30],
    )
    max_seconds: float | None = Field(
        default=None,
        ge=0.1,
        description="Stop after this much audio, up to `limits.max_seconds` of GET /v1/models. A text cut by it has "
        "finish reason `length`.",
        examples=[30],
    )
    speed: Speed = Field(
        default=1.0,
        description="0.25 to 4: how fast it is spoken. The pitch stays. The same `seed` gives the same speech, "
        "only slower or faster.",
        examples=[1.25],
    )
    deadline_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Give up if the audio is not complete so many seconds after the request; refused at once if the "
        "queue is longer than that. Null, and the most: `limits.deadline_seconds` of GET /v1/models.",
        examples=[30],
    )
    stream: Annotated[bool | Literal["audio", "sse"], BeforeValidator(_stream)] = Field(
        default=False,
        description="true or `audio`: chunked body, sent while the rest is still being made; a WAV then has the sizes "
        "0xFFFFFFFF. `sse`: server-sent events with audio in base64, its sentence, and times of sentences and words. "
        "false: one body with exact sizes and the figures of the request in headers.",
        examples=[True],
    )
    normalize: Normalize = Field(
        default=True,
        description="How the text is made ready: true reads numbers, dates, units, addresses, markdown and so on in "
        "words of the language; false leaves everything to the voice; an object switches single categories.",
        examples=[True, {"markdown": False, "emoji": "name"}],
    )
    format: FormatName = Field(
        default="wav",
        description="`wav` or `pcm`: 16-bit little-endian mono at the model's rate, `pcm` without a header. `flac`: "
        "the same samples, compressed. `mp3`, `aac` (ADTS), `opus` (in Ogg): lossy, at the codec's rate next above the "
        "model's if it does not have that.",
    )
    timings: bool = Field(
        default=False,
        description="true: the reply is a JSON object with the audio in base64, its sentences and words with their "
        "times, and the figures of the request.",
        examples=[True],
    )

    @property
    def delivery(self) -> Literal["whole", "audio", "sse"]:
        """How the reply comes."""
        if isinstance(self.stream, str):
            return self.stream
        return "audio" if self.stream else "whole"

    @model_validator(mode="after")
    def _timings_of_a_whole_reply(self) -> Self:
        if self.timings and self.delivery == "audio":
            raise PydanticCustomError(
                "timings_of_a_stream",
                "timings need `stream` false, or `sse`, whose events always carry them",
                {"param": "timings"},
            )
        return self


SPEECH_EXAMPLES: dict[str, Any] = {
    "shortest": {"summary": "A complete WAV file", "value": {"text": "Hello from Kestrel."}},
    "stream": {
        "summary": "Streamed, reproducible",
        "value": {"text": "The first sound is sent while the rest is being made.", "stream": True, "seed": 7},
    },
    "pcm": {
        "summary": "Bare samples, every option",
        "value": {
            "text": "Every option at once.",
            "voice": "default",
            "language": "en",
            "seed": 7,
            "temperature": 0.25,
            "top_p": 0.9,
            "top_k": 30,
            "max_seconds": 30,
            "speed": 1.25,
            "deadline_seconds": 30,
            "stream": True,
            "normalize": {"date_order": "dmy", "emoji": "name"},
            "format": "pcm",
            "timings": False,
        },
    },
    "timings": {
        "summary": "MP3 with the times of its words, as JSON",
        "value": {"text": "When is each word heard?", "format": "mp3", "timings": True},
    },
    "events": {
        "summary": "Server-sent events",
        "value": {"text": "Each event has a piece of audio.", "format": "opus", "stream": "sse"},
    },
}


class ErrorDetail(BaseModel):
    message: str = Field(description="What was wrong and what is valid.")
    type: str = Field(
        description="invalid_request_error, authentication_error, overloaded_error, unavailable_error or server_error.",
        examples=["invalid_request_error"],
    )
    param: str | None = Field(description="The field at fault, if one is.", examples=["voice"])
    code: str = Field(description="Stable short name of the error.", examples=["unknown_voice"])


class ErrorBody(BaseModel):
    """Body of every answer that is not a success."""

    error: ErrorDetail


class Voice(BaseModel):
    id: str = Field(examples=["default"])
    model: str = Field(examples=["kestrel-v0"])
    languages: list[str] = Field(examples=[["en"]])


class VoiceList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Voice]


class Limits(BaseModel):
    """What one request may ask for."""

    max_text_chars: int = Field(examples=[5000])
    max_seconds: float = Field(examples=[600.0])
    max_body_bytes: int = Field(examples=[262144])
    deadline_seconds: float = Field(examples=[600.0])
    slots: int = Field(description="Requests spoken at once.", examples=[4])
    queue_size: int = Field(description="Requests that may wait.", examples=[16])
    jobs_max_text_chars: int = Field(description="Of a job.", examples=[1_000_000])
    jobs_max_seconds: float = Field(description="Of a job.", examples=[86_400.0])


class Model(BaseModel):
    id: str = Field(examples=["kestrel-v0"])
    object: Literal["model"] = "model"
    created: int = Field(description="When this server loaded it; Unix seconds.", examples=[1795996800])
    owned_by: str = Field(examples=["kestrel"])
    version: str = Field(examples=["0.1"])
    license: str = Field(examples=["Apache-2.0"])
    sample_rate: int = Field(description="Hz", examples=[16000])
    frame_size: int = Field(description="Samples a codec frame", examples=[640])
    text_mode: str = Field(description="`prompt` or `interleaved`", examples=["interleaved"])
    voices: list[str] = Field(examples=[["default"]])
    languages: list[str] = Field(examples=[["en"]])
    formats: list[str] = Field(examples=[["wav", "pcm", "mp3", "opus", "aac", "flac"]])
    parameters: int = Field(examples=[8_200_000])
    limits: Limits


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class Liveness(BaseModel):
    status: Literal["alive"] = "alive"


class Readiness(BaseModel):
    """Progress while loading, then the load of the engine."""

    status: Literal["loading", "warming", "ready", "draining", "failed"] = Field(examples=["ready"])
    model: str = Field(examples=["default"])
    elapsed_seconds: float = Field(description="Since the start of the current status.", examples=[12.5])
    running: int = Field(description="Requests being spoken.", examples=[1])
    waiting: int = Field(description="Requests in the queue.", examples=[0])
    message: str | None = Field(default=None, description="Why it failed.")
