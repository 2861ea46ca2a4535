"""Replies in every layout when the engine fails, and the loop while they are encoded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kestrel.engine import EngineError
from kestrel.service.formats import FORMATS
from kestrel.service.output import AudioOutput
from tests.service.fake_engine import FakeEngine, FakeStream
from tests.service.server_process import wait_for
from tests.service.test_life import served

TTS, OPENAI = "/v1/tts", "/v1/audio/speech"
ASKED: list[tuple[str, dict[str, Any]]] = [
    *(
        (TTS, {"text": "Hello there.", "format": name, "stream": stream})
        for name in FORMATS
        for stream in (True, False)
    ),
    (TTS, {"text": "Hello there.", "stream": "sse", "speed": 2}),
    (TTS, {"text": "Hello there.", "timings": True}),
    (OPENAI, {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "stream_format": "sse"}),
    *(
        (OPENAI, {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "response_format": name, "speed": 0.5})
        for name in FORMATS
    ),
]


@pytest.fixture(scope="module")
def fake() -> FakeEngine:
    return FakeEngine()


@pytest.fixture(scope="module")
def url(fake: FakeEngine) -> Iterator[str]:
    with served(lambda settings: fake.engine) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        yield url


def failing(stream: FakeStream) -> None:
    stream.sink(EngineError("out of memory"))


def silent(stream: FakeStream) -> None:
    stream.end()


def breaking(stream: FakeStream) -> None:
    stream.speak(3.0)
    stream.sink(EngineError("out of memory"))


def read_on(reply: httpx.Response) -> tuple[bytes, bool]:
    """What came of a reply, and whether it broke off."""
    received = b""
    try:
        for chunk in reply.iter_raw():
            received += chunk
    except httpx.RemoteProtocolError:
        return received, True
    return received, False


@pytest.mark.parametrize(("path", "body"), ASKED)
def test_a_failure_before_the_first_audio_has_a_status(
    fake: FakeEngine, url: str, path: str, body: dict[str, Any]
) -> None:
    """Catches a 200 with the header of a container, or an event stream, that was begun before there was audio."""
    for then, code in ((failing, "engine_error"), (silent, "no_audio")):
        fake.on_submit = then
        reply = httpx.post(url + path, json=body)
        assert reply.status_code == 500
        assert reply.json()["error"]["code"] == code


@pytest.mark.parametrize(("path", "body"), ASKED)
def test_a_failure_after_the_first_audio_is_seen(fake: FakeEngine, url: str, path: str, body: dict[str, Any]) -> None:
    """A streamed reply must break off, events must tell why, a whole one must still be an error."""
    fake.on_submit = breaking
    with httpx.stream("POST", url + path, json=body) as reply:
        if reply.status_code == 200:
            received, broken = read_on(reply)
            assert broken
            if reply.headers["content-type"] == "text/event-stream":
                last = json.loads(received.decode().rstrip("\n").rsplit("data: ", 1)[1])
                assert last["type"] == "error"
                assert last["error"]["code"] == "engine_error"
            else:
                assert received
        else:
            assert body.get("stream", True) is False or body.get("timings")
            assert json.loads(reply.read())["error"]["code"] == "engine_error"


@pytest.mark.parametrize("name", FORMATS)
def test_encoding_does_not_hold_up_the_loop(
    fake: FakeEngine, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches encoding on the event loop: probes and other streams would wait for it."""
    entered, go_on = threading.Event(), threading.Event()
    encode = AudioOutput.encode

    def slow(output: AudioOutput, pcm: Any) -> bytes:
        entered.set()
        assert go_on.wait(60)
        return encode(output, pcm)

    monkeypatch.setattr(AudioOutput, "encode", slow)
    fake.on_submit = lambda stream: (stream.speak(1.0), stream.end())[1]
    replies: list[httpx.Response] = []
    body = {"text": "Hello there.", "format": name}
    asking = threading.Thread(target=lambda: replies.append(httpx.post(url + TTS, json=body, timeout=60)))
    asking.start()
    try:
        assert entered.wait(60)
        assert httpx.get(f"{url}/livez", timeout=30).status_code == 200
    finally:
        go_on.set()
        asking.join()
    assert replies[0].status_code == 200
    assert "encode;dur=" in replies[0].headers["server-timing"]
