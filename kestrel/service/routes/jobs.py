"""/v1/jobs: long texts, spoken in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from kestrel.service.errors import ApiError
from kestrel.service.jobs import events
from kestrel.service.jobs.database import StoredJob
from kestrel.service.jobs.jobs import Jobs
from kestrel.service.jobs.renditions import RENDITIONS
from kestrel.service.jobs.schema import JobBody, JobPage, describe
from kestrel.service.jobs.state import Status
from kestrel.service.jobs.store import Store
from kestrel.service.ranges import Span, Unsatisfiable, asked_range, http_date, not_modified, range_applies
from kestrel.service.routes import documented_jobs as documented
from kestrel.service.routes.tts import require_json

router = APIRouter(tags=["jobs"])

_FormatQuery = Annotated[
    Literal["wav", "pcm"] | None, Query(description="Another format than the job's own; the samples are the same.")
]


@router.post(
    "/v1/jobs",
    summary="Speak a long text in the background",
    status_code=202,
    response_model=JobBody,
    dependencies=[Depends(require_json)],
    responses=documented.CREATE,
    openapi_extra=documented.CREATE_BODY,
)
async def create(request: Request) -> Response:
    """Accepts a text, up to `limits.jobs_max_text_chars` of GET /v1/models, and answers before it is spoken.

    The job's samples are those that /v1/tts gives for the same text, seed and options.
    """
    jobs = _jobs(request)
    job = await jobs.create(await request.body())
    times = await jobs.times_left()
    body = describe(job, times.get(job.id)).model_dump(mode="json")
    return JSONResponse(body, 202, {"Location": f"/v1/jobs/{job.id}"})


@router.get("/v1/jobs", summary="List the jobs", responses=documented.LIST)
async def listing(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100, description="Jobs a page.")] = 20,
    cursor: Annotated[
        str | None, Query(pattern="^[0-9]{1,18}$", description="`next_cursor` of the page before.")
    ] = None,
    status: Annotated[Status | None, Query(description="Only these.")] = None,
) -> JobPage:
    """Newest first. Jobs that come or go meanwhile move no other from one page to the next."""
    jobs = _jobs(request)
    found = await jobs.page(limit + 1, None if cursor is None else int(cursor), status)
    times = await jobs.times_left()
    page = found[:limit]
    return JobPage(
        data=[describe(job, times.get(job.id)) for job in page],
        next_cursor=str(page[-1].seq) if len(found) > limit else None,
    )


@router.get("/v1/jobs/{job_id}", summary="Show a job", responses=documented.SHOW)
async def show(request: Request, job_id: str) -> JobBody:
    """State and progress."""
    jobs = _jobs(request)
    job = await jobs.get(job_id)
    return describe(job, (await jobs.times_left()).get(job.id))


@router.delete("/v1/jobs/{job_id}", summary="Cancel and remove a job", status_code=204, responses=documented.SHOW)
async def delete(request: Request, job_id: str) -> None:
    """Stops the job if it runs, and removes its state and audio. Its slot is free when the answer comes."""
    await _jobs(request).delete(job_id)


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="Follow a job",
    response_class=Response,
    responses=documented.EVENTS,
    openapi_extra=documented.EVENTS_HEADER,
)
async def follow(request: Request, job_id: str) -> Response:
    """Server-sent events: `sentence` for each finished sentence, and `status`, the job, after them. The stream ends
    with the job.

    Every `sentence` and the last `status` have an id. A client that comes back with it as `Last-Event-ID` gets what it
    has missed, also after a restart of the server; 204 when that was all, which tells an EventSource to stop.
    """
    jobs = _jobs(request)
    job = await jobs.get(job_id)
    after = events.last_id(request.headers.get("last-event-id"))
    if job.status in ("completed", "failed") and after >= events.final_id(job):
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events.stream(jobs, job, after), media_type="text/event-stream", headers=headers)


@router.head("/v1/jobs/{job_id}/audio", include_in_schema=False)
@router.get(
    "/v1/jobs/{job_id}/audio",
    summary="Download the audio",
    response_class=Response,
    responses=documented.AUDIO,
    openapi_extra=documented.AUDIO_HEADERS,
)
async def audio(request: Request, job_id: str, format: _FormatQuery = None) -> Response:
    """The audio of a completed job, with exact sizes. One byte range may be asked for."""
    jobs = _jobs(request)
    job = await jobs.get(job_id)
    if job.status != "completed":
        raise _no_audio_yet(job, (await jobs.times_left()).get(job.id))
    name = job.format if format is None else format
    path = await jobs.desk.call(Store.audio, job.id)
    rendition = await asyncio.to_thread(RENDITIONS[name], job, path)
    etag, modified = f'"{job.id}.{name}"', http_date(job.finished_at or job.created_at)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Last-Modified": modified,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f'inline; filename="{job.id}.{name}"',
        "X-Sample-Rate": str(job.sample_rate),
        "X-Seed": str(job.speech.seed),
        "X-Audio-Seconds": f"{job.progress.audio_seconds:.6f}",
        "X-Finish-Reason": job.progress.finish_reason,
    }
    if not_modified(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    span, status = Span(0, rendition.size), 200
    if request.method == "GET" and range_applies(request.headers.get("if-range"), etag, modified):
        try:
            asked = asked_range(request.headers.get("range"), rendition.size)
        except Unsatisfiable:
            message = f"the audio has {rendition.size} bytes; the range begins behind its end"
            where = {"Content-Range": f"bytes */{rendition.size}"}
            raise ApiError(416, message, code="range_not_satisfiable", headers=where) from None
        if asked is not None:
            span, status = asked, 206
            headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{rendition.size}"
    headers["Content-Length"] = str(span.size)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=rendition.media_type)
    try:
        file = await asyncio.to_thread(os.open, rendition.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        await jobs.get(job_id)  # deleted in this moment: says so
        raise ApiError(410, "the audio has been removed from the disk by another program", code="audio_lost") from None
    return _FileResponse(rendition.read(file, span), file, status, headers, rendition.media_type)


class _FileResponse(StreamingResponse):
    """Closes its file whatever becomes of the transfer, also when that never begins."""

    def __init__(
        self, blocks: AsyncIterator[bytes], file: int, status: int, headers: dict[str, str], media_type: str
    ) -> None:
        super().__init__(blocks, status, headers, media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file)


def _no_audio_yet(job: StoredJob, seconds_left: float | None) -> ApiError:
    if job.status == "failed":
        return ApiError(409, f"the job has failed: {job.error_message}", code="job_failed")
    wait = max(1, min(600, round(seconds_left or 1.0)))
    done = f"{job.progress.done} of {job.progress.total} sentences"
    message = f"the job is {job.status}: {done}; its audio comes when it is completed"
    return ApiError(409, message, code="job_unfinished", headers={"Retry-After": str(wait)})


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs
