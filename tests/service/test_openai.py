"""OpenAI's own Python client against a real server: what it sends is taken, what it gets it understands."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from kestrel.service.formats import FORMATS, FormatName
from tests.service.decoding import Samples, decode, frame_samples, likeness, resampled, without_priming
from tests.service.server_process import Server, wait_for

TEXT = "The crow flew home. It was too late for the old harbour, and nobody knew why the boats stayed away."
LONG = " ".join(f"This is sentence {word} of a text that takes its time." for word in ("one", "two", "three") * 4)
MEDIA_TYPES = {
    "mp3": "audio/mpeg", "opus": "audio/ogg;codecs=opus", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav",
    "pcm": "audio/pcm;rate=24000;channels=1;bits=16",
}  # fmt: skip


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture
async def async_client(server: Server) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0, timeout=120) as client:
        yield client


def create(client: OpenAI, **options: Any) -> Any:
    request = {"model": "tts-1", "voice": "alloy", "input": TEXT, "extra_body": {"seed": 7}} | options
    return client.audio.speech.create(**request)


@pytest.fixture(scope="module")
def expected(server: Server) -> Samples:
    """The same speech from /v1/tts at the model's 16 kHz, put at 24 kHz by other means."""
    reply = httpx.post(f"{server.url}/v1/tts", json={"text": TEXT, "seed": 7, "format": "pcm"}, timeout=120)
    return resampled(np.frombuffer(reply.content, "<i2") / 32768, 16000, 24000)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_holds_the_same_speech(client: OpenAI, expected: Samples, name: FormatName) -> None:
    """Catches a format that is silently another one, a rate other than 24 kHz, and a missing beginning or end."""
    reply = create(client, response_format=name)
    headers = reply.response.headers
    assert headers["content-type"] == MEDIA_TYPES[name]
    assert headers["content-disposition"] == f'inline; filename="speech.{name}"'
    assert headers["x-sample-rate"] == "24000"
    assert headers["transfer-encoding"] == "chunked"
    if name == "wav":
        assert reply.content[4:8] == reply.content[40:44] == b"\xff" * 4
    samples, rate = decode(reply.content, name, 24000)
    samples = without_priming(samples, name)
    wanted = resampled(expected, 24000, rate)
    assert -1 <= len(samples) - len(wanted) <= frame_samples(name, rate)
    assert likeness(samples, wanted) > 0.98
    loud = np.abs(wanted) > 0.05
    last = len(loud) - int(np.argmax(loud[::-1]))
    assert likeness(samples[last - rate // 20 : last], wanted[last - rate // 20 : last]) > 0.9


def test_mp3_is_the_default_and_instructions_are_said_to_be_unused(client: OpenAI) -> None:
    """Clients that leave the format out save an .mp3; a style that has no effect must not look as if it had."""
    reply = create(client, instructions="Speak like a pirate.")
    assert reply.response.headers["content-type"] == "audio/mpeg"
    assert reply.response.headers["x-unused-parameters"] == "instructions"
    assert reply.response.headers["x-voice"] == "default"
    plain = create(client)
    assert "x-unused-parameters" not in plain.response.headers
    assert plain.content == reply.content


def test_voice_may_be_an_object_and_speed_is_used(client: OpenAI, expected: Samples) -> None:
    """Newer clients send `{"id": …}`; speed must change the length by its factor."""
    reply = create(client, voice={"id": "default"}, speed=2.0, response_format="pcm")
    assert len(reply.content) // 2 / 24000 == pytest.approx(len(expected) / 24000 / 2, abs=0.03)


@pytest.mark.parametrize("name", FORMATS)
async def test_first_bytes_come_while_speech_is_being_made(
    server: Server, async_client: AsyncOpenAI, name: FormatName
) -> None:
    """Catches a format that is collected and sent at the end. The server says that it still speaks."""
    async with async_client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=LONG, response_format=name, speed=1.5
    ) as reply:
        chunks = reply.iter_bytes()
        data = await anext(chunks)
        assert server.readiness()["running"] == 1
        async for chunk in chunks:
            data += chunk
    samples, rate = decode(data, name, 24000)
    assert len(samples) / rate > 5
    wait_for(lambda: server.readiness()["running"] == 0, "the slot is free")


def test_events_are_openais(client: OpenAI) -> None:
    """Catches another event shape, audio in parts of several files, and usage that is missing or zero."""
    reply = create(client, stream_format="sse", response_format="mp3")
    assert reply.response.headers["content-type"] == "text/event-stream"
    events = [json.loads(part.removeprefix("data: ")) for part in reply.text.split("\n\n") if part]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert len(events) > 4
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == create(client).content
    assert events[-1]["type"] == "speech.audio.done"
    usage = events[-1]["usage"]
    assert usage["input_tokens"] == len(TEXT)
    assert usage["output_tokens"] > 50
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.parametrize(
    ("options", "kind", "param"),
    [
        ({"input": ""}, openai.BadRequestError, "input"),
        ({"input": "..."}, openai.BadRequestError, "input"),
        ({"input": "a " * 2049}, openai.BadRequestError, "input"),
        ({"input": "a" * 1000}, openai.BadRequestError, "input"),
        ({"voice": "nobody"}, openai.BadRequestError, "voice"),
        ({"voice": {"id": "../x"}}, openai.BadRequestError, "voice"),
        ({"voice": {"name": "x"}}, openai.BadRequestError, "voice"),
        ({"model": "tts-9"}, openai.NotFoundError, "model"),
        ({"response_format": "ogg"}, openai.BadRequestError, "response_format"),
        ({"speed": 0.1}, openai.BadRequestError, "speed"),
        ({"stream_format": "ws"}, openai.BadRequestError, "stream_format"),
        ({"instructions": "x" * 4097}, openai.BadRequestError, "instructions"),
        ({"extra_body": {"pitch": 2}}, openai.BadRequestError, "pitch"),
        ({"extra_body": {"max_seconds": 1e6}}, openai.BadRequestError, "max_seconds"),
    ],
)  # fmt: skip
def test_errors_raise_the_clients_exceptions(
    client: OpenAI, options: dict[str, Any], kind: type[openai.APIStatusError], param: str
) -> None:
    """Catches an error in another shape, a field under its name in another interface, and audio instead of an error."""
    with pytest.raises(kind) as caught:
        create(client, **options)
    assert isinstance(caught.value.body, dict)
    assert set(caught.value.body) == {"message", "type", "param", "code"}
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert caught.value.response.headers["content-type"] == "application/json"


def test_unknown_voices_are_answered_with_the_valid_ones(client: OpenAI) -> None:
    """A user has to learn what to put there instead."""
    with pytest.raises(openai.BadRequestError, match="valid: default"):
        create(client, voice="nobody")


def test_models_are_listed_and_found(client: OpenAI) -> None:
    """The client's own types: an id, a date, an owner; and 404 with the envelope for what is not there."""
    models = client.models.list().data
    assert len(models) == 1
    assert models[0].object == "model"
    assert models[0].created > 1_700_000_000
    assert models[0].owned_by
    assert client.models.retrieve(models[0].id) == models[0]
    assert create(client, model=models[0].id, input="Hello.").content
    with pytest.raises(openai.NotFoundError, match=models[0].id) as caught:
        client.models.retrieve("tts-9")
    assert caught.value.code == "model_not_found"


def test_overload_is_a_rate_limit_error(tmp_path: Path) -> None:
    """The client backs off by itself on 429 with Retry-After; any other status would look like a fault."""
    server = Server(tmp_path, slots=1, queue_size=0, read_ahead_seconds=600).until_ready()
    try:
        with (
            OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0, timeout=120) as client,
            client.audio.speech.with_streaming_response.create(
                model="tts-1", voice="alloy", input=f"{LONG} " * 5
            ) as reply,
        ):
            chunks = reply.iter_bytes()  # one that is dropped closes its stream
            assert next(chunks)
            with pytest.raises(openai.RateLimitError) as caught:
                create(client)
            assert int(caught.value.response.headers["retry-after"]) >= 1
            assert caught.value.code == "queue_full"
    finally:
        server.stop()


def test_formats_are_the_six_of_the_api() -> None:
    """A name more or less would be a 400 for someone."""
    assert set(FORMATS) == set(get_args(FormatName)) == set(MEDIA_TYPES)
