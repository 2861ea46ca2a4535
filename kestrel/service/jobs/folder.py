"""The folder of jobs: who may use it, and the files of audio in it.

    lock            held for as long as a server uses the folder
    jobs.sqlite3    state
    audio/ID.part   audio of an unfinished job: 16-bit little-endian mono samples, nothing else
    audio/ID.pcm    audio of a completed job

Functions that touch the audio of one job take its id and refuse anything that is not one.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kestrel.service.jobs.state import is_id

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600


class FolderError(OSError):
    """The folder cannot be used; the message says why and what to do."""


class StorageError(Exception):
    """Something could not be stored; the message says what."""


def default_folder() -> Path:
    """Where jobs live unless a setting says otherwise (XDG Base Directory Specification 0.8, state files)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "kestrel" / "jobs"


class Folder:
    """An opened folder; no other server can open it meanwhile. Closing, or the end of the process, lets go of it."""

    def __init__(self, path: Path) -> None:
        """Makes the folder if need be. Raises FolderError."""
        self.path = path
        self.database = path / "jobs.sqlite3"
        self._audio = path / "audio"
        try:
            path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._audio.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
            self._probe()
            # The system drops the lock with the process, however that ends, so a stale file never locks anyone out.
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        except OSError as error:
            raise FolderError(
                f"cannot store jobs in {path}: {error.strerror or error}; make it writable or set KESTREL_JOBS_FOLDER"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            raise FolderError(
                f"another server (process {owner}) stores its jobs in {path}; stop it or set KESTREL_JOBS_FOLDER"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        os.close(self._lock)

    def audio(self, job: str) -> Path:
        """File of a completed job."""
        return self._file(job, "pcm")

    def append(self, job: str, at: int, pcm: bytes) -> None:
        """Writes the next samples of an unfinished job, which has `at` bytes so far, and waits for the disk.

        Whatever a failed attempt left behind `at` is dropped. Raises StorageError; the file then ends at `at` again.
        """
        path = self._file(job, "part")
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE_FILE)
            try:
                os.ftruncate(file, at)
                _write_all(file, pcm, at)
                os.fsync(file)
            except OSError:
                os.ftruncate(file, at)
                raise
            finally:
                os.close(file)
            if at == 0:
                self._settle()
        except OSError as error:
            raise StorageError(f"the audio cannot be written: {error.strerror or error}") from error

    def complete(self, job: str) -> None:
        """Gives the audio its final name. Raises StorageError."""
        try:
            os.rename(self._file(job, "part"), self._file(job, "pcm"))
            self._settle()
        except OSError as error:
            raise StorageError(f"the audio cannot be completed: {error.strerror or error}") from error

    def reopen(self, job: str) -> int:
        """Size of the audio that an unfinished job has on disk; undoes a `complete` that nobody took note of."""
        part, whole = self._file(job, "part"), self._file(job, "pcm")
        if whole.exists() and not part.exists():
            os.rename(whole, part)
        return part.stat().st_size if part.exists() else 0

    def remove(self, job: str) -> None:
        """Deletes every file of a job. Readers that have one open keep reading it."""
        for path in self._audio.glob(self._file(job, "*").name):
            path.unlink(missing_ok=True)

    def ids(self) -> set[str]:
        """The jobs that have a file."""
        names = (path.name.partition(".")[0] for path in self._audio.iterdir())
        return {name for name in names if is_id(name)}

    def _file(self, job: str, suffix: str) -> Path:
        if not is_id(job):
            raise ValueError("not the id of a job")
        return self._audio / f"{job}.{suffix}"

    def _settle(self) -> None:
        """Makes names durable: a new file may otherwise be gone after a power cut although its content was synced."""
        folder = os.open(self._audio, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _probe(self) -> None:
        """Fails now rather than with the first job, on a file system that is mounted read-only or full."""
        probe = self._audio / f".probe-{os.getpid()}"
        try:
            probe.write_bytes(b"\0")
        finally:
            probe.unlink(missing_ok=True)


def _write_all(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
