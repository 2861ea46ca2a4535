"""Jobs on disk: cut files, strange folders, limits, expiry, pages."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel.service.jobs import database
from kestrel.service.jobs.database import Line
from kestrel.service.jobs.folder import FolderError, StorageError
from kestrel.service.jobs.state import new_id
from kestrel.service.jobs.store import JOB_BYTES, DiskLimit, Store, TooManyJobs
from tests.service.jobs.stored import AUDIO, DROPPED, KEPT, PLENTY, finish, new, spoken


@pytest.mark.parametrize("left", [0, 1, 199, 200, 300, 401, 10_000])
def test_a_cut_or_padded_file_is_mended(tmp_path: Path, left: int) -> None:
    """A disk check after a power cut may shorten or pad a file: what is missing is spoken again, never skipped."""
    store = Store(tmp_path, PLENTY)
    store.create(new(), 10)
    job = store.take()
    assert job is not None
    for number in range(2):
        store.record(job, spoken(number))
    store.close()
    os.truncate(tmp_path / "audio" / f"{KEPT}.part", left)
    store = Store(tmp_path, PLENTY)
    assert store.resumed == 1
    found = store.find(KEPT)
    assert found is not None
    assert (found.status, found.progress.done) == ("queued", sum(left >= end for end in (200, 402)))
    finish(store)
    assert store.audio(KEPT).read_bytes() == b"".join(AUDIO)
    store.close()


def test_audio_that_is_gone_is_told(tmp_path: Path) -> None:
    """Catches a job that stays `completed` without anything to download."""
    store = Store(tmp_path, PLENTY)
    finish(store)
    store.close()
    (tmp_path / "audio" / f"{KEPT}.pcm").unlink()
    store = Store(tmp_path, PLENTY)
    job = store.find(KEPT)
    assert job is not None
    assert (job.status, job.error_code) == ("failed", "audio_lost")
    store.close()


def test_strangers_files_are_left_alone_and_strays_are_not(tmp_path: Path) -> None:
    """Deleting what is not ours would be worse than keeping it."""
    store = Store(tmp_path, PLENTY)
    store.close()
    for name in ("notes.txt", "job_notes.pcm", f"{DROPPED}.part", f"{DROPPED}.mp3"):
        (tmp_path / "audio" / name).write_bytes(b"x")
    Store(tmp_path, PLENTY).close()
    assert {file.name for file in (tmp_path / "audio").iterdir()} == {"notes.txt", "job_notes.pcm"}


def test_one_folder_one_server(tmp_path: Path) -> None:
    """Two would speak the same jobs into the same files. A lock left by a dead process must not lock anyone out."""
    store = Store(tmp_path, PLENTY)
    with pytest.raises(FolderError, match=rf"another server \(process {os.getpid()}\).*KESTREL_JOBS_FOLDER"):
        Store(tmp_path, PLENTY)
    store.close()
    assert (tmp_path / "lock").exists()
    Store(tmp_path, PLENTY).close()


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    """Each gets one sentence that says what to do, instead of a traceback with the first job."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="Not a directory; make it writable or set KESTREL_JOBS_FOLDER"):
        Store(tmp_path / "file" / "jobs", PLENTY)
    with pytest.raises(FolderError, match="cannot store jobs in /proc"):
        Store(Path("/proc/jobs"), PLENTY)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "jobs.sqlite3").write_bytes(b"This is no database. " * 100)
    with pytest.raises(FolderError, match="not a database; repair it or move it away"):
        Store(tmp_path / "bad", PLENTY)
    Store(tmp_path / "new", PLENTY).close()
    with sqlite3.connect(tmp_path / "new" / "jobs.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FolderError, match="version 99, made by a newer server"):
        Store(tmp_path / "new", PLENTY)


def test_a_locked_database_is_refused_at_start_and_cannot_be_locked_later(tmp_path: Path) -> None:
    """Another program on the database must not make a job's write fail in the middle of the night."""
    Store(tmp_path, PLENTY).close()
    other = sqlite3.connect(tmp_path / "jobs.sqlite3", isolation_level=None, timeout=0)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_BUSY_SECONDS", 0.05)
        with pytest.raises(FolderError, match="locked"):
            Store(tmp_path, PLENTY)
    other.execute("ROLLBACK")
    other.close()
    store = Store(tmp_path, PLENTY)
    # In a process of its own: within one, POSIX file locks do not hold each other off.
    script = (
        f"import sqlite3; sqlite3.connect({str(tmp_path / 'jobs.sqlite3')!r}, timeout=0).execute('BEGIN EXCLUSIVE')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "locked" in done.stderr
    finish(store)
    store.close()


def test_text_is_erased_when_a_job_ends(tmp_path: Path) -> None:
    """What was said is nobody's business afterwards: not in a row, not in a free page, not in the journal."""
    store = Store(tmp_path, PLENTY)
    secret = "The password is swordfish."
    job = new()
    job.sentences[:] = [Line(secret)]
    store.create(job, 10)
    taken = store.take()
    assert taken is not None
    store.record(taken, spoken(0))
    store.complete(KEPT)
    store.close()
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_limits(tmp_path: Path) -> None:
    """Catches disk space promised twice, and space that an ended job never gives back."""
    cost = JOB_BYTES + 14 + 2 * round(14 / 15 * 16000)
    store = Store(tmp_path, 2 * cost + 100)
    first, second, third = new_id(), new_id(), new_id()
    store.create(new(first), 10)
    with pytest.raises(TooManyJobs):
        store.create(new(second), 1)
    store.create(new(second), 10)
    with pytest.raises(DiskLimit) as limit:
        store.create(new(third), 10)
    assert limit.value.wanted == cost
    assert store.find(third) is None
    store.delete(second)
    store.create(new(third), 10)
    job = store.take()
    assert job is not None
    store.record(job, spoken(0))
    with pytest.raises(DiskLimit):
        store.record(job, spoken(1, bytes(2 * cost)))
    assert store.find(first).progress.done == 1  # type: ignore[union-attr]
    store.fail(first, "storage_full", "full")
    assert not list((tmp_path / "audio").iterdir())
    assert store.census().jobs == {"queued": 1, "running": 0, "completed": 0, "failed": 1}
    assert store.census().bytes == 2 * JOB_BYTES + 14
    store.close()


def test_a_full_disk_leaves_the_audio_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-written sentence must not become the beginning of the next attempt."""
    store = Store(tmp_path, PLENTY)
    store.create(new(), 10)
    job = store.take()
    assert job is not None
    store.record(job, spoken(0))
    write = os.pwrite

    def half(file: int, data: bytes, at: int) -> int:
        if at > 250:
            raise OSError(28, "No space left on device")
        return write(file, data[:60], at)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(StorageError, match="No space left"):
        store.record(job, spoken(1))
    assert (tmp_path / "audio" / f"{KEPT}.part").stat().st_size == 200
    monkeypatch.undo()
    store.record(job, spoken(1))
    store.record(job, spoken(2))
    store.complete(KEPT)
    assert store.audio(KEPT).read_bytes() == b"".join(AUDIO)
    store.close()


def test_jobs_expire(tmp_path: Path) -> None:
    """Catches audio kept for ever, removed too soon, or removed while unfinished."""
    now = 100.0
    store = Store(tmp_path, PLENTY, clock=lambda: now)
    store.create(new(retention=10.0), 10)
    now = 1000.0
    assert store.expire() == []
    finish(store)
    now = 1009.0
    assert store.expire() == []
    assert store.next_expiry() == 1010.0
    now = 1010.0
    assert [job.id for job in store.expire()] == [KEPT]
    assert store.find(KEPT) is None
    assert not list((tmp_path / "audio").iterdir())
    store.close()


def test_pages_are_stable(tmp_path: Path) -> None:
    """Catches jobs shown twice or not at all because others came or went between two pages."""
    store = Store(tmp_path, PLENTY)
    ids = [new_id() for _ in range(7)]
    for job in ids[:6]:
        store.create(new(job), 10)
    first = store.page(2, None, None)
    store.create(new(ids[6]), 10)
    store.delete(ids[4])
    second = store.page(10, first[-1].seq, None)
    assert [job.id for job in [*first, *second]] == [ids[5], ids[4], ids[3], ids[2], ids[1], ids[0]]
    store.take()
    assert [job.id for job in store.page(10, None, "running")] == [ids[0]]
    store.close()


def test_nobody_else_can_read(tmp_path: Path) -> None:
    """Texts and audio of others' jobs on a shared machine."""
    umask = os.umask(0)
    try:
        store = Store(tmp_path / "jobs", PLENTY)
        store.create(new(), 10)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").iterdir()}
        finish(store)
    finally:
        os.umask(umask)
    assert modes.keys() >= {"lock", "audio", "jobs.sqlite3", "jobs.sqlite3-wal"}
    assert {mode & 0o077 for mode in modes.values()} == {0}
    assert store.audio(KEPT).stat().st_mode & 0o077 == 0
    store.close()


def test_only_ids_become_paths(tmp_path: Path) -> None:
    """The last line of defence, should a route ever forget to look."""
    store = Store(tmp_path, PLENTY)
    for job in ("../../etc/passwd", "job_*", "job_" + "A" * 32, "", KEPT + "\n"):
        with pytest.raises(ValueError, match="not the id"):
            store.audio(job)
    store.close()
