"""What was asked for, checked against the model and the limits; the same for the server and `kestrel say`."""

from __future__ import annotations

import secrets

from kestrel.engine import ModelInfo, Sampling
from kestrel.service.errors import ApiError
from kestrel.service.planner import MAX_PIECE_CHARS
from kestrel.service.schema import SpeechRequest
from kestrel.service.settings import Settings
from kestrel.service.speech import Speech

_RANDOM_SEEDS = 2**32


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
    if body.deadline_seconds is not None and body.deadline_seconds > settings.request_timeout:
        message = f"deadline_seconds is {body.deadline_seconds:g}; the limit is {settings.request_timeout:g}"
        raise ApiError(400, message, code="deadline_too_large", param="deadline_seconds")
    limit = settings.max_seconds
    if body.max_seconds is not None:  # of what is heard; the engine speaks at its own speed
        limit = min(limit, body.max_seconds * body.speed)
    return Speech(
        text=body.text,
        voice=body.voice,
        language=language_of(body.language, info.languages),
        seed=secrets.randbelow(_RANDOM_SEEDS) if body.seed is None else body.seed,
        sampling=Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k),
        max_seconds=limit,
        first_chunk_frames=settings.first_chunk_frames,
        max_chunk_frames=settings.max_chunk_frames,
        piece_chars=settings.piece_chars or info.max_characters or MAX_PIECE_CHARS,
        piece_min_chars=settings.piece_min_chars,
    )


def language_of(wanted: str | None, languages: tuple[str, ...]) -> str | None:
    """The model's own code for a BCP 47 code: the same, else one of that language (an `en` voice speaks en-US).

    Codes are not case-sensitive (RFC 5646, 2.1.1). Raises ApiError 400.
    """
    if wanted is None:
        return None
    for language in languages:
        if language.lower() == wanted.lower():
            return language
    for language in languages:
        if language.lower().split("-")[0] == wanted.lower().split("-")[0]:
            return language
    message = f"unknown language {wanted!r}; valid: {', '.join(languages)}"
    raise ApiError(400, message, code="unknown_language", param="language")
