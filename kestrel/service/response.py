"""The reply to a speech request: runs the job, encodes and sends its audio, notices a client that leaves.

The status line is decided when the first audio or the failure exists, whichever is first. A failure after the first
byte leaves the chunked body without its end, so the client sees a broken transfer instead of a complete, shorter file.
Encoding happens in a thread, one block at a time; the event loop only waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic, perf_counter

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kestrel.engine import ClosedError
from kestrel.service.errors import SERVER, ApiError, to_api_error
from kestrel.service.framing import BareAudio, Framing, Place, Summary
from kestrel.service.job import Block, Job, PieceEnd
from kestrel.service.metrics import PHASES
from kestrel.service.output import AudioOutput
from kestrel.service.playback import Playback
from kestrel.service.record import RequestRecord
from kestrel.service.runtime import Runtime
from kestrel.service.speech import add_phases
from kestrel.service.timings import Timeline

_log = logging.getLogger("kestrel.service")

_SEND_BYTES = 1 << 18
"""A whole reply is sent in parts: the server copies what it is given, and minutes of audio would hold up the loop."""


class SpeechResponse(Response):
    """ASGI response that owns the whole life of one job."""

    def __init__(
        self,
        job: Job,
        output: AudioOutput,
        framing: Framing,
        record: RequestRecord,
        runtime: Runtime,
        *,
        text: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`record.speech` must be there; it is filled in as the reply goes on. `text`: the caller's, for spans."""
        assert record.speech is not None
        self._job = job
        self._output = output
        self._framing = framing
        self._text = text
        self._more_headers = dict(headers or {})
        self._record = record
        self._speech = record.speech
        self._runtime = runtime
        self._begun = False
        self._timeline: Timeline | None = None
        self._piece: int | None = None  # that the latest block belongs to
        self._held = b""
        self._emitted_seconds = 0.0  # audio in the bytes so far
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
        sender = asyncio.create_task(self._whole(send) if self._output.whole else self._stream(send))
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
        try:
            async for event in self._job.events():
                await self._advance(send, await self._work(partial(self._frame, event)))
            await self._advance(send, await self._end())
        except Exception as error:
            if self._begun:
                await self._send(send, self._framing.failed(to_api_error(error).body()))
            raise
        await self._send(send, b"", last=True)

    async def _advance(self, send: Send, data: bytes) -> None:
        """Sends bytes, the first ones behind the status line."""
        if not data:
            return
        if not self._begun:
            await self._start(send, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        await self._send(send, data)
        now, seconds = monotonic(), self._output.seconds
        if seconds > self._emitted_seconds:
            self._playback.arrive(now, seconds - self._emitted_seconds)
            self._emitted_seconds = seconds
            if self._speech.first_audio_seconds is None:
                self._speech.first_audio_seconds = now - self._record.started

    async def _whole(self, send: Send) -> None:
        async for event in self._job.events():
            await self._work(partial(self._frame, event))
        data = await self._end()
        await self._start(send, self._figures() | {"Content-Length": str(len(data))})
        for start in range(0, len(data), _SEND_BYTES):
            await self._send(send, data[start : start + _SEND_BYTES])
        await self._send(send, b"", last=True)

    def _frame(self, event: Block | PieceEnd) -> bytes:
        """Bytes of the reply that follow from an event of the job. In a thread."""
        if isinstance(event, Block):
            self._piece = event.piece
            data = self._output.encode(event.pcm)
            return self._released() + self._framing.audio(data, self._place()) if data else b""
        timeline = self._times()
        if timeline is not None:
            self._held += self._framing.sentence(timeline.ended(event.piece, event.start, event.result))
        return self._released() if self._begun else b""

    def _released(self) -> bytes:
        """What was held back: the end of a sentence must not begin the reply, which is an error without audio."""
        data, self._held = self._held, b""
        return data

    async def _end(self) -> bytes:
        """The last bytes of the reply. Framed apart from their encoding, so that the summary tells of all of that."""
        if self._piece is None:
            raise _no_audio()
        data = await self._work(self._output.finish)
        return await self._work(lambda: self._released() + self._framing.done(data, self._place(), self._summary()))

    def _place(self) -> Place:
        assert self._piece is not None
        timeline = self._times()
        span = (0, 0) if timeline is None else timeline.span(self._piece)
        return Place(self._piece, span, self._emitted_seconds)

    def _times(self) -> Timeline | None:
        if self._timeline is None and self._framing.timed:
            self._timeline = Timeline(self._text, self._job.pieces, self._output.speed)
        return self._timeline

    async def _work(self, work: Callable[[], bytes]) -> bytes:
        """Encodes beside the event loop, on the clock of the phase `encode`."""

        def timed() -> bytes:
            started = perf_counter()
            try:
                return work()
            finally:
                self._encode_seconds += perf_counter() - started

        return await asyncio.to_thread(timed)

    def _summary(self) -> Summary:
        self._fill_record()
        speech = self._speech
        return Summary(
            model=speech.model,
            voice=speech.voice,
            seed=speech.seed,
            characters=speech.characters,
            frames=speech.totals.frames,
            finish_reason=speech.totals.finish_reason,
            audio_seconds=self._output.seconds,
            wall_seconds=monotonic() - self._record.started,
            rtf=speech.rtf or 0.0,
            phases={name: speech.phases.get(name, 0.0) for name in PHASES},
        )

    def _figures(self) -> dict[str, str]:
        """Headers that only a finished request can have."""
        summary = self._summary()
        return {
            "X-Finish-Reason": summary.finish_reason,
            "X-Audio-Seconds": f"{summary.audio_seconds:.6f}",
            "X-Wall-Seconds": f"{summary.wall_seconds:.6f}",
            "X-RTF": f"{summary.rtf:.6f}",
            "Server-Timing": ", ".join(f"{name};dur={value * 1000:.3f}" for name, value in summary.phases.items()),
        }

    async def _start(self, send: Send, more: dict[str, str]) -> None:
        self._begun = True
        headers = {
            "Content-Type": self._framing.media_type,
            "X-Model": self._speech.model,
            "X-Voice": self._speech.voice,
            "X-Sample-Rate": str(self._output.sample_rate),
            "X-Seed": str(self._speech.seed),
            **self._more_headers,
        }
        if isinstance(self._framing, BareAudio):
            headers["Content-Disposition"] = f'inline; filename="speech.{self._output.format.suffix}"'
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
