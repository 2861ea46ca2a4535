"""Speaks stored jobs, one after another, one sentence at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from kestrel.engine import ClosedError, Engine, Result, Utterance
from kestrel.service.admission import expected_audio_seconds
from kestrel.service.containers import Pcm
from kestrel.service.errors import SERVER, ApiError, to_api_error
from kestrel.service.jobs.database import Line, StoredJob
from kestrel.service.jobs.desk import Desk
from kestrel.service.jobs.folder import StorageError
from kestrel.service.jobs.state import Progress, over
from kestrel.service.jobs.store import DiskLimit, Spoken, Store
from kestrel.service.metrics import Metrics
from kestrel.service.runtime import Runtime
from kestrel.service.script import silence
from kestrel.service.speaking import speak

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("kestrel.jobs")

_RETRY_SECONDS = 5.0
"""Between attempts to note the end of a job on a disk that takes nothing."""

_INTERRUPTED = ("cancelled", "deadline")


class Lane:
    """One job at a time. It holds a running place only while a sentence is in the engine, and never asks for one that
    a request waits for."""

    def __init__(self, desk: Desk, runtime: Runtime, metrics: Metrics) -> None:
        self._desk = desk
        self._runtime = runtime
        self._metrics = metrics

    async def run(self) -> None:
        """Until the server drains or its engine is lost. Cancelling it cancels the sentence it is at."""
        await self._runtime.settled.wait()
        while self._runtime.status == "ready":
            news = self._desk.news("")  # asked for before looking: what comes in between is not missed
            job = await self._stored(Store.take)
            if job is None:
                await self._runtime.until_draining(news.wait())
                continue
            self._desk.changed(job.id)
            task = asyncio.create_task(self._job(job))
            self._desk.current[job.id] = task
            try:
                await asyncio.wait([task])
            finally:
                task.cancel()
                await asyncio.wait([task])
                del self._desk.current[job.id]

    async def _job(self, job: StoredJob) -> None:
        try:
            ended = await self._speak(job)
        except ClosedError as error:
            self._runtime.lost(error)  # not the job's fault: it goes on after a restart
            return
        except Exception as error:
            failure = _failure(error)
            ended = await self._stored(Store.fail, job.id, failure.code, failure.message)
        if ended is not None:
            self._metrics.job_ended(ended.status)
            progress = ended.progress
            fields = {
                "job": ended.id,
                "status": ended.status,
                "error_code": ended.error_code,
                "finish_reason": progress.finish_reason,
                "sentences": progress.done,
                "audio_seconds": round(progress.audio_seconds, 6),
                "rtf": progress.rtf,
            }
            _log.info("job", extra={"fields": {name: value for name, value in fields.items() if value is not None}})
        self._desk.changed(job.id)

    async def _speak(self, job: StoredJob) -> StoredJob | None:
        """The completed job; None if it was deleted or has to go on after a restart."""
        if self._runtime.status != "ready":
            return None
        engine = self._runtime.speaking_engine()
        info = engine.info
        if (job.model, job.model_version, job.sample_rate) != (info.name, info.version, info.sample_rate):
            message = f"begun with model {job.model} {job.model_version}; this server has {info.name} {info.version}"
            raise ApiError(409, message, code="model_changed")
        progress: Progress | None = job.progress
        while progress is not None and not over(progress, job.speech):
            line = await self._desk.call(Store.line, job, progress.done)
            if line is None:
                return None
            utterance = job.speech.utterance(line.text, progress.done, progress.audio_seconds + line.before)
            spoken = await self._sentence(engine, utterance, progress.done, line)
            if spoken is None:
                return None
            progress = await self._desk.call(Store.record, job, spoken)
            self._desk.changed(job.id)
        if progress is None:
            return None
        if not progress.size:
            raise ApiError(500, "the engine gave no audio for this text", code="no_audio", kind=SERVER)
        return await self._desk.call(Store.complete, job.id)

    async def _sentence(self, engine: Engine, utterance: Utterance, number: int, line: Line) -> Spoken | None:
        """None if the server shut down before the sentence was finished."""
        blocks: list[Pcm] = []
        admission, limit = self._runtime.admission, self._runtime.settings.request_timeout
        expected = expected_audio_seconds(len(utterance.text), utterance.max_seconds or 0.0)
        async with admission.background_place(expected) as ticket:
            if self._runtime.status != "ready":
                return None

            def heard(pcm: Pcm) -> None:
                blocks.append(pcm)
                ticket.produced_seconds += len(pcm) / engine.info.sample_rate

            with self._runtime.busy():
                try:
                    async with asyncio.timeout(limit):
                        result = await speak(engine, utterance, heard, self._cancelled)
                except TimeoutError:
                    message = f"sentence {number} took longer than {limit:g} s, the limit"
                    raise ApiError(504, message, code="deadline_exceeded", kind=SERVER) from None
        if result.finish_reason in _INTERRUPTED:
            return None
        busy = result.wall_seconds - (result.phases["queue"].seconds if "queue" in result.phases else 0.0)
        if result.audio_seconds:
            admission.measured(busy / result.audio_seconds)
        self._metrics.job_sentence(engine.info.name, result)
        rate = engine.info.sample_rate
        around = [*silence(line.before, rate), *blocks, *silence(line.after, rate)]
        pcm = b"".join(block.astype("<i2", copy=False).tobytes() for block in around)
        seconds = result.audio_seconds + line.before + line.after
        return Spoken(number, pcm, seconds, busy, result.finish_reason)

    def _cancelled(self, seconds: float, result: Result | None) -> None:
        self._metrics.cancel_latency.labels("job").observe(seconds)

    async def _stored(self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Does it as soon as the disk lets it be done: a job's end must not be lost because a disk is full."""
        while True:
            try:
                return await self._desk.call(method, *args, **kwargs)
            except StorageError as error:
                _log.error("cannot store", extra={"fields": {"error": str(error)}})
                await asyncio.sleep(_RETRY_SECONDS)


def _failure(error: Exception) -> ApiError:
    """What a job that ended this way is told to have failed with."""
    if isinstance(error, DiskLimit):
        message = f"the audio of all jobs has reached {error.limit} bytes, the limit; DELETE jobs that are not needed"
        return ApiError(507, message, code="storage_full", kind=SERVER)
    return to_api_error(error)
