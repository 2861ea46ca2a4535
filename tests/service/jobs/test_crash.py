"""The store killed at every single write."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kestrel.service.jobs import database
from kestrel.service.jobs.store import Store
from tests.service.jobs.stored import AUDIO, DROPPED, KEPT, PLENTY, finish, new, spoken


def life(store: Store, done: Callable[[str], None]) -> None:
    """A job that is deleted half-way, then one that is completed."""
    store.create(new(DROPPED), 10)
    done("dropped created")
    job = store.take()
    assert job is not None
    store.record(job, spoken(0))
    done("dropped deleting")
    store.delete(DROPPED)
    done("dropped deleted")
    finish(store, done)


def killed_at(point: int, path: Path) -> list[str] | None:
    """Runs `life` in a child that is killed before its write number `point`. The steps it had done; None at its end.

    Writes are the system calls of the folder and every statement of SQLite.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading) as told:
            steps = told.read().splitlines()
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the child failed"
        return steps if os.WIFSIGNALED(status) else None
    code = 1
    try:
        left = point

        def count(*_: object) -> None:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any, **options: Any) -> Any:
                count()
                return call(*arguments, **options)

            return run

        for name in ("pwrite", "ftruncate", "fsync", "rename", "unlink"):
            setattr(os, name, counted(getattr(os, name)))
        connect = sqlite3.connect

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **options)
            connection.set_trace_callback(count)
            return connection

        database.sqlite3.connect = traced  # type: ignore[assignment]
        life(Store(path, PLENTY), lambda step: os.write(writing, f"{step}\n".encode()) and None)
        code = 0
    finally:
        os._exit(code)


@pytest.mark.heavy
def test_killed_at_every_write_nothing_is_lost_and_nothing_left_behind(tmp_path: Path) -> None:
    """Catches any wrong order of writes: a job accepted and forgotten, audio that the state does not know, files of a
    deleted job, a sentence doubled or dropped."""
    point = 0
    while True:
        path = tmp_path / str(point)
        steps = killed_at(point, path)
        if steps is None:
            break
        store = Store(path, PLENTY)
        job, dropped = store.find(KEPT), store.find(DROPPED)
        assert (dropped is not None) or "dropped deleting" in steps or "dropped created" not in steps
        assert (dropped is None) or "dropped deleted" not in steps
        assert dropped is None or "dropped deleting" not in steps or dropped.progress.done == 1, "half deleted"
        store.delete(DROPPED)
        if "created" in steps:
            assert job is not None, (point, steps)
            assert job.progress.done >= sum(step.startswith("spoken") for step in steps)
            assert (job.status == "completed") or "completed" not in steps
        finish(store)
        assert store.audio(KEPT).read_bytes() == b"".join(AUDIO)
        assert {file.name for file in (path / "audio").iterdir() if "probe" not in file.name} == {f"{KEPT}.pcm"}
        store.close()
        point += 1
    assert point > 60, "the test has lost sight of the writes"
