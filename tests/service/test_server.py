"""A real server on a real port, the default voice, httpx and curl."""

from __future__ import annotations

import io
import subprocess
import sys
import wave
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from kestrel.service.metrics import PHASES
from tests.service.server_process import Server, wait_for

SHORT = "The crow flew home."
LONG = " ".join(
    f"In the year of the {word} storm the old harbour lay quiet, and nobody knew why the boats stayed away."
    for word in ("first", "second", "third", "fourth")
)
ENDLESS = " ".join(f"This is sentence {word} of a text that nobody hears to its end." for word in ("one", "two") * 35)
TIMEOUT = httpx.Timeout(120.0)


def speak(server: Server, text: str = SHORT, **options: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/tts", json={"text": text, "seed": 7} | options, timeout=TIMEOUT)


def samples_of(wav: bytes) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Samples of a complete WAV, checked by a strict reader."""
    with wave.open(io.BytesIO(wav)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (16000, 1, 2)
        return np.frombuffer(reader.readframes(reader.getnframes()), np.int16)


@pytest.fixture(scope="module")
def long_reference(server: Server) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Samples of LONG, not streamed, spoken alone."""
    reply = speak(server, LONG)
    assert reply.status_code == 200
    return samples_of(reply.content)


def test_whole_reply_has_exact_sizes_and_its_figures(server: Server) -> None:
    """Catches wrong sizes, missing headers, silence instead of speech, and figures that contradict each other."""
    reply = speak(server)
    samples = samples_of(reply.content)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "audio/wav"
    assert len(reply.content) == int(reply.headers["content-length"]) == 44 + 2 * len(samples)
    assert np.abs(samples.astype(int)).max() > 1000
    headers = reply.headers
    assert headers["x-finish-reason"] == "eos"
    assert headers["x-seed"] == "7"
    assert headers["x-sample-rate"] == "16000"
    assert float(headers["x-audio-seconds"]) == pytest.approx(len(samples) / 16000)
    timing = {
        name: float(value) for name, value in (part.split(";dur=") for part in headers["server-timing"].split(", "))
    }
    assert tuple(timing) == PHASES
    assert 0 < float(headers["x-rtf"]) * float(headers["x-audio-seconds"]) <= float(headers["x-wall-seconds"])
    assert sum(timing.values()) <= 1000 * float(headers["x-wall-seconds"]) * 1.05
    assert server.logged(headers["x-request-id"])["finish_reason"] == "eos"


def test_streamed_and_whole_replies_have_the_same_samples(server: Server, long_reference: Any) -> None:
    """Catches a header sent twice, blocks lost or swapped, and pieces seeded by anything but the request."""
    with httpx.stream("POST", f"{server.url}/v1/tts", timeout=TIMEOUT,
                      json={"text": LONG, "seed": 7, "stream": True}) as reply:  # fmt: skip
        assert reply.headers["transfer-encoding"] == "chunked"
        assert "x-finish-reason" not in reply.headers
        body = b"".join(reply.iter_raw())
    assert body[4:8] == body[40:44] == b"\xff" * 4
    decoded, rate = soundfile.read(io.BytesIO(body), dtype="int16")
    assert rate == 16000
    assert np.array_equal(decoded, long_reference)
    assert server.logged(reply.headers["x-request-id"])["pieces"] > 4


def test_curl_streams_to_a_file_that_decodes(server: Server, long_reference: Any, tmp_path: Path) -> None:
    """The README's client: catches framing that httpx forgives."""
    target = tmp_path / "out.wav"
    subprocess.run(
        ["curl", "-sSN", "--fail", f"{server.url}/v1/tts", "-H", "Content-Type: application/json",
         "-d", f'{{"text": "{LONG}", "seed": 7, "stream": true}}', "-o", str(target)],
        check=True, timeout=120,
    )  # fmt: skip
    decoded, _ = soundfile.read(target, dtype="int16")
    assert np.array_equal(decoded, long_reference)


def test_an_http_1_0_client_gets_the_whole_file(server: Server, tmp_path: Path) -> None:
    """It could not tell a broken stream from its end, so it must get true sizes."""
    target = tmp_path / "out.wav"
    subprocess.run(
        ["curl", "-sS0", "--fail", f"{server.url}/v1/tts", "-H", "Content-Type: application/json",
         "-d", f'{{"text": "{SHORT}", "seed": 7, "stream": true}}', "-o", str(target)],
        check=True, timeout=120,
    )  # fmt: skip
    assert len(samples_of(target.read_bytes())) > 0


def test_pcm_is_the_wav_without_its_header(server: Server) -> None:
    """Catches a header in raw PCM, which is heard as a click, and a media type without the rate."""
    pcm = speak(server, format="pcm")
    assert pcm.headers["content-type"] == "audio/pcm;rate=16000;channels=1;bits=16"
    assert pcm.content == speak(server).content[44:]


def test_seed_is_drawn_told_and_repeatable(server: Server) -> None:
    """Catches a default seed that is always the same, or one that is told but not used."""
    first, second = speak(server, seed=None), speak(server, seed=None)
    assert first.headers["x-seed"] != second.headers["x-seed"]
    assert first.content != second.content
    assert speak(server, seed=int(first.headers["x-seed"])).content == first.content


def test_max_seconds_cuts_and_says_so(server: Server) -> None:
    """A cut text must not be reported as spoken to its end."""
    reply = speak(server, LONG, max_seconds=1.0)
    assert reply.headers["x-finish-reason"] == "length"
    assert float(reply.headers["x-audio-seconds"]) <= 1.0
    line = server.logged(reply.headers["x-request-id"])
    assert line["outcome"] == "truncated"


def test_first_bytes_come_while_the_rest_is_being_made(server: Server) -> None:
    """Catches a server that collects everything and then sends it in chunks. Compares the order of events, not time."""
    finished = server.metric("tts_engine_duration_seconds_count")
    with httpx.stream("POST", f"{server.url}/v1/tts", timeout=TIMEOUT,
                      json={"text": ENDLESS, "max_seconds": 60, "seed": 7, "stream": True}) as reply:  # fmt: skip
        chunks = reply.iter_raw()
        received = b""
        while len(received) < 44 + 2:
            received += next(chunks)
        assert server.readiness()["running"] == 1
        assert server.metric("tts_engine_duration_seconds_count") == finished
        assert sum(len(chunk) for chunk in chunks) > len(received)
    wait_for(lambda: server.metric("tts_engine_duration_seconds_count") == finished + 1, "the end is counted")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(server: Server, stream: bool) -> None:
    """Catches generation for nobody, also while nothing is being sent (stream=false)."""
    cancelled = server.metric("tts_requests_total", outcome="cancelled")
    latencies = server.metric("tts_cancel_latency_seconds_count", cause="disconnect")
    request_id = f"leaver-{stream}"
    client = httpx.Client(timeout=TIMEOUT)
    body = {"text": ENDLESS, "seed": 7, "stream": stream}
    if stream:
        with client.stream("POST", f"{server.url}/v1/tts", json=body, headers={"X-Request-Id": request_id}) as reply:
            next(reply.iter_raw())
    else:
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"{server.url}/v1/tts", json=body, headers={"X-Request-Id": request_id}, timeout=0.5)
    client.close()
    line = server.logged(request_id)
    assert line["outcome"] == "cancelled"
    assert line["finish_reason"] == "cancelled"
    assert line["pieces"] < 70
    assert server.readiness()["running"] == 0
    assert server.metric("tts_requests_total", outcome="cancelled") == cancelled + 1
    assert server.metric("tts_cancel_latency_seconds_count", cause="disconnect") == latencies + 1
    assert speak(server).status_code == 200


def test_overflow_is_refused_and_running_streams_stay_intact(server: Server) -> None:
    """Catches overload that breaks or changes running streams, unbounded queues, and refusals without Retry-After.

    Two streams hold both slots while eight requests come at once: two wait and are answered, six are refused.
    """
    body: dict[str, Any] = {"text": ENDLESS, "max_seconds": 40.0, "format": "pcm"}
    alone = [speak(server, **body, seed=seed).content for seed in (1, 2)]
    rejected = server.metric("tts_rejected_total", reason="queue_full")
    with ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(timeout=TIMEOUT)) for _ in alone]
        streams = [
            stack.enter_context(
                client.stream("POST", f"{server.url}/v1/tts", json=body | {"seed": seed, "stream": True})
            )
            for client, seed in zip(clients, (1, 2), strict=True)
        ]
        chunks = [stream.iter_raw() for stream in streams]
        received = [next(chunk) for chunk in chunks]
        with ThreadPoolExecutor(8) as crowd:
            replies = list(crowd.map(lambda seed: speak(server, seed=seed), range(8)))
            received = [first + b"".join(rest) for first, rest in zip(received, chunks, strict=True)]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert sorted(reply.status_code for reply in replies) == [200] * 2 + [429] * 6
    for reply in refused:
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.json()["error"]["code"] == "queue_full"
    assert received == alone
    assert server.metric("tts_rejected_total", reason="queue_full") == rejected + 6


def test_waiting_clients_that_leave_are_forgotten(server: Server) -> None:
    """Catches a queue of ghosts: requests of clients long gone that are spoken when their turn comes."""
    url, body = f"{server.url}/v1/tts", {"text": ENDLESS, "stream": True}
    with (
        httpx.Client(timeout=TIMEOUT) as client,
        client.stream("POST", url, json=body) as first,
        client.stream("POST", url, json=body) as second,
    ):
        chunks = [first.iter_raw(), second.iter_raw()]  # one that is dropped closes its stream
        assert all(next(chunk) for chunk in chunks)
        waiters = [_Waiter(url, f"waiter-{index}") for index in range(2)]
        wait_for(lambda: server.readiness()["waiting"] == 2, "both places in the queue taken")
        for waiter in waiters:
            waiter.leave()
        wait_for(lambda: server.readiness()["waiting"] == 0, "waiters that left are out of the queue")
        assert server.readiness()["running"] == 2
    for index in range(2):
        line = server.logged(f"waiter-{index}")
        assert (line["outcome"], line["frames"], line["pieces"]) == ("cancelled", 0, 0)
    wait_for(lambda: server.readiness()["running"] == 0, "slots free again")
    assert speak(server).status_code == 200


class _Waiter:
    """A curl that waits for its answer until told to leave."""

    def __init__(self, url: str, request_id: str) -> None:
        self._process = subprocess.Popen(
            ["curl", "-sS", url, "-H", "Content-Type: application/json", "-H", f"X-Request-Id: {request_id}",
             "-d", f'{{"text": "{SHORT}"}}'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()


def test_catalog_and_probes(server: Server) -> None:
    """What a client learns here must be what it may send."""
    voices = httpx.get(f"{server.url}/v1/voices").json()["data"]
    model = httpx.get(f"{server.url}/v1/models").json()["data"][0]
    assert [voice["id"] for voice in voices] == model["voices"]
    assert speak(server, voice=voices[0]["id"], language=model["languages"][0].upper()).status_code == 200
    assert model["limits"]["slots"] == 2
    assert model["sample_rate"] == 16000
    assert httpx.get(f"{server.url}/livez").json() == {"status": "alive"}
    assert server.readiness()["status"] == "ready"


def test_command_line_says_the_same_samples(server: Server, long_reference: Any, tmp_path: Path) -> None:
    """Server and command line must not split or seed differently."""
    target = tmp_path / "said.wav"
    command = [sys.executable, "-m", "kestrel", "say", LONG, "--seed", "7", "--threads", "1"]
    subprocess.run([*command, "-o", str(target)], check=True, timeout=120, capture_output=True)
    assert np.array_equal(samples_of(target.read_bytes()), long_reference)
    piped = subprocess.run([*command, "-o", "-"], check=True, timeout=120, capture_output=True)
    assert np.array_equal(np.frombuffer(piped.stdout[44:], np.int16), long_reference)
