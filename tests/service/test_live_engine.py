"""Sessions of `/v1/tts/stream` on an engine that does what the test says: refusals, failures, slow clients, silence."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import httpx
import pytest
from starlette.websockets import WebSocket, WebSocketState
from websockets.exceptions import InvalidStatus

from kestrel.engine import ClosedError, EngineError
from kestrel.service.errors import ApiError
from kestrel.service.live.draft import MAX_UTTERANCES, Draft
from kestrel.service.live.outbox import MAX_REPLIES, Outbox
from kestrel.service.live.session import Session
from kestrel.service.live.speaker import Speaker
from kestrel.service.metrics import Metrics
from kestrel.service.runtime import Runtime
from kestrel.service.settings import Settings
from kestrel.service.speech import Speech
from tests.service.fake_engine import RATE, FakeEngine, FakeStream
from tests.service.live_client import live
from tests.service.server_process import wait_for
from tests.service.test_life import served, speaking


@contextmanager
def faked(fake: FakeEngine, **settings: object) -> Iterator[str]:
    """The application with this engine, ready."""
    with served(lambda settings: fake.engine, **settings) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        yield url


def test_clear_and_departure_cancel_the_engine_at_once() -> None:
    """Catches an engine that is told only at its next chunk, audio let through after `cleared`, a slot given twice."""
    fake = FakeEngine(lambda stream: stream.speak(0.5))
    with faked(fake, slots=1) as url:
        with live(url) as client:
            client.send("text", text="A sentence. ")
            client.send("flush")
            client.until("audio")
            client.send("clear")
            client.until("cleared")
            first = fake.streams[0]
            assert first.cancelled.wait(60)
            first.speak(1.0)  # a chunk that was on its way
            client.send("text", text="The next one.")
            client.send("flush")
            client.send("config")
            client.until("config")
            assert len(fake.streams) == 1, "the slot is not free before the engine says so"
            first.end("cancelled")
            client.until("audio")
            assert 0 not in [event["utterance"] for event in client.events[-2:]]
        assert fake.streams[1].cancelled.wait(60)
        fake.streams[1].end("cancelled")
        wait_for(lambda: httpx.get(f"{url}/readyz").json()["running"] == 0, "the slot is free")


def test_a_full_server_refuses_the_utterance_not_the_session() -> None:
    """Catches a session closed by overload, a refusal without a time to come back, half an utterance spoken later."""
    fake = FakeEngine()
    with faked(fake, slots=1, queue_size=0) as url, live(url) as first, live(url) as second:
        first.send("text", text="Holds the slot.")
        first.send("flush")
        wait_for(lambda: len(fake.streams) == 1, "the first runs")
        second.send("text", text="Refused sentence, here it is. And")
        error = second.until("error")
        assert error["error"]["code"] == "queue_full"
        assert error["retry_after"] >= 1
        second.send("text", text=" so is this one.")
        second.send("flush")
        assert second.until("utterance.done")["finish_reason"] == "error"
        fake.on_submit = speaking
        speaking(fake.streams[0])
        assert first.until("utterance.done")["finish_reason"] == "eos"
        second.send("text", text="Now it works.")
        second.send("close")
        assert second.rest() == 1000
        assert [event["text"] for event in second.of("sentence.start")] == ["Now it works."]


def test_failures_of_the_engine_are_events() -> None:
    """Catches a sentence that ends in nothing: every failure has an error event, an end, and the session lives on."""

    def fail(stream: FakeStream) -> None:
        stream.speak(0.5)
        stream.sink(EngineError("out of memory"))

    def silent(stream: FakeStream) -> None:
        stream.end()

    def lost(stream: FakeStream) -> None:
        raise ClosedError("the engine has failed: out of memory")

    def hang(stream: FakeStream) -> None:
        threading.Thread(target=lambda: stream.cancelled.wait(60) and stream.end("cancelled")).start()

    fake = FakeEngine()
    with faked(fake, request_timeout=1.0) as url, live(url) as client:
        for behaviour, code in [
            (fail, "engine_error"),
            (silent, "no_audio"),
            (speaking, "invalid_text"),
            (hang, "deadline_exceeded"),
            (lost, "engine_closed"),
            (speaking, "engine_failed"),
        ]:
            fake.on_submit = behaviour
            client.send("text", text="Is unspeakable." if code == "invalid_text" else "A sentence.")
            client.send("flush")
            assert client.until("error")["error"]["code"] == code
            assert client.until("utterance.done")["finish_reason"] == "error"


def test_a_silent_client_is_closed_but_not_while_it_listens() -> None:
    """Catches sockets that stay open for ever, and a listener cut off in the middle of an answer."""
    fake = FakeEngine()
    with faked(fake, live_idle_seconds=0.2) as url, live(url) as client:
        client.send("text", text="A long answer.")
        client.send("flush")
        client.until("sentence.start")
        done = threading.Event()
        assert not done.wait(0.7)
        speaking(fake.streams[0])
        assert client.rest() == 1008
        assert [event["type"] for event in client.events[-3:]] == ["utterance.done", "error", "session.done"]
        assert client.of("error")[0]["error"]["code"] == "idle_timeout"


def test_before_readiness_the_answer_is_http() -> None:
    """Catches a handshake that succeeds and then fails: a load balancer could not send the client elsewhere."""
    loaded = threading.Event()
    fake = FakeEngine()

    def slow(settings: Settings) -> object:
        loaded.wait()
        return fake.engine

    with served(slow) as url:
        try:
            with pytest.raises(InvalidStatus) as refused, live(url):
                pass
            reply = refused.value.response
            assert reply.status_code == 503
            assert int(reply.headers["Retry-After"]) >= 1
            assert reply.headers["X-Request-Id"]
            assert b'"code": "loading"' in (reply.body or b"")
        finally:
            loaded.set()


class SlowSocket:
    """Takes one message at a time, when the test says so."""

    def __init__(self) -> None:
        self.taken = 0
        self.allowed = asyncio.Semaphore(0)

    async def send_text(self, data: str) -> None:
        await self.allowed.acquire()
        self.taken += 1

    async def send_bytes(self, data: bytes) -> None:
        pass


async def _slow_client() -> None:
    fake = FakeEngine(lambda stream: (stream.speak(2.0), stream.end()))  # type: ignore[arg-type, return-value]
    settings = Settings(slots=1, read_ahead_seconds=3.0)
    runtime = Runtime(settings, Metrics(), lambda settings: fake.engine)
    runtime.start()
    await runtime.settled.wait()
    draft, outbox, socket = Draft(10_000), Outbox(), SlowSocket()
    speaker = Speaker("id", runtime, fake.engine, draft, outbox)
    utterance = draft.open(Speech(text="", piece_chars=20, piece_min_chars=5), "binary")
    utterance.sentences.extend(utterance.buffer.feed("One more sentence. " * 20))
    tasks = [asyncio.create_task(speaker.run()), asyncio.create_task(outbox.run(socket, 600))]
    while runtime.admission.running or len(fake.streams) < 2:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert len(fake.streams) == 2  # 4 s are more than the 3 s of read-ahead
    assert outbox.unsent_samples == 4 * RATE
    async with runtime.admission.place(1.0):  # another request finds the place free
        pass
    for _ in range(4):  # start, audio, done, start
        socket.allowed.release()
    while len(fake.streams) < 3:
        await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert runtime.admission.running == 0
    await runtime.close()


def test_a_client_that_does_not_read_stops_the_speech_and_gives_its_place_away() -> None:
    """Catches audio that piles up in memory without a bound, and a slot held by someone who is not listening."""
    asyncio.run(_slow_client())


class DeafSocket(SlowSocket):
    """Writes wrong messages without end and takes nothing."""

    client_state = WebSocketState.DISCONNECTED

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    async def receive(self) -> dict[str, str]:
        await asyncio.sleep(0)
        self.written += 1
        return {"type": "websocket.receive", "text": "nonsense"}


async def _deaf_client() -> int:
    fake = FakeEngine()
    runtime = Runtime(Settings(request_timeout=0.5), Metrics(), lambda settings: fake.engine)
    socket = DeafSocket()
    await Session(cast(WebSocket, socket), "id", runtime, fake.engine, lambda: None).run()
    return socket.written


def test_a_client_that_only_writes_is_not_read_any_more_and_then_left() -> None:
    """Catches replies that pile up in memory without a bound, and a session that never ends."""
    assert MAX_REPLIES - 1 <= asyncio.run(_deaf_client()) <= MAX_REPLIES


def test_utterances_that_wait_are_bounded() -> None:
    """Catches a client that flushes without end; and numbers that are given twice after a clear."""
    draft, speech = Draft(10), Speech(text="")
    for _ in range(MAX_UTTERANCES):
        draft.open(speech, "binary").complete = True
    with pytest.raises(ApiError, match="utterances wait"):
        draft.open(speech, "binary")
    assert len(draft.clear()) == MAX_UTTERANCES
    utterance = draft.open(speech, "binary")
    assert utterance.number == MAX_UTTERANCES
    utterance.sentences.extend(utterance.buffer.feed("12345. Six"))
    with pytest.raises(ApiError, match="the limit is 10 together"):
        draft.check_room(1)


async def _drop() -> list[str]:
    outbox, socket = Outbox(), SlowSocket()
    old, new = object(), object()
    sent: list[str] = []
    outbox.put({"type": "a"}, old, sent=lambda: sent.append("a"))
    outbox.put({"type": "b"}, old, sent=lambda: sent.append("b"))
    outbox.put({"type": "c"}, new, sent=lambda: sent.append("c"))
    running = asyncio.create_task(outbox.run(socket, 600))
    await asyncio.sleep(0)  # `a` is being sent
    outbox.drop([old])
    outbox.put({"type": "d"}, sent=lambda: sent.append("d"))
    outbox.finish()
    for _ in range(9):
        socket.allowed.release()
    await running
    assert outbox.empty
    return sent


def test_dropping_takes_back_what_has_not_left() -> None:
    """Catches an event cut in half, one sent after it was dropped, and counts that never come back to zero."""
    assert asyncio.run(_drop()) == ["a", "c", "d"]
