"""The engine's life inside the service: load and warm up in the background, serve, drain, close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from time import monotonic, time
from typing import Any, Literal

from kestrel import __version__
from kestrel.engine import Engine, EngineError, Utterance
from kestrel.service.admission import Admission
from kestrel.service.errors import ApiError, unavailable
from kestrel.service.metrics import Metrics
from kestrel.service.schema import Readiness
from kestrel.service.settings import Settings

Status = Literal["loading", "warming", "ready", "draining", "failed"]
EngineFactory = Callable[[Settings], Engine]

_WARM_TEXT = "Hello."
_WARM_SECONDS = 2.0
_RETRY_LOADING = 2

_log = logging.getLogger("kestrel.service")


def load_engine(settings: Settings) -> Engine:
    """The engine that the settings describe. Raises ModelFileError."""
    return Engine(settings.model, slots=settings.slots, threads=settings.threads, backend=settings.backend)


class Runtime:
    """State that all routes share. Created before the engine exists, so that the port answers while it loads."""

    def __init__(self, settings: Settings, metrics: Metrics, factory: EngineFactory) -> None:
        self.settings = settings
        self.metrics = metrics
        self.admission = Admission(settings.slots, settings.queue_size, max_audio_seconds=settings.max_audio_seconds)
        self.active = 0  # speech requests not yet answered to their last byte
        self.model_created = 0  # Unix seconds when it was loaded
        self.settled = asyncio.Event()  # ready or failed
        self.draining = asyncio.Event()
        self._factory = factory
        self._engine: Engine | None = None
        self._status: Status = "loading"
        self._since = monotonic()
        self._message: str | None = None
        self._loading: asyncio.Task[None] | None = None
        metrics.watch_queue(lambda: self.admission.waiting, lambda: self.admission.running)

    @property
    def status(self) -> Status:
        return self._status

    def readiness(self) -> Readiness:
        return Readiness(
            status=self._status,
            model=self.settings.model if self._engine is None else self._engine.info.name,
            elapsed_seconds=round(monotonic() - self._since, 3),
            running=self.admission.running,
            waiting=self.admission.waiting,
            message=self._message,
        )

    def start(self, before: Callable[[], Awaitable[None]] | None = None) -> None:
        """Begins to load the engine, beside the event loop. An OSError of `before` is as fatal as a model missing."""
        self._loading = asyncio.create_task(self._load(before))

    def engine(self) -> Engine:
        """The engine, for routes that describe it. Raises ApiError 503 until it is loaded."""
        if self._engine is None or self._status in ("loading", "warming"):
            raise self._unavailable()
        return self._engine

    def speaking_engine(self) -> Engine:
        """The engine, for new speech. Raises ApiError 503 while loading, draining or failed."""
        if self._engine is None or self._status != "ready":
            raise self._unavailable()
        return self._engine

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Around a speech request: draining waits for it."""
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1

    def drain(self) -> None:
        """No new speech from now on; what runs or waits goes on."""
        if self._status != "failed":
            self._set("draining")
        self.draining.set()

    async def until_draining(self, work: Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
        """Runs `work` until it ends, the server drains, or the time is over."""
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self.draining.wait())]
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def lost(self, error: Exception) -> None:
        """The engine takes no more work: not ready any more, so that a supervisor replaces the process."""
        if self._status == "ready":
            self._fail(str(error))

    async def close(self) -> None:
        """Ends loading and frees the engine."""
        if self._loading is not None:
            await asyncio.wait([self._loading])  # a load cannot be broken off half-way; its thread must end first
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)

    async def _load(self, before: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if before is not None:
                await before()
            engine = await asyncio.to_thread(self._factory, self.settings)
            self._engine, self.model_created = engine, int(time())
            if self._status != "draining":
                self._set("warming")
                self.admission.rtf = await asyncio.to_thread(_warm_up, engine)
        except (EngineError, OSError) as error:
            self._fail(str(error))
        except Exception as error:
            _log.exception("the engine cannot start")
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self.metrics.loaded(engine.info, __version__)
            if self._status != "draining":
                self._set("ready")
        finally:
            self.settled.set()

    def _set(self, status: Status) -> None:
        self._status, self._since = status, monotonic()

    def _fail(self, message: str) -> None:
        self._message = message
        self._set("failed")
        _log.error("not ready", extra={"fields": {"error": message}})

    def _unavailable(self) -> ApiError:
        if self._status == "draining":
            return unavailable(
                "the server is shutting down; try another or come back later", retry_after=5, code="closing"
            )
        if self._status == "failed":
            return unavailable(f"the engine cannot speak: {self._message}", retry_after=60, code="engine_failed")
        message = "the model is still loading; GET /readyz tells when it is ready"
        return unavailable(message, retry_after=_RETRY_LOADING, code="loading")


def _warm_up(engine: Engine) -> float:
    """Speaks a word: plans the graphs, touches the weights, and proves that readiness means speech. Returns its RTF.

    With that, the first estimates of a wait are of this machine; they are a little high, for the planning.
    """
    stream = engine.submit(Utterance(text=_WARM_TEXT, voice=engine.info.voices[0], max_seconds=_WARM_SECONDS))
    if not sum(len(chunk.pcm) for chunk in stream):
        raise EngineError("the model made no audio for the warm-up text")
    return stream.result().rtf
