"""Server-sent events of a job: every finished sentence, once, and the status between them.

A sentence's event has the number of sentences finished with it as its id, so that a client that comes back with
Last-Event-ID, even to a restarted server, gets exactly those it has not had. The end has the next number.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from kestrel.service.errors import ApiError
from kestrel.service.jobs.database import StoredJob
from kestrel.service.jobs.jobs import Jobs
from kestrel.service.jobs.schema import describe
from kestrel.service.jobs.state import Sentence
from kestrel.service.jobs.store import Store

_KEEP_ALIVE_SECONDS = 15.0
_PAGE = 200


def last_id(header: str | None) -> int:
    """Number in a Last-Event-ID header; 0, everything, for one that is none of ours."""
    return int(header) if header is not None and header.isascii() and header.isdigit() and len(header) < 10 else 0


def final_id(job: StoredJob) -> int:
    """Id of the event that ends the stream of an ended job."""
    return job.progress.done + 1


async def stream(jobs: Jobs, job: StoredJob, after: int) -> AsyncIterator[bytes]:
    """The events after number `after`, until the job has ended, is deleted, or the server shuts down."""
    desk, runtime = jobs.desk, jobs.runtime
    # What a job that lost audio on disk is behind by will be spoken, and told, again.
    sent = min(after, job.progress.done)
    while True:
        news = desk.news(job.id)  # asked for before looking: what comes in between is not missed
        try:
            job = await jobs.get(job.id)
            while sentences := await desk.call(Store.sentences, job, sent, _PAGE):
                for sentence in sentences:
                    yield _event("sentence", _sentence(sentence, job.sample_rate), sentence.number + 1)
                sent = sentences[-1].number + 1
            times = await jobs.times_left()
        except ApiError as error:  # deleted, or the store has closed
            yield _event("error", error.body())
            return
        ended = job.status in ("completed", "failed")
        body = describe(job, times.get(job.id)).model_dump(mode="json")
        yield _event("status", body, final_id(job) if ended else None)
        if ended or runtime.draining.is_set():
            return
        while not news.is_set():
            await runtime.until_draining(news.wait(), _KEEP_ALIVE_SECONDS)
            if runtime.draining.is_set():
                return
            if not news.is_set():
                yield b": still here\n\n"


def _sentence(sentence: Sentence, rate: int) -> dict[str, Any]:
    return {
        "number": sentence.number,
        "ends_at_seconds": round(sentence.ends_at / 2 / rate, 6),
        "audio_seconds": round(sentence.audio_seconds, 6),
        "finish_reason": sentence.finish_reason,
    }


def _event(name: str, data: dict[str, Any], number: int | None = None) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()
