"""The reply to a speech request: runs the job, sends its audio, notices a client that leaves.

The status line is decided when the first audio or the failure exists, whichever is first. A failure after the first
byte leaves the chunked body without its end, so the client sees a broken transfer instead of a complete, shorter file.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kestrel.engine import ClosedError
from kestrel.service.containers import Container, Pcm
from kestrel.service.errors import SERVER, ApiError, to_api_error
from kestrel.service.job import Job
from kestrel.service.metrics import PHASES
from kestrel.service.playback import Playback
from kestrel.service.record import RequestRecord
from kestrel.service.runtime import Runtime
from kestrel.service.speech import add_phases

_log = logging.getLogger("kestrel.service")


class SpeechResponse(Response):
    """ASGI response that owns the whole life of one job."""

    def __init__(
        self,
        job: Job,
        container: Container,
        record: RequestRecord,
        runtime: Runtime,
    ) -> None:
        """`record.speech` must be there; it is filled in as the reply goes on."""
        assert record.speech is not None
        self._job = job
        self._container = container
        self._record = record
        self._speech = record.speech
        self._runtime = runtime
        self._rate = job.sample_rate
        self._begun = False
        self._encode_seconds = 0.0
        self._send_seconds = 0.0
        self._playback = Playback()
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._runtime.busy():
            await self._run(receive, send)

    async def _run(self, receive: Receive, send: Send) -> None:
        producer = asyncio.create_task(self._job.run())
        watcher = asyncio.create_task(_disconnected(receive))
        sender = asyncio.create_task(self._stream(send) if self._speech.stream else self._whole(send))
        tasks = (sender, watcher, producer)
        try:
            await asyncio.wait({watcher, sender}, return_when=asyncio.FIRST_COMPLETED)
            if not sender.done():
                self._speech.cancelled = "disconnect"
        except asyncio.CancelledError:
            self._speech.cancelled = "shutdown"
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fill_record()
        if self._speech.cancelled is None:
            self._settle(sender)

    def _settle(self, sender: asyncio.Task[None]) -> None:
        """Raises a failure that can still become a status; swallows one that can only break the transfer."""
        error = sender.exception()
        if error is None:
            if self._speech.rtf is not None:
                self._runtime.admission.measured(self._speech.rtf)
            return
        self._speech.failed = True
        if isinstance(error, ClosedError):
            self._runtime.lost(error)
        if not self._begun or not isinstance(error, Exception):
            raise error
        code = to_api_error(error).code
        self._record.error_code = code
        _log.error("stream broken off after its first byte", extra={"fields": {"error_code": code}})

    async def _stream(self, send: Send) -> None:
        started = self._record.started
        head = self._container.header(None)
        async for pcm in self._job.blocks():
            data = self._encode(pcm)
            if not self._begun:
                await self._start(send, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
                data = head + data
            await self._send(send, data)
            now = monotonic()
            self._playback.arrive(now, len(pcm) / self._rate)
            if self._speech.first_audio_seconds is None:
                self._speech.first_audio_seconds = now - started
        if not self._begun:
            raise _no_audio()
        await self._send(send, b"", last=True)

    async def _whole(self, send: Send) -> None:
        blocks: list[bytes] = []
        samples = 0
        async for pcm in self._job.blocks():
            blocks.append(self._encode(pcm))
            samples += len(pcm)
        if not samples:
            raise _no_audio()
        head = self._container.header(samples)
        await self._start(send, self._figures() | {"Content-Length": str(len(head) + sum(map(len, blocks)))})
        await self._send(send, head)
        for block in blocks:  # sent one by one: joining minutes of audio would hold up the loop
            await self._send(send, block)
        await self._send(send, b"", last=True)

    def _figures(self) -> dict[str, str]:
        """Headers that only a finished request can have."""
        self._fill_record()
        totals, rtf = self._speech.totals, self._speech.rtf
        timing = ", ".join(f"{name};dur={self._speech.phases.get(name, 0.0) * 1000:.3f}" for name in PHASES)
        return {
            "X-Finish-Reason": totals.finish_reason,
            "X-Audio-Seconds": f"{totals.audio_seconds:.6f}",
            "X-Wall-Seconds": f"{monotonic() - self._record.started:.6f}",
            "X-RTF": f"{rtf or 0.0:.6f}",
            "Server-Timing": timing,
        }

    def _encode(self, pcm: Pcm) -> bytes:
        started = monotonic()
        data = self._container.block(pcm)
        self._encode_seconds += monotonic() - started
        return data

    async def _start(self, send: Send, more: dict[str, str]) -> None:
        self._begun = True
        headers = {
            "Content-Type": self._container.media_type,
            "X-Model": self._speech.model,
            "X-Sample-Rate": str(self._rate),
            "X-Seed": str(self._speech.seed),
        }
        raw = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in (headers | more).items()]
        await send({"type": "http.response.start", "status": self.status_code, "headers": raw})

    async def _send(self, send: Send, data: bytes, *, last: bool = False) -> None:
        started = monotonic()
        await send({"type": "http.response.body", "body": data, "more_body": not last})
        self._send_seconds += monotonic() - started

    def _fill_record(self) -> None:
        job, speech = self._job, self._speech
        speech.totals = job.totals
        speech.queue_seconds = job.queue_seconds + job.totals.phases.get("queue", 0.0)
        speech.cancel_seconds = job.cancel_seconds
        speech.underrun_seconds = self._playback.underrun_seconds
        own = {
            "queue": job.queue_seconds,
            "text": job.plan_seconds,
            "encode": self._encode_seconds,
            "send_wait": self._send_seconds,
        }
        speech.phases = add_phases([job.totals.phases, own])


def _no_audio() -> ApiError:
    return ApiError(500, "the engine gave no audio for this text", code="no_audio", kind=SERVER)


async def _disconnected(receive: Receive) -> None:
    """Returns when the client has gone. The request body has been read before, so only a disconnect can come."""
    while (await receive())["type"] != "http.disconnect":
        pass
