"""The store as the event loop sees it: every call in the store's own thread, and word to whoever waits for a job."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from kestrel.service.errors import unavailable
from kestrel.service.jobs.folder import StorageError
from kestrel.service.jobs.store import Census, Store

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """Opened at most once. `current` has the task of every job that is being spoken."""

    def __init__(self) -> None:
        self.current: dict[str, asyncio.Task[None]] = {}
        self.census = Census({}, 0)
        self.off: str | None = None
        """Why there are no jobs on this server."""
        self._store: Store | None = None
        self._thread = ThreadPoolExecutor(1, "kestrel-jobs")
        self._news: dict[str, asyncio.Event] = {}

    async def open(self, path: Path, disk_bytes: int) -> int:
        """Number of jobs that will be resumed. Raises FolderError."""
        loop = asyncio.get_running_loop()
        self._store = await loop.run_in_executor(self._thread, Store, path, disk_bytes)
        self.census = await self.call(Store.census)
        return self._store.resumed

    async def close(self) -> None:
        """Waits for the call in progress, then lets go of the folder."""
        if self._store is not None:
            await self.call(Store.close)
        self._thread.shutdown()

    async def call(self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a method of the store. Once begun, it is finished, even if the caller is cancelled.

        Raises what the method raises, and StorageError for what the disk or SQLite does.
        """
        store = self._store
        if store is None:
            raise unavailable(
                "the jobs are still being read" if self.off is None else f"no jobs on this server: {self.off}",
                retry_after=2 if self.off is None else 600,
                code="jobs_unavailable",
            )
        if method is Store.close:
            self._store = None

        def work() -> tuple[T, Census | None]:
            result = method(store, *args, **kwargs)
            return result, store.census() if method in _CHANGES else None

        try:
            result, census = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the jobs cannot be read or changed: {error}") from error
        if census is not None:
            self.census = census
        return result

    def news(self, job: str) -> asyncio.Event:
        """Set at the next change of this job; of the empty name: when there may be a job to take."""
        return self._news.setdefault(job, asyncio.Event())

    def changed(self, *jobs: str) -> None:
        """Wakes whoever waits for news of these jobs."""
        for job in jobs:
            event = self._news.pop(job, None)
            if event is not None:
                event.set()


_CHANGES = (Store.create, Store.take, Store.record, Store.complete, Store.fail, Store.delete, Store.expire)
"""Calls after which the census is taken again."""
