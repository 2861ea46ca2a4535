"""The state of jobs in SQLite: its schema, its versions, and the rows as values. One thread only.

The connection locks the file for itself (`locking_mode=EXCLUSIVE`), so that a curious second program cannot make a
write wait or fail later on. `synchronous=FULL`: an accepted job survives a power cut. `secure_delete`: the text of an
ended job is overwritten, not just unlinked.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kestrel.engine import Sampling
from kestrel.service.jobs.folder import FolderError, StorageError
from kestrel.service.jobs.state import Progress, Sentence, Status
from kestrel.service.speech import Speech
from kestrel.service.text import Switches

_V1 = """
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    created_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    expires_at REAL,
    retention_seconds REAL NOT NULL,
    model TEXT NOT NULL,
    model_version TEXT NOT NULL,
    sample_rate INTEGER NOT NULL,
    format TEXT NOT NULL,
    characters INTEGER NOT NULL,
    speech TEXT NOT NULL, -- JSON: how it is spoken, without the text
    total INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    audio_seconds REAL NOT NULL DEFAULT 0,
    busy_seconds REAL NOT NULL DEFAULT 0,
    finish_reason TEXT NOT NULL DEFAULT '',
    error_code TEXT,
    error_message TEXT
) STRICT;
CREATE INDEX jobs_by_status ON jobs (status, seq);
CREATE INDEX jobs_by_expiry ON jobs (expires_at);
CREATE TABLE sentences (
    job INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    text TEXT, -- NULL once the job has ended
    pause_before REAL NOT NULL, -- seconds of silence
    pause_after REAL NOT NULL,
    ends_at INTEGER, -- this and the following: NULL until spoken
    audio_seconds REAL,
    busy_seconds REAL,
    finish_reason TEXT,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS: tuple[str, ...] = (_V1,)
"""Script n brings a database of version n to version n + 1. Released ones never change."""

_BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Line:
    """What is spoken in one go, with the silences around it in seconds."""

    text: str
    before: float = 0.0
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is not stored yet. `speech` has no text; `sentences` has."""

    id: str
    created_at: float
    retention_seconds: float
    model: str
    model_version: str
    sample_rate: int
    format: str
    characters: int
    speech: Speech
    sentences: list[Line]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it is stored. Times are seconds since the epoch."""

    seq: int
    id: str
    status: Status
    created_at: float
    started_at: float | None
    finished_at: float | None
    expires_at: float | None
    retention_seconds: float
    model: str
    model_version: str
    sample_rate: int
    format: str
    characters: int
    speech: Speech
    progress: Progress
    error_code: str | None
    error_message: str | None


def connect(path: Path) -> sqlite3.Connection:
    """The database in `path`, of the newest version. Raises FolderError."""
    try:
        # The texts are in it: nobody else may read it, nor the journal, which SQLite gives the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            database.row_factory = sqlite3.Row
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON",
                           "foreign_keys=ON"):  # fmt: skip
                database.execute(f"PRAGMA {pragma}")
            _migrate(database, path)
        except BaseException:
            database.close()
            raise
    except (sqlite3.Error, PermissionError) as error:
        raise FolderError(f"{path} cannot be used: {error}; repair it or move it away") from error
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    # The first statement that writes; from here on the lock is ours.
    database.execute("BEGIN EXCLUSIVE")
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    database.execute("COMMIT")
    if version > len(MIGRATIONS):
        raise FolderError(
            f"{path} has version {version}, made by a newer server; this one knows up to {len(MIGRATIONS)}"
        )
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        database.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. Raises StorageError for what SQLite cannot do, such as writing to a full disk."""
    try:
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise StorageError(f"the state of jobs cannot be stored: {error}") from error


def insert(database: sqlite3.Connection, job: NewJob) -> None:
    """Inside a transaction."""
    row: dict[str, Any] = {
        "id": job.id,
        "status": "queued",
        "created_at": job.created_at,
        "retention_seconds": job.retention_seconds,
        "model": job.model,
        "model_version": job.model_version,
        "sample_rate": job.sample_rate,
        "format": job.format,
        "characters": job.characters,
        "speech": _speech_json(job.speech),
        "total": len(job.sentences),
    }
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    seq = database.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", row).lastrowid
    database.executemany(
        "INSERT INTO sentences (job, number, text, pause_before, pause_after) VALUES (?, ?, ?, ?, ?)",
        ((seq, number, line.text, line.before, line.after) for number, line in enumerate(job.sentences)),
    )


def select(database: sqlite3.Connection, where: str, values: tuple[Any, ...] = ()) -> list[StoredJob]:
    """The jobs that match `where`, a constant of the caller with its ORDER BY and LIMIT."""
    return [_job(row) for row in database.execute(f"SELECT * FROM jobs WHERE {where}", values)]


def spoken(database: sqlite3.Connection, seq: int, first: int = 0, limit: int = -1) -> list[Sentence]:
    """The finished sentences of a job from number `first`, in order."""
    rows = database.execute(
        "SELECT number, ends_at, audio_seconds, busy_seconds, finish_reason FROM sentences "
        "WHERE job = ? AND number >= ? AND ends_at IS NOT NULL ORDER BY number LIMIT ?",
        (seq, first, limit),
    )
    return [Sentence(*row) for row in rows]


def set_progress(database: sqlite3.Connection, seq: int, progress: Progress) -> None:
    """Inside a transaction."""
    database.execute(
        "UPDATE jobs SET done = ?, size = ?, audio_seconds = ?, busy_seconds = ?, finish_reason = ? WHERE seq = ?",
        (progress.done, progress.size, progress.audio_seconds, progress.busy_seconds, progress.finish_reason, seq),
    )


def _speech_json(speech: Speech) -> str:
    values = asdict(speech)
    del values["text"]
    return json.dumps(values)


def _speech(text: str) -> Speech:
    values: dict[str, Any] = json.loads(text)
    sampling, switches = Sampling(**values.pop("sampling")), Switches(**values.pop("switches"))
    languages = tuple(values.pop("languages"))
    return Speech(text="", sampling=sampling, switches=switches, languages=languages, **values)


def _job(row: sqlite3.Row) -> StoredJob:
    progress = Progress(
        row["total"], row["done"], row["size"], row["audio_seconds"], row["busy_seconds"], row["finish_reason"]
    )
    plain = ("seq", "id", "status", "created_at", "started_at", "finished_at", "expires_at", "retention_seconds",
             "model", "model_version", "sample_rate", "format", "characters", "error_code",
             "error_message")  # fmt: skip
    return StoredJob(speech=_speech(row["speech"]), progress=progress, **{name: row[name] for name in plain})
