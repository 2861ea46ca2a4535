"""Requests that are wrong: every one gets a 4xx that says why, and the next request works."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import httpx
import pytest

from tests.service.server_process import Server

GOOD = {"text": "Hello.", "seed": 7}
TIMEOUT = httpx.Timeout(120.0)

CASES: dict[str, tuple[bytes, int, str]] = {
    "empty": (b'{"text": ""}', 400, "text"),
    "whitespace": (b'{"text": " \\n\\t\\u3000 "}', 400, "letter or digit"),
    "100,000 characters": (json.dumps({"text": "word " * 20_000}).encode(), 400, "the limit is 5000"),
    "nul": (b'{"text": "a\\u0000b"}', 400, "NUL"),
    "raw nul": (b'{"text": "a\x00b"}', 400, "JSON"),
    "lone surrogate": (b'{"text": "a\\ud83d b"}', 400, "unicode"),
    "surrogate in a name": (b'{"text": "a", "voice": "\\udc00"}', 400, "voice"),
    "surrogate in a key": (b'{"text": "a", "\\udc00": 1}', 400, "valid fields"),
    "emoji only": ('{"text": "😀👍🏽 👨\u200d👩\u200d👧"}'.encode(), 400, "letter or digit"),
    "punctuation only": (b'{"text": "...!?"}', 400, "letter or digit"),
    "unknown voice": (b'{"text": "a", "voice": "../../etc/passwd"}', 400, "valid: default"),
    "unknown language": (b'{"text": "a", "language": "xx"}', 400, "valid: en"),
    "text is a number": (b'{"text": 5}', 400, "text: "),
    "text is a list": (b'{"text": ["a"]}', 400, "text: "),
    "text is null": (b'{"text": null}', 400, "text: "),
    "no text": (b'{"voice": "default"}', 400, "text: "),
    "seed is a string": (b'{"text": "a", "seed": "7"}', 400, "seed: "),
    "seed is true": (b'{"text": "a", "seed": true}', 400, "seed: "),
    "seed is negative": (b'{"text": "a", "seed": -1}', 400, "greater than or equal to 0"),
    "seed is huge": (b'{"text": "a", "seed": 1' + b"0" * 60 + b"}", 400, "seed: "),
    "seed has 10,000 digits": (b'{"text": "a", "seed": 1' + b"0" * 10_000 + b"}", 400, ""),
    "infinite": (b'{"text": "a", "temperature": 1e999}', 400, "temperature: "),
    "nan": (b'{"text": "a", "top_p": NaN}', 400, "top_p: "),
    "temperature too high": (b'{"text": "a", "temperature": 3}', 400, "less than or equal to 2"),
    "top_p zero": (b'{"text": "a", "top_p": 0}', 400, "greater than 0"),
    "top_k fraction": (b'{"text": "a", "top_k": 1.5}', 400, "top_k: "),
    "max_seconds too large": (b'{"text": "a", "max_seconds": 1e9}', 400, "the limit is 0.2"),
    "deadline too large": (b'{"text": "a", "deadline_seconds": 601}', 400, "the limit is 600"),
    "deadline zero": (b'{"text": "a", "deadline_seconds": 0}', 400, "greater than 0"),
    "stream is another string": (
        b'{"text": "a", "stream": "yes"}',
        400,
        "stream: must be true, false, 'audio' or 'sse'",
    ),
    "stream is 1": (b'{"text": "a", "stream": 1}', 400, "stream: must be"),
    "unknown format": (b'{"text": "a", "format": "ogg"}', 400, "'mp3', 'opus', 'aac' or 'flac'"),
    "too slow": (b'{"text": "a", "speed": 0.2}', 400, "greater than or equal to 0.25"),
    "too fast": (b'{"text": "a", "speed": 4.1}', 400, "less than or equal to 4"),
    "timings of a stream": (b'{"text": "a", "stream": true, "timings": true}', 400, "stream` false, or `sse`"),
    "unknown field": (b'{"text": "a", "pitch": 2}', 400, "valid fields: text, voice"),
    "word without end": (json.dumps({"text": "a" * 4000}).encode(), 400, "200 characters"),
    "not an object": (b'["text"]', 400, "JSON object"),
    "not json": (b"text=hello", 400, "JSON"),
    "cut json": (b'{"text": "hello', 400, "JSON"),
    "not utf-8": (b'{"text": "\xff\xfe"}', 400, "UTF-8"),
    "deeply nested": (b"[" * 100_000, 400, ""),
    "no body": (b"", 400, "empty"),
    "10 MB": (b'{"text": "' + b"a" * 10_000_000 + b'"}', 413, "262144 bytes"),
}


def post(server: Server, body: bytes, content_type: str = "application/json") -> httpx.Response:
    return httpx.post(f"{server.url}/v1/tts", content=body, headers={"Content-Type": content_type}, timeout=TIMEOUT)


def refusal(reply: httpx.Response) -> dict[str, Any]:
    """The error of a reply, in the one shape that every error has."""
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"]
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["code"]
    return error


@pytest.mark.parametrize("stream", [False, True])
def test_a_text_that_goes_bad_late_is_refused_before_it_begins(server: Server, stream: bool) -> None:
    """Catches a reply of 200 that breaks off where the first unspeakable sentence comes."""
    body = {"text": "It was late. " * 30 + "你好.", "stream": stream}
    reply = httpx.post(f"{server.url}/v1/tts", json=body, timeout=60)
    assert reply.status_code == 422
    assert "你" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "text",
    ["777777777777777 " * 5, "$999,999,999,999.99 " * 4, "WWW " * 24, "Chapter one.\n" + "-" * 201 + "\nIt was late.",
     "Wait" + "." * 500, "Your tracking number is 1Z999AA10123456784 and the order is 112-1234567-1234567."],
)  # fmt: skip
def test_dense_and_odd_texts_are_spoken(server: Server, text: str) -> None:
    """Catches pieces with more sounds than one utterance holds, and lines of marks taken for a word."""
    reply = httpx.post(f"{server.url}/v1/tts", json={"text": text, "seed": 1, "format": "pcm"}, timeout=120)
    assert reply.status_code == 200, reply.text
    assert len(reply.content) > 16000


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_and_the_next_request_works(terse: Server, name: str) -> None:
    """Catches a 5xx, a 200 without audio, a message that does not say what is valid, and a server left broken."""
    body, status, told = CASES[name]
    reply = post(terse, body)
    assert reply.status_code == status, reply.text[:300]
    assert told in refusal(reply)["message"]
    assert post(terse, json.dumps(GOOD).encode()).status_code == 200


def test_refusals_name_the_field(terse: Server) -> None:
    """`param` is what a form highlights."""
    for body, param in [({"text": "a", "voice": "b"}, "voice"), ({"text": 1}, "text"), ({"text": "a", "x": 1}, "x")]:
        assert refusal(post(terse, json.dumps(body).encode()))["param"] == param


def test_other_wrong_requests(terse: Server) -> None:
    """Catches answers of the framework that are not in the shape of ours."""
    assert refusal(post(terse, json.dumps(GOOD).encode(), "text/plain"))["code"] == "unsupported_media_type"
    for path, method, status, told in [
        ("/v1/nothing", "GET", 404, "/docs"),
        ("/v1/tts", "GET", 405, "POST"),
        ("/v1/voices", "DELETE", 405, "GET"),
    ]:
        reply = httpx.request(method, terse.url + path)
        assert reply.status_code == status
        assert told in refusal(reply)["message"]


def test_curl_learns_of_the_limit_without_sending_10_mb(terse: Server) -> None:
    """curl announces large bodies with Expect: 100-continue; the refusal must come instead of the go-ahead."""
    done = subprocess.run(
        ["curl", "-sS", "-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "--data-binary", "@-",
         "-w", "\n%{http_code} %{size_upload}", f"{terse.url}/v1/tts"],
        input=b"a" * 10_000_000, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    body, _, figures = done.stdout.decode().rpartition("\n")
    assert figures.split() == ["413", "0"]
    assert json.loads(body)["error"]["code"] == "body_too_large"


def mutated(rng: random.Random) -> bytes:
    """A request body with one to three faults, from single bits to nonsense values."""
    values: list[Any] = [
        None,
        True,
        -1,
        0,
        1.5,
        2**63,
        1e308,
        "",
        "x",
        "\x00",
        "\ud800",
        [],
        {},
        "a" * 300,
        "é\u0301" * 9,
    ]
    fields = [
        "text",
        "voice",
        "language",
        "seed",
        "temperature",
        "top_p",
        "top_k",
        "max_seconds",
        "stream",
        "format",
        "speed",
        "timings",
    ]
    good = {"text": "Hi.", "voice": "default", "language": "en", "seed": 7, "temperature": 0.5, "top_p": 0.9,
            "top_k": 9, "max_seconds": 0.1, "stream": "audio", "format": "mp3", "speed": 1.5,
            "timings": False}  # fmt: skip
    body: dict[str, Any] = {"text": "Hi."} | {name: good[name] for name in fields if rng.random() < 0.5}
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            name = rng.choice([*fields, "pitch", "__proto__", ""])
            body[name] = rng.choice(values)
        return json.dumps(body).encode()
    data = bytearray(json.dumps(body).encode())
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        match rng.randrange(5):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2:
                data[at:at] = rng.choice([b"\x00", b"\xff", b"{", b"]", b'"', b"\\u", b"e9", b"NaN", b"-"])
            case 3:
                data[at:at] = data[at : at + rng.randint(1, 20)] * rng.randint(1, 50)
            case _:
                del data[at:]
        if not data:
            break
    return bytes(data)


def test_2000_mutated_bodies(terse: Server) -> None:
    """Catches any input that gives a 5xx, an answer without a reason, a hang, or a server that no longer speaks."""
    rng = random.Random(20_261_130)
    seen: dict[int, int] = {}
    headers = {"Content-Type": "application/json"}
    with httpx.Client(timeout=TIMEOUT, headers=headers) as client:
        for _ in range(2000):
            body = mutated(rng)
            reply = client.post(f"{terse.url}/v1/tts", content=body)
            seen[reply.status_code] = seen.get(reply.status_code, 0) + 1
            if reply.status_code == 200:
                assert reply.headers["content-type"].startswith(("audio/", "application/json")), body
                assert len(reply.content) > 44, body
            else:
                assert reply.status_code in (400, 413), body
                assert refusal(reply), body
    assert set(seen) <= {200, 400}
    assert seen[200] > 20, "the mutations should leave some requests valid"
    assert seen[400] > 1000
    assert post(terse, json.dumps(GOOD).encode()).status_code == 200
    assert terse.readiness()["running"] == 0
