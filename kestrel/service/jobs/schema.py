"""Reply bodies of jobs, with the descriptions and examples of the OpenAPI page."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from kestrel.service.jobs.database import StoredJob
from kestrel.service.jobs.state import Status


class JobError(BaseModel):
    code: str = Field(description="Stable short name.", examples=["storage_full"])
    message: str


class JobBody(BaseModel):
    """A job. Times are seconds since the epoch. The text is not told, and is erased when the job ends."""

    id: str = Field(examples=["job_5f0c6a9d3b7e41f28a4c9e0d7b6f1a23"])
    object: Literal["job"] = "job"
    status: Status = Field(
        description="`queued`, `running`, `completed` or `failed`. After a restart, `running` jobs are `queued` again "
        "and go on where they were."
    )
    created_at: float = Field(examples=[1764500000.0])
    started_at: float | None
    finished_at: float | None
    expires_at: float | None = Field(description="When an ended job is removed with its audio.")
    model: str = Field(examples=["kestrel-v0"])
    voice: str = Field(examples=["default"])
    seed: int = Field(description="The same seed and text give the same samples, also from /v1/tts.", examples=[7])
    format: str = Field(examples=["wav"])
    sample_rate: int = Field(description="Hz", examples=[16000])
    characters: int = Field(examples=[48000])
    sentences_total: int = Field(description="Pieces the text was cut into.", examples=[812])
    sentences_done: int = Field(examples=[420])
    audio_seconds: float = Field(description="Made so far.", examples=[1510.4])
    seconds_left: float | None = Field(
        description="Estimate for an unfinished job, from the measured real-time factor and the jobs before it; "
        "requests to /v1/tts, which go first, come on top.",
        examples=[702.1],
    )
    rtf: float | None = Field(description="Engine seconds per audio second so far.", examples=[0.47])
    finish_reason: str | None = Field(
        description="`eos`: every sentence ended by itself so far. `length`: cut by `max_seconds` or a sentence's "
        "frame budget. `repetition`, `silence`, `context`: a guard ended a sentence. The first of these counts.",
        examples=["eos"],
    )
    error: JobError | None = Field(description="Why it failed.")


class JobPage(BaseModel):
    object: Literal["list"] = "list"
    data: list[JobBody]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null on the last.")


def describe(job: StoredJob, seconds_left: float | None) -> JobBody:
    """A job as a reply."""
    progress = job.progress
    return JobBody(
        id=job.id,
        status=job.status,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        expires_at=job.expires_at,
        model=job.model,
        voice=job.speech.voice,
        seed=job.speech.seed,
        format=job.format,
        sample_rate=job.sample_rate,
        characters=job.characters,
        sentences_total=progress.total,
        sentences_done=progress.done,
        audio_seconds=round(progress.audio_seconds, 6),
        seconds_left=None if seconds_left is None else round(seconds_left, 3),
        rtf=None if progress.rtf is None else round(progress.rtf, 6),
        finish_reason=progress.finish_reason or None,
        error=None if job.error_code is None else JobError(code=job.error_code, message=job.error_message or ""),
    )
