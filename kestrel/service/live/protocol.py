"""Messages of `/v1/tts/stream`: what a client may send, checked, and what it gets. The page is docs/websocket.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kestrel.engine import ModelInfo, WordTime
from kestrel.service.errors import ApiError, validation_error
from kestrel.service.intake import speech_of
from kestrel.service.live.sentences import Sentence
from kestrel.service.schema import SpeechRequest, Text
from kestrel.service.settings import Settings
from kestrel.service.speech import Speech

Event = dict[str, Any]
SPEECH_FIELDS = ("voice", "language", "seed", "temperature", "top_p", "top_k", "max_seconds")


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class ConfigMessage(_Message):
    """Changes the fields it names, for utterances that begin later. Null puts a field back to its default."""

    type: Literal["config"]
    voice: Any = None
    language: Any = None
    seed: Any = None
    temperature: Any = None
    top_p: Any = None
    top_k: Any = None
    max_seconds: Any = None
    audio: Literal["binary", "base64"] | None = None


class TextMessage(_Message):
    """The next part of the text, cut anywhere."""

    type: Literal["text"]
    text: Annotated[Text, Field(min_length=1)]


class FlushMessage(_Message):
    """The utterance is complete."""

    type: Literal["flush"]


class ClearMessage(_Message):
    """Stop speaking, forget everything that was not spoken."""

    type: Literal["clear"]


class CloseMessage(_Message):
    """Speak what there is, then close."""

    type: Literal["close"]


Message = ConfigMessage | TextMessage | FlushMessage | ClearMessage | CloseMessage
_TYPES: dict[str, type[Message]] = {
    "config": ConfigMessage,
    "text": TextMessage,
    "flush": FlushMessage,
    "clear": ClearMessage,
    "close": CloseMessage,
}


def parse(data: str) -> Message:
    """One message of a client. Raises ApiError 400 that says what is valid."""
    try:
        fields = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a value cannot be read"
        raise ApiError(400, f"the message is not valid JSON: {reason}", code="invalid_json") from None
    valid = ", ".join(_TYPES)
    if not isinstance(fields, dict):
        raise ApiError(400, f"a message must be a JSON object with a type: {valid}", code="invalid_json")
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        shown = f"unknown type {_shown(kind)}" if "type" in fields else "the message has no type"
        raise ApiError(400, f"{shown}; valid: {valid}", code="unknown_type", param="type")
    message = _TYPES[kind]
    for name in fields:
        if name not in message.model_fields:
            known = ", ".join(message.model_fields)
            told = f"unknown field {_shown(name)} in a {kind} message; valid fields: {known}"
            raise ApiError(400, told, code="unknown_field", param=_shown(name).strip("'"))
    try:
        return message.model_validate(fields)
    except ValidationError as error:
        raise validation_error(error.errors()) from None


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _shown(value: object) -> str:
    """A value of the client in a message of ours: short, and without what UTF-8 cannot carry."""
    return repr(value)[:64].encode("ascii", "backslashreplace").decode()


class SessionConfig:
    """What a session speaks with. Immutable; `changed` gives the next one."""

    def __init__(self, fields: dict[str, Any], audio: str, speech: Speech) -> None:
        self.fields = fields
        self.audio = audio
        self.speech = speech  # its text is empty, its seed drawn when none was given

    @staticmethod
    def default(info: ModelInfo, settings: Settings) -> SessionConfig:
        voice = "default" if "default" in info.voices else info.voices[0]
        return SessionConfig({"voice": voice}, "binary", _speech({"voice": voice}, info, settings))

    def changed(self, message: ConfigMessage, info: ModelInfo, settings: Settings) -> SessionConfig:
        """Raises ApiError 400, and nothing has changed then."""
        given = message.model_dump(exclude_unset=True, exclude={"type", "audio"})
        fields = {name: value for name, value in (self.fields | given).items() if value is not None}
        try:
            speech = _speech(fields, info, settings)
        except ValidationError as error:
            raise validation_error(error.errors()) from None
        audio = self.audio
        if "audio" in message.model_fields_set:
            audio = message.audio or "binary"
        return SessionConfig(fields, audio, speech)

    def fresh(self, info: ModelInfo, settings: Settings) -> Speech:
        """For one utterance: with a seed drawn anew when none was given."""
        return self.speech if "seed" in self.fields else _speech(self.fields, info, settings)

    def event(self) -> Event:
        known = {name: self.fields.get(name) for name in SPEECH_FIELDS}
        return {"type": "config", **known, "audio": self.audio}


def _speech(fields: dict[str, Any], info: ModelInfo, settings: Settings) -> Speech:
    return speech_of(SpeechRequest.model_validate({"text": "-", **fields}), info, settings)


def ready(request_id: str, info: ModelInfo, settings: Settings, config: SessionConfig) -> Event:
    return {
        "type": "ready",
        "request_id": request_id,
        "model": info.name,
        "sample_rate": info.sample_rate,
        "voices": list(info.voices),
        "languages": list(info.languages),
        "limits": {
            "max_text_chars": settings.max_text_chars,
            "max_seconds": settings.max_seconds,
            "max_message_bytes": settings.max_body_bytes,
            "idle_seconds": settings.live_idle_seconds,
        },
        "config": config.event(),
    }


def failure(error: ApiError, utterance: int | None) -> Event:
    event: Event = {"type": "error", **error.body(), "utterance": utterance}
    if "Retry-After" in error.headers:
        event["retry_after"] = int(error.headers["Retry-After"])
    return event


def sentence_start(utterance: int, number: int, sentence: Sentence, start_seconds: float) -> Event:
    return {
        "type": "sentence.start",
        "utterance": utterance,
        "sentence": number,
        "text": sentence.text,
        "start": sentence.start,
        "end": sentence.end,
        "start_seconds": round(start_seconds, 6),
    }


def words(sentence: Sentence, times: Sequence[WordTime], start_seconds: float) -> list[Event]:
    """Word starts, in the caller's text and on the time line of the utterance."""
    found: list[Event] = []
    for word in times:
        start, end = sentence.span(word.start, word.end)
        found.append({"text": word.text, "start": start, "end": end, "seconds": round(start_seconds + word.seconds, 6)})
    return found
