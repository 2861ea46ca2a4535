"""One client of `/v1/tts/stream`: reads its messages, lets them be spoken, sends the events, ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from kestrel.engine import Engine
from kestrel.service.errors import ApiError, to_api_error
from kestrel.service.live.draft import Draft, Utterance
from kestrel.service.live.outbox import MAX_REPLIES, Outbox
from kestrel.service.live.protocol import (
    ClearMessage,
    CloseMessage,
    ConfigMessage,
    FlushMessage,
    SessionConfig,
    TextMessage,
    failure,
    parse,
    ready,
)
from kestrel.service.live.speaker import Speaker
from kestrel.service.planner import PlanError
from kestrel.service.runtime import Runtime

NORMAL, POLICY, INTERNAL = 1000, 1008, 1011
_LONG = 2000
"""Characters from which text work leaves the event loop: it takes about a microsecond each."""

T = TypeVar("T")


class Session:
    """From the accepted connection to its end. Every failure ends the session, never the server."""

    def __init__(
        self, socket: WebSocket, request_id: str, runtime: Runtime, engine: Engine, take: Callable[[], None]
    ) -> None:
        """`take` is called for every utterance, and raises ApiError when its client has had too many."""
        self._take = take
        self._socket = socket
        self._settings = runtime.settings
        self._info = engine.info
        self._config = SessionConfig.default(engine.info, runtime.settings)
        self._draft = Draft(runtime.settings.max_text_chars)
        self._outbox = Outbox()
        self._speaker = Speaker(request_id, runtime, engine, self._draft, self._outbox)
        self._over = False
        self._outbox.put(ready(request_id, self._info, self._settings, self._config))

    async def run(self) -> None:
        """Returns when the connection is over; the engine's slot is free then."""
        sender = asyncio.create_task(self._outbox.run(self._socket, self._settings.request_timeout))
        speaker = asyncio.create_task(self._speaker.run())
        reader = asyncio.create_task(self._read())
        tasks = (reader, speaker, sender)
        cause = "disconnect"
        code = INTERNAL
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if _ended_well(speaker) or (_ended_well(reader) and reader.result() == POLICY):
                # Everything was spoken after `close`, or the client was silent for too long: send the rest, then close.
                self._say_goodbye()
                still = {sender} if reader.done() else {sender, reader}
                await asyncio.wait(still, return_when=asyncio.FIRST_COMPLETED)
            code = self._code(reader, speaker, sender)
        except asyncio.CancelledError:
            cause = "shutdown"
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._speaker.give_up(cause)
        if self._socket.client_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError, WebSocketDisconnect):  # the client was quicker
                await self._socket.close(code)

    @staticmethod
    def _code(reader: asyncio.Task[int], speaker: asyncio.Task[None], sender: asyncio.Task[None]) -> int:
        """The code to close with. A failure of ours is written to the log."""
        for task in (reader, speaker, sender):
            error = task.exception() if task.done() else None
            if isinstance(error, TimeoutError):
                return POLICY  # the client took nothing for too long
            if isinstance(error, Exception) and not isinstance(error, WebSocketDisconnect):
                to_api_error(error)
                return INTERNAL
        return reader.result() if reader.done() else NORMAL

    def _say_goodbye(self) -> None:
        self._over = True
        audio = round(self._speaker.spoken_seconds, 6)
        self._outbox.put({"type": "session.done", "utterances": self._draft.next_number, "audio_seconds": audio})
        self._outbox.finish()

    async def _read(self) -> int:
        """Takes messages until the client leaves or is silent for too long. Returns the code to close with."""
        while True:
            await self._outbox.room(lambda: self._outbox.unsent_replies < MAX_REPLIES)
            try:
                async with asyncio.timeout(self._settings.live_idle_seconds):
                    message = await self._socket.receive()
            except TimeoutError:
                if self._speaker.busy or not self._outbox.empty:
                    continue
                seconds = self._settings.live_idle_seconds
                silent = ApiError(408, f"no message came for {seconds:g} s, the limit", code="idle_timeout")
                self._outbox.put(failure(silent, None))
                return POLICY
            if message["type"] == "websocket.disconnect":
                return NORMAL
            try:
                text = message.get("text")
                if text is None:
                    told = "binary messages are not understood; send JSON objects as text messages"
                    raise ApiError(400, told, code="binary_message")
                await self._handle(text)
            except (ApiError, PlanError) as error:
                writing = self._draft.writing()
                self._outbox.put(failure(to_api_error(error), writing.number if writing else None))
            self._speaker.wake()

    async def _handle(self, text: str) -> None:
        message = parse(text)
        if isinstance(message, ClearMessage):
            cleared = self._speaker.clear()
            if not self._over:  # session.done is the last event
                self._outbox.put(cleared)
            return
        if self._speaker.closing:
            raise ApiError(409, "the session is closing; only clear is still taken", code="session_closing")
        match message:
            case ConfigMessage():
                self._config = self._config.changed(message, self._info, self._settings)
                self._outbox.put(self._config.event())
            case TextMessage():
                await self._write(message.text)
            case FlushMessage():
                await self._flush()
            case CloseMessage():
                self._speaker.closing = True
                writing = self._draft.writing()
                if writing is not None:
                    await self._complete(writing)

    async def _flush(self) -> None:
        writing = self._draft.writing()
        if writing is None:  # an empty one, which costs nothing
            writing = self._draft.open(self._config.fresh(self._info, self._settings), self._config.audio)
        await self._complete(writing)

    def _writing(self) -> Utterance:
        """The utterance being written; a new one, with the configuration of now, if there is none."""
        writing = self._draft.writing()
        if writing is None:
            writing = self._draft.open(self._config.fresh(self._info, self._settings), self._config.audio)
            try:
                self._take()
            except ApiError:
                writing.refuse()  # all of it, not only the part that came too early
                raise
        return writing

    async def _write(self, text: str) -> None:
        self._draft.check_room(len(text))
        utterance = self._writing()
        utterance.characters += len(text)
        if utterance.refused:
            return
        try:
            utterance.sentences.extend(await _worked(len(text), lambda: utterance.buffer.feed(text)))
        except PlanError:
            utterance.refuse()
            raise

    async def _complete(self, utterance: Utterance) -> None:
        try:
            if not utterance.refused:
                utterance.sentences.extend(await _worked(utterance.buffer.held, utterance.buffer.end))
        except PlanError:
            utterance.refuse()
            raise
        finally:
            utterance.complete = True


def _ended_well(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _worked(characters: int, work: Callable[[], T]) -> T:
    """Long texts are worked on in a thread."""
    return await asyncio.to_thread(work) if characters > _LONG else work()
