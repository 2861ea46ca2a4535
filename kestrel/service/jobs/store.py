"""Jobs on disk: state and audio kept in step. Blocking; all calls belong to one thread.

The order of writes is what makes `kill -9` harmless. Audio is on disk before the state says so, and has its final name
before the job is completed; a job is out of the state before its files are deleted. So after a crash there can be too
much on disk, which `recover` removes, but never too little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kestrel.service.jobs import database as db
from kestrel.service.jobs.database import NewJob, StoredJob
from kestrel.service.jobs.folder import Folder, StorageError
from kestrel.service.jobs.state import (
    STATUSES,
    UNFINISHED,
    Progress,
    Sentence,
    Status,
    audio_left,
    concluded,
    expected_bytes,
    fold,
    intact,
)

JOB_BYTES = 4096
"""Counted for every job besides its audio and text, so that many tiny jobs are bounded as well."""

_UNFINISHED = f"status IN {UNFINISHED}"


class TooManyJobs(Exception):
    """As many jobs are unfinished as may be."""


class DiskLimit(Exception):
    """The audio does not fit. `wanted` and `limit` in bytes; `frees_at`: when the next job expires, if one will."""

    def __init__(self, wanted: int, limit: int, frees_at: float | None = None) -> None:
        super().__init__(f"the audio of all jobs may take {limit} bytes")
        self.wanted, self.limit, self.frees_at = wanted, limit, frees_at


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the engine made of one sentence."""

    number: int
    pcm: bytes
    audio_seconds: float
    busy_seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Census:
    """How many jobs there are of each status, and the bytes they take."""

    jobs: dict[Status, int]
    bytes: int


class Store:
    """An opened folder with its database. Opening recovers what a crash left behind; `resumed` jobs will go on."""

    def __init__(self, path: Path, disk_bytes: int, clock: Callable[[], float] = time.time) -> None:
        """Raises FolderError. `disk_bytes` bounds audio and texts together."""
        self._disk_bytes = disk_bytes
        self._clock = clock
        self._folder = Folder(path)
        try:
            self._database = db.connect(self._folder.database)
            self.resumed = self._recover()
        except BaseException:
            self._folder.close()
            raise

    def close(self) -> None:
        self._database.close()
        self._folder.close()

    def create(self, job: NewJob, queue_size: int) -> StoredJob:
        """Accepts a job. Raises TooManyJobs or DiskLimit."""
        wanted = JOB_BYTES + job.characters + _expected(Progress(len(job.sentences)), job)
        with db.transaction(self._database):
            unfinished = self.unfinished()
            if len(unfinished) >= queue_size:
                raise TooManyJobs
            reserved = sum(_expected(other.progress, other) for other in unfinished)
            if self._used() + reserved + wanted > self._disk_bytes:
                raise DiskLimit(wanted, self._disk_bytes, self.next_expiry())
            db.insert(self._database, job)
        return self._get(job.id)

    def find(self, job: str) -> StoredJob | None:
        found = db.select(self._database, "id = ?", (job,))
        return found[0] if found else None

    def page(self, limit: int, before: int | None, status: Status | None) -> list[StoredJob]:
        """At most `limit` jobs, newest first, of those older than number `before`."""
        where, values = "seq < ?", [1 << 62 if before is None else before]
        if status is not None:
            return db.select(
                self._database, f"{where} AND status = ? ORDER BY seq DESC LIMIT ?", (*values, status, limit)
            )
        return db.select(self._database, f"{where} ORDER BY seq DESC LIMIT ?", (*values, limit))

    def unfinished(self) -> list[StoredJob]:
        """In order of service."""
        return db.select(self._database, f"{_UNFINISHED} ORDER BY seq")

    def sentences(self, job: StoredJob, first: int, limit: int) -> list[Sentence]:
        """The finished sentences of a job from number `first`."""
        return db.spoken(self._database, job.seq, first, limit)

    def audio(self, job: str) -> Path:
        """File with the samples of a completed job."""
        return self._folder.audio(job)

    def take(self) -> StoredJob | None:
        """The oldest queued job, now running."""
        with db.transaction(self._database):
            found = db.select(self._database, "status = 'queued' ORDER BY seq LIMIT 1")
            if not found:
                return None
            self._database.execute(
                "UPDATE jobs SET status = 'running', started_at = coalesce(started_at, ?) WHERE seq = ?",
                (self._clock(), found[0].seq),
            )
        return self._get(found[0].id)

    def line(self, job: StoredJob, number: int) -> db.Line | None:
        """What sentence `number` of an unfinished job says; None if the job has been deleted."""
        row = self._database.execute(
            "SELECT text, pause_before, pause_after FROM sentences WHERE job = ? AND number = ?", (job.seq, number)
        ).fetchone()
        return None if row is None else db.Line(str(row[0]), row[1], row[2])

    def record(self, job: StoredJob, spoken: Spoken) -> Progress | None:
        """Keeps a sentence. None if the job has been deleted meanwhile. May be tried again after a StorageError.

        Raises StorageError, DiskLimit.
        """
        current = self.find(job.id)
        if current is None:
            return None
        progress = current.progress
        if self._used() + len(spoken.pcm) > self._disk_bytes:
            raise DiskLimit(len(spoken.pcm), self._disk_bytes)
        self._folder.append(job.id, progress.size, spoken.pcm)
        sentence = Sentence(
            spoken.number,
            progress.size + len(spoken.pcm),
            spoken.audio_seconds,
            spoken.busy_seconds,
            spoken.finish_reason,
        )
        progress = progress.add(sentence)
        with db.transaction(self._database):
            self._database.execute(
                "UPDATE sentences SET ends_at = ?, audio_seconds = ?, busy_seconds = ?, finish_reason = ? "
                "WHERE job = ? AND number = ?",
                (sentence.ends_at, sentence.audio_seconds, sentence.busy_seconds, sentence.finish_reason, job.seq,
                 sentence.number),
            )  # fmt: skip
            db.set_progress(self._database, job.seq, progress)
        return progress

    def complete(self, job: str) -> StoredJob | None:
        """A job that is over gets its final file. None if it has been deleted meanwhile. Raises StorageError."""
        current = self.find(job)
        if current is None:
            return None
        if self._folder.reopen(job) != current.progress.size:
            raise StorageError("the audio on disk has another length than was written")
        self._folder.complete(job)
        with db.transaction(self._database):
            db.set_progress(self._database, current.seq, concluded(current.progress))
            self._end(current, "completed", None, None)
        return self._get(job)

    def fail(self, job: str, code: str, message: str) -> StoredJob | None:
        """Ends a job as failed and frees its disk space. None if it has been deleted meanwhile."""
        current = self.find(job)
        if current is None:
            return None
        self._folder.remove(job)  # first: on a full disk, this is what makes room for the state
        with db.transaction(self._database):
            self._end(current, "failed", code, message)
            self._database.execute("UPDATE jobs SET size = 0 WHERE seq = ?", (current.seq,))
        return self._get(job)

    def delete(self, job: str) -> StoredJob | None:
        """Removes a job in any state. None if there is none."""
        current = self.find(job)
        if current is not None:
            with db.transaction(self._database):
                self._database.execute("DELETE FROM jobs WHERE seq = ?", (current.seq,))
            self._folder.remove(job)
        return current

    def expire(self) -> list[StoredJob]:
        """Removes the jobs whose time is over."""
        expired = db.select(self._database, "expires_at <= ?", (self._clock(),))
        for job in expired:
            self.delete(job.id)
        return expired

    def next_expiry(self) -> float | None:
        """When `expire` will have something to do."""
        moment = self._database.execute("SELECT min(expires_at) FROM jobs").fetchone()[0]
        return None if moment is None else float(moment)

    def census(self) -> Census:
        rows = dict(self._database.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall())
        return Census({status: rows.get(status, 0) for status in STATUSES}, self._used())

    def _get(self, job: str) -> StoredJob:
        found = self.find(job)
        assert found is not None
        return found

    def _used(self) -> int:
        """Bytes of audio, and of the texts of unfinished jobs."""
        row = self._database.execute(
            f"SELECT coalesce(sum(size + {JOB_BYTES} + iif({_UNFINISHED}, characters, 0)), 0) FROM jobs"
        ).fetchone()
        return int(row[0])

    def _end(self, job: StoredJob, status: Status, code: str | None, message: str | None) -> None:
        now = self._clock()
        self._database.execute(
            "UPDATE jobs SET status = ?, finished_at = ?, expires_at = ?, error_code = ?, error_message = ? "
            "WHERE seq = ?",
            (status, now, now + job.retention_seconds, code, message, job.seq),
        )
        self._database.execute("UPDATE sentences SET text = NULL WHERE job = ?", (job.seq,))

    def _recover(self) -> int:
        """Brings state and files back in step after a crash. Returns the number of jobs that will go on."""
        known = set()
        for job in db.select(self._database, "status != 'failed'"):
            known.add(job.id)
            if job.status != "completed":
                self._resume(job)
            elif not _has_size(self._folder.audio(job.id), job.progress.size):
                self.fail(job.id, "audio_lost", "the audio on disk is missing or has another length than was written")
        for stray in self._folder.ids() - known:
            self._folder.remove(stray)
        return len(self.unfinished())

    def _resume(self, job: StoredJob) -> None:
        kept = intact(db.spoken(self._database, job.seq), self._folder.reopen(job.id))
        with db.transaction(self._database):
            self._database.execute(
                "UPDATE sentences SET ends_at = NULL, audio_seconds = NULL, busy_seconds = NULL, finish_reason = NULL "
                "WHERE job = ? AND number >= ?",
                (job.seq, len(kept)),
            )
            db.set_progress(self._database, job.seq, fold(job.progress.total, kept))
            self._database.execute("UPDATE jobs SET status = 'queued' WHERE seq = ?", (job.seq,))


def _expected(progress: Progress, job: NewJob | StoredJob) -> int:
    """Bytes that a job is expected to write yet."""
    return expected_bytes(audio_left(progress, job.characters, job.speech.max_seconds), job.sample_rate)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size
