"""What a job asks for, checked and planned. Blocking: a whole book is read here."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, ValidationError

from kestrel.engine import Engine
from kestrel.service.errors import ApiError, validation_error
from kestrel.service.intake import speech_of
from kestrel.service.jobs.database import Line, NewJob
from kestrel.service.jobs.state import new_id
from kestrel.service.schema import SpeechRequest
from kestrel.service.script import Piece, fitted
from kestrel.service.settings import Settings
from kestrel.service.text import Pause


class JobRequest(SpeechRequest):
    """Body of POST /v1/jobs: that of POST /v1/tts, with larger limits, and how long the audio is kept."""

    stream: Literal[False] = Field(
        default=False, description="A job is not streamed; GET its events and, once it is completed, its audio."
    )
    # The formats that `renditions` can serve.
    format: Literal["wav", "pcm"] = Field(
        default="wav", description="Format of GET /v1/jobs/{id}/audio unless that asks for another."
    )
    speed: float = Field(default=1.0, ge=1, le=1, description="Only 1: the samples are kept as they were spoken.")
    timings: Literal[False] = Field(default=False, description="A job's events tell where its sentences end.")
    deadline_seconds: None = Field(default=None, description="A job has no deadline.")
    retention_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Keep the job for so long after it has ended, at most and by default as long as the server does.",
        examples=[86400],
    )


def new_job(body: bytes, engine: Engine, settings: Settings, now: float) -> NewJob:
    """A job made from a request body. Raises ApiError, PlanError and TextError."""
    info = engine.info
    try:
        request = JobRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors()) from None
    longest = settings.jobs_retention_seconds
    retention = longest if request.retention_seconds is None else request.retention_seconds
    if retention > longest:
        message = f"retention_seconds is {retention:g}; the limit is {longest:g}"
        raise ApiError(400, message, code="retention_too_long", param="retention_seconds")
    limits = {"max_text_chars": settings.jobs_max_text_chars, "max_seconds": settings.jobs_max_seconds}
    speech = speech_of(request, info, settings.model_copy(update=limits))
    return NewJob(
        id=new_id(),
        created_at=now,
        retention_seconds=retention,
        model=info.name,
        model_version=info.version,
        sample_rate=info.sample_rate,
        format=request.format,
        characters=len(request.text),
        speech=replace(speech, text=""),
        sentences=lines(fitted(speech.script(), engine.check)),
    )


def lines(script: list[Piece | Pause]) -> list[Line]:
    """The pieces of a script, each with the pauses that stand before it; those at the end stand after the last."""
    found: list[Line] = []
    waiting = 0.0
    for item in script:
        if isinstance(item, Pause):
            waiting += item.seconds
        else:
            found.append(Line(item.text, waiting))
            waiting = 0.0
    if waiting:
        found[-1] = replace(found[-1], after=waiting)
    return found
