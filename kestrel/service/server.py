"""Runs the application under uvicorn: binds the port, says when it can speak, shuts down in order."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI

from kestrel.service.http_protocol import HttpProtocol
from kestrel.service.jobs.jobs import Jobs
from kestrel.service.runtime import Runtime
from kestrel.service.settings import Settings

_log = logging.getLogger("kestrel.service")

Say = Callable[[str], None]


class BindError(Exception):
    """The address cannot be listened on."""


def bind(host: str, port: int) -> socket.socket:
    """A bound socket, so that a taken port is told in one line and port 0 is known before the server runs."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, proto)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise BindError(f"cannot listen on {host}:{port}: {reason}; choose another with --host and --port") from error
    return bound


def url_of(bound: socket.socket, host: str) -> str:
    """The address to open in a client. An address for every interface is shown as the local host."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{bound.getsockname()[1]}"


def is_exposed(host: str) -> bool:
    """True unless only this machine can reach the address."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def serve(app: FastAPI, settings: Settings, say: Say) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code: 0, or 1 when the model could not be loaded.

    `say` gets the lines for the person who started it. Raises BindError.
    """
    bound = bind(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=HttpProtocol,
        h11_max_incomplete_event_size=settings.max_header_bytes,
        ws="websockets-sansio",
        ws_max_size=settings.max_body_bytes,
        # No time limit for the answer to a ping: it queues behind audio that a slow listener has not taken yet.
        ws_ping_timeout=None,
        ws_per_message_deflate=False,  # PCM does not shrink, and every connection would hold a compressor
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = _Server(config, app, settings, url_of(bound, settings.host), say)
    for signum in (signal.SIGTERM, signal.SIGINT):
        # uvicorn puts these back when it is done: a second signal must not kill what has already ended well.
        signal.signal(signum, signal.SIG_IGN)
    server.run(sockets=[bound])
    return server.exit_code


class _Server(uvicorn.Server):
    """uvicorn with our own ending: readiness goes first, then streams get their grace, then the exit code is 0."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings, url: str, say: Say) -> None:
        super().__init__(config)
        self.exit_code = 0
        self._app = app
        self._settings = settings
        self._url = url
        self._say = say
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _runtime(self) -> Runtime:
        runtime: Runtime = self._app.state.runtime
        return runtime

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._say(f"Listening on {self._url}, loading model {self._settings.model}")
        self._begin(self._announce())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not calling uvicorn's own: it would raise the signal again at the end, and the exit code would not be 0.
        if self._loop is None:
            self.should_exit = True
            return
        self._loop.call_soon_threadsafe(self._exit_asked)

    def _exit_asked(self) -> None:
        if self._runtime.status == "draining":
            self._say("Asked again: cutting off what still runs")
            self.should_exit = True
            self.config.timeout_graceful_shutdown = 0
        else:
            self._begin(self._drain())

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self) -> None:
        await self._runtime.settled.wait()
        readiness = self._runtime.readiness()
        if readiness.status == "ready":
            jobs: Jobs = self._app.state.jobs
            if jobs.desk.off is not None:
                self._say(f"warning: no jobs on this server: {jobs.desk.off}")
            self._say(f"Ready: {self._url} (model {readiness.model}; interface: {self._url}/docs)")
        elif readiness.status == "failed":
            self._say(f"error: {readiness.message}")
            self.exit_code = 1
            self.should_exit = True

    async def _drain(self) -> None:
        """The port stays open meanwhile, so that probes see 503 and clients a Retry-After instead of a refusal."""
        self._runtime.drain()
        deadline = monotonic() + self._settings.grace_seconds
        if self._runtime.active:
            self._say(f"Shutting down: {self._runtime.active} running, at most {self._settings.grace_seconds:g} s")
        while self._runtime.active and monotonic() < deadline and not self.should_exit:
            await asyncio.sleep(0.05)
        if self._runtime.active:
            _log.warning("grace period over", extra={"fields": {"cut_off": self._runtime.active}})
            self.config.timeout_graceful_shutdown = 0
        else:
            self.config.timeout_graceful_shutdown = 5  # idle and half-sent connections
        self.should_exit = True
