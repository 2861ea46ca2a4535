"""The owner thread: the only one that calls the native library once the model is loaded."""

from __future__ import annotations

import logging
import threading
from collections import deque

from kestrel.engine.binding import NativeModel
from kestrel.engine.errors import BusyError, ClosedError, EngineError
from kestrel.engine.job import Job

_log = logging.getLogger(__name__)


class Worker:
    """Runs jobs in at most `slots` slots, in order of arrival, one frame of all of them at a time.

    The loop: admit waiting jobs into free slots, advance all by one frame, deliver samples. It sleeps while there is
    nothing to do.
    """

    def __init__(self, model: NativeModel, slots: int, max_waiting: int) -> None:
        """Takes over `model` and frees it at the end."""
        self._model = model
        self._slots = slots
        self._max_waiting = max_waiting
        self._change = threading.Condition()
        self._waiting: deque[Job] = deque()  # guarded by _change
        self._closing = False  # guarded by _change
        self._failure: Exception | None = None  # guarded by _change
        self._active: list[Job] = []
        self._thread = threading.Thread(target=self._run, name="kestrel-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Raises ClosedError or BusyError; the job is then not taken."""
        with self._change:
            self._refuse_if_closed()
            if len(self._waiting) >= self._max_waiting:
                raise BusyError(
                    f"{len(self._waiting)} utterances wait already, at most {self._max_waiting} may; try later"
                )
            self._waiting.append(job)
            self._change.notify()

    def check_open(self) -> None:
        """Raises ClosedError if no work is taken any more."""
        with self._change:
            self._refuse_if_closed()

    def wake(self) -> None:
        """Makes the loop look at cancellations. Any thread."""
        with self._change:
            self._change.notify()

    def close(self) -> None:
        """Ends all streams as cancelled, frees the model and waits for the thread. Idempotent; any thread."""
        with self._change:
            self._closing = True
            self._change.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _refuse_if_closed(self) -> None:
        if self._failure is not None:
            raise ClosedError(f"the engine has failed and takes no more work: {self._failure}")
        if self._closing:
            raise ClosedError("the engine is closed")

    def _run(self) -> None:
        try:
            while self._admit():
                self._advance()
        except Exception as error:
            _log.exception("the engine has failed")
            with self._change:
                self._failure = error
        finally:
            self._end_all()
            self._model.close()

    def _admit(self) -> bool:
        """Sleeps while idle; moves waiting jobs into free slots. False once the engine closes."""
        with self._change:
            while not (self._closing or self._waiting or self._active):
                self._change.wait()
            if self._closing:
                return False
            cancelled = [job for job in self._waiting if job.stream.cancel_reason]
            self._waiting = deque(job for job in self._waiting if not job.stream.cancel_reason)
            count = min(len(self._waiting), self._slots - len(self._active))
            admitted = [self._waiting.popleft() for _ in range(count)]
        for job in cancelled:
            job.finish(job.stream.cancel_reason or "cancelled")
        for job in admitted:
            try:
                job.open(self._model)
            except EngineError as error:  # this utterance's fault; the others go on
                job.fail(error)
            else:
                self._active.append(job)
        return True

    def _advance(self) -> None:
        """One frame of every active job."""
        for job in [job for job in self._active if job.stream.cancel_reason]:
            self._active.remove(job)
            job.finish(job.stream.cancel_reason or "cancelled")
        if not self._active:
            return
        self._model.step([job.session for job in self._active if job.session is not None])
        for job in list(self._active):
            if job.collect():
                self._active.remove(job)

    def _end_all(self) -> None:
        """Every stream gets an end: cancelled on close, the failure otherwise."""
        with self._change:
            self._closing = True
            failure = self._failure
            jobs = [*self._active, *self._waiting]
            self._waiting.clear()
        self._active = []
        for job in jobs:
            try:
                if failure is not None:
                    raise EngineError(f"the engine has failed: {failure}")
                job.finish("cancelled")
            except Exception as error:  # also from `finish`: one that cannot report must not leave the others waiting
                job.fail(error)
