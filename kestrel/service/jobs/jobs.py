"""The face of jobs towards the routes: accept, look up, list, delete; and the life of the tasks behind them."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kestrel.service.admission import MAX_RETRY_AFTER
from kestrel.service.errors import OVERLOADED, ApiError
from kestrel.service.jobs.database import StoredJob
from kestrel.service.jobs.desk import Desk
from kestrel.service.jobs.folder import FolderError, StorageError, default_folder
from kestrel.service.jobs.intake import new_job
from kestrel.service.jobs.lane import Lane
from kestrel.service.jobs.state import Status, Work, audio_left, is_id, seconds_left
from kestrel.service.jobs.store import DiskLimit, Store, TooManyJobs
from kestrel.service.metrics import Metrics
from kestrel.service.runtime import Runtime
from kestrel.service.settings import Settings

_log = logging.getLogger("kestrel.jobs")

_SWEEP_SECONDS = 1.0
"""Between two looks for expired jobs. A look is one query on an index."""


class Jobs:
    """All jobs of one server."""

    def __init__(self, settings: Settings, runtime: Runtime, metrics: Metrics) -> None:
        self.desk = Desk()
        self.runtime = runtime
        self._settings = settings
        self._metrics = metrics
        # A book takes a second of work on its text; in the common pool it would stand before requests' sentences.
        self._planning = ThreadPoolExecutor(1, "kestrel-job-text")
        self._tasks: list[asyncio.Task[None]] = []
        metrics.watch_jobs(lambda status: self.desk.census.jobs.get(status, 0), lambda: self.desk.census.bytes)

    async def open(self) -> None:
        """Opens the folder and begins to speak what is there. Raises FolderError for a folder that was asked for.

        Without one that was asked for, a second server on a machine, or a container without a home, has no jobs but
        can speak.
        """
        wanted = self._settings.jobs_folder
        try:
            path = Path(wanted) if wanted else default_folder()
            resumed = await self.desk.open(path, self._settings.jobs_disk_bytes)
        except (FolderError, RuntimeError) as error:  # RuntimeError: a user without a home
            if wanted:
                raise
            self.desk.off = str(error)
            _log.warning("no jobs", extra={"fields": {"error": str(error)}})
            return
        self._metrics.jobs_resumed.inc(resumed)
        if resumed:
            _log.info("resuming jobs", extra={"fields": {"jobs": resumed}})
        lanes = [Lane(self.desk, self.runtime, self._metrics) for _ in range(self._settings.jobs_at_once)]
        self._tasks = [asyncio.create_task(lane.run()) for lane in lanes] + [asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """Ends the lanes; a sentence in progress is cancelled and will be spoken again. Before the engine closes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Lets go of the folder. After the loading has ended, which may have begun the tasks only after `stop`."""
        await self.stop()
        await self.desk.close()
        self._planning.shutdown()

    async def create(self, body: bytes) -> StoredJob:
        """Accepts a job from a request body. Raises ApiError."""
        engine = self.runtime.speaking_engine()
        # Before the work on the text: a full server says so at once.
        if len(await self.desk.call(Store.unfinished)) >= self._settings.jobs_queue_size:
            raise await self._full()
        loop = asyncio.get_running_loop()
        job = await loop.run_in_executor(self._planning, new_job, body, engine, self._settings, time.time())
        try:
            stored = await self.desk.call(Store.create, job, self._settings.jobs_queue_size)
        except TooManyJobs:
            raise await self._full() from None
        except DiskLimit as error:
            raise _no_space(error) from None
        self.desk.changed("")
        return stored

    async def get(self, job: str) -> StoredJob:
        """Raises ApiError 404, also for what cannot be an id."""
        found = await self.desk.call(Store.find, job) if is_id(job) else None
        if found is None:
            raise _unknown()
        return found

    async def page(self, limit: int, before: int | None, status: Status | None) -> list[StoredJob]:
        """Newest first."""
        return await self.desk.call(Store.page, limit, before, status)

    async def delete(self, job: str) -> None:
        """Cancels a job and removes all of it. Raises ApiError 404."""
        # Out of the state first: what a lane does with it from now on has no effect.
        removed = await self.desk.call(Store.delete, job) if is_id(job) else None
        if removed is None:
            raise _unknown()
        task = self.desk.current.get(job)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._metrics.job_ended("deleted")
        self.desk.changed(job)

    async def times_left(self) -> dict[str, float]:
        """Estimated seconds until each unfinished job is done."""
        unfinished = await self.desk.call(Store.unfinished)
        work = [
            Work(job.id, audio_left(job.progress, job.characters, job.speech.max_seconds), job.progress.rtf)
            for job in unfinished
        ]
        rtf, lanes = self.runtime.admission.rtf, self._settings.jobs_at_once
        return {job.id: seconds_left(job.id, work, rtf, lanes) for job in unfinished}

    async def _full(self) -> ApiError:
        times = (await self.times_left()).values()
        wait = _whole_seconds(min(times, default=1.0))
        message = f"{len(times)} jobs are unfinished, as many as may be; try again in {wait} s"
        return ApiError(429, message, code="jobs_full", kind=OVERLOADED, headers={"Retry-After": str(wait)})

    async def _sweep(self) -> None:
        while True:
            try:
                for job in await self.desk.call(Store.expire):
                    self._metrics.job_ended("expired")
                    self.desk.changed(job.id)
            except StorageError as error:
                _log.error("cannot remove expired jobs", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(_SWEEP_SECONDS)


def _whole_seconds(seconds: float) -> int:
    return max(1, min(MAX_RETRY_AFTER, math.ceil(seconds)))


def _unknown() -> ApiError:
    return ApiError(404, "no such job; it may have been deleted or have expired; GET /v1/jobs", code="unknown_job")


def _no_space(error: DiskLimit) -> ApiError:
    if error.wanted > error.limit:
        message = (
            f"the audio would take about {error.wanted} bytes; all jobs together may take {error.limit}; "
            "send a shorter text or a smaller max_seconds"
        )
        return ApiError(400, message, code="audio_too_large", param="text")
    wait = MAX_RETRY_AFTER if error.frees_at is None else _whole_seconds(error.frees_at - time.time())
    message = f"no room for about {error.wanted} bytes of audio; DELETE jobs that are not needed, or try later"
    return ApiError(429, message, code="storage_full", kind=OVERLOADED, headers={"Retry-After": str(wait)})
