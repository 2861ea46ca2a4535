"""Times and places of sentences and words: they must be of the caller's text, and of the audio that is heard."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.service.planner import clean
from kestrel.service.script import Piece
from kestrel.service.speech import Speech
from kestrel.service.text import Switches
from tests.service.decoding import decode, likeness, without_priming
from tests.service.server_process import Server

TEXT = (
    "  The crow \U0001f426 flew home.\n\n"
    "It was  cafe\u0301 o'clock — “too late” for the old harbour!  Nobody knew why. "
)
TIMEOUT = httpx.Timeout(120.0)


def pieces_of(text: str) -> list[Piece]:
    """Of a text that nothing but cleaning changes."""
    speech = Speech(text, piece_chars=40, piece_min_chars=10, languages=("en", "ja"), switches=Switches.off())
    return [item for item in speech.script() if isinstance(item, Piece)]


def post(server: Server, **body: Any) -> httpx.Response:
    reply = httpx.post(f"{server.url}/v1/tts", json={"seed": 7} | body, timeout=TIMEOUT)
    assert reply.status_code == 200, reply.text
    return reply


def events_of(reply: httpx.Response) -> list[dict[str, Any]]:
    """The events of a reply; every byte of it must belong to one."""
    assert reply.headers["content-type"] == "text/event-stream"
    parts = reply.text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") and "\n" not in part for part in parts)
    return [json.loads(part.removeprefix("data: ")) for part in parts]


@given(
    st.lists(
        st.sampled_from([*"ab1é.,!? \n—”“😀🇫🇷ﬁ가각ᄀ。日本", "e\u0301", "\u0344", "\u200d", "❷", "Mr. "]), max_size=120
    )
)
def test_spans_follow_each_other_and_hold_what_is_spoken(parts: list[str]) -> None:
    """Catches spans that overlap, skip words, or point into the cleaned text instead of the caller's."""
    text = "".join(parts)
    if not any(char.isalnum() for char in clean(text)):
        return
    pieces = pieces_of(text)
    spans = [piece.span for piece in pieces]
    end = 0
    for piece, span in zip(pieces, spans, strict=True):
        assert end <= span[0] < span[1] <= len(text)
        assert [c for c in clean(text[slice(*span)]) if c.isalnum()] == [c for c in piece.text if c.isalnum()]
        end = span[1]
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    outside = "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    assert not any(char.isalnum() for char in clean(outside))


def test_spans_of_a_text_with_everything_that_cleaning_changes() -> None:
    """The exact places, read off by eye; `original` is what words use."""
    pieces = pieces_of(TEXT)
    shown = [TEXT[slice(*piece.span)] for piece in pieces]
    assert shown == [
        "The crow \U0001f426 flew home.",
        "It was  cafe\u0301 o'clock —",
        "“too late” for the old harbour!",
        "Nobody knew why.",
    ]
    start = pieces[1].text.index("café")
    assert TEXT[slice(*pieces[1].original(start, start + 4))] == "cafe\u0301"
    assert TEXT[slice(*pieces[2].original(1, 4))] == "too"


@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_events_hold_the_whole_reply_with_its_times(server: Server, speed: float) -> None:
    """Catches audio lost between events, wrong order, times of another speed, and words that are not the text's."""
    whole = post(server, text=TEXT, speed=speed)
    events = events_of(post(server, text=TEXT, speed=speed, stream="sse", format="pcm"))
    audio = [event for event in events if event["type"] == "audio"]
    pcm = b"".join(base64.b64decode(event["audio"]) for event in audio)
    assert pcm == whole.content[44:]
    assert [event["index"] for event in audio] == list(range(len(audio)))
    position = 0.0
    for event in audio:
        assert event["start"] == pytest.approx(position, abs=1e-5)
        position += len(base64.b64decode(event["audio"])) / 32000
    sentences = [event for event in events if event["type"] == "sentence"]
    assert [event["index"] for event in sentences] == list(range(len(sentences)))
    assert {event["sentence"] for event in audio} == set(range(len(sentences)))
    for event in audio:
        assert event["span"] == sentences[event["sentence"]]["span"]
    end = 0.0
    for sentence in sentences:
        assert sentence["text"] == TEXT[slice(*sentence["span"])]
        assert sentence["start"] == pytest.approx(end, abs=1e-5)
        end = sentence["end"]
        starts = [word["start"] for word in sentence["words"]]
        assert starts == sorted(starts)
        assert sentence["start"] <= starts[0] <= starts[-1] < end
        for word in sentence["words"]:
            assert word["text"] == TEXT[slice(*word["span"])]
            assert sentence["span"][0] <= word["span"][0] < word["span"][1] <= sentence["span"][1]
        assert sentence["phases"]["falcon_step"] > 0
    assert end == pytest.approx(position, abs=0.04)
    assert [word["text"] for word in sentences[0]["words"]][:4] == ["The", "crow", "flew", "home"]
    done = events[-1]
    assert done["type"] == "done"
    assert done["finish_reason"] == "eos"
    assert done["audio_seconds"] == pytest.approx(position, abs=1e-4)
    assert done["phases"]["encode"] > 0
    assert (done["sample_rate"], done["seed"]) == (16000, 7)


def test_events_in_another_format_are_that_file_in_parts(server: Server) -> None:
    """Catches one encoder a chunk, whose parts do not make one file."""
    events = events_of(post(server, text=TEXT, stream="sse", format="opus"))
    data = b"".join(base64.b64decode(event["audio"]) for event in events if event["type"] == "audio")
    with httpx.stream("POST", f"{server.url}/v1/tts", timeout=TIMEOUT,
                      json={"text": TEXT, "seed": 7, "stream": "audio", "format": "opus"}) as reply:  # fmt: skip
        assert reply.headers["content-type"] == "audio/ogg;codecs=opus"
        assert reply.read() == data


def test_envelope_holds_the_audio_and_the_times(server: Server) -> None:
    """The same audio as the plain reply, and sentences that cover it."""
    plain = post(server, text=TEXT, format="mp3", speed=1.5)
    reply = post(server, text=TEXT, format="mp3", speed=1.5, timings=True)
    assert reply.headers["content-type"] == "application/json"
    assert "content-disposition" not in reply.headers
    assert plain.headers["content-disposition"] == 'inline; filename="speech.mp3"'
    body = reply.json()
    assert base64.b64decode(body["audio"]) == plain.content
    assert (body["format"], body["media_type"], body["finish_reason"]) == ("mp3", "audio/mpeg", "eos")
    assert body["audio_seconds"] == pytest.approx(float(plain.headers["x-audio-seconds"]), abs=1e-5)
    assert body["sentences"][-1]["end"] == pytest.approx(body["audio_seconds"], abs=0.04)
    assert "".join(sentence["text"] for sentence in body["sentences"]).count("crow") == 1


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac"])
def test_streamed_and_whole_replies_sound_the_same_in_every_format(server: Server, name: str) -> None:
    """Catches a tail that only one of the two has, and a rate or an extension that is wrong."""
    pcm = np.frombuffer(post(server, text=TEXT, format="pcm").content, "<i2") / 32768
    whole = post(server, text=TEXT, format=name)
    streamed = post(server, text=TEXT, format=name, stream=True)
    assert "content-length" in whole.headers
    assert streamed.headers["transfer-encoding"] == "chunked"
    for reply, is_whole in ((whole, True), (streamed, False)):
        assert reply.headers["x-sample-rate"] == "16000"
        samples, rate = decode(reply.content, name)
        samples = without_priming(samples, name, whole=is_whole)[:: rate // 16000]
        assert 0 <= len(samples) - len(pcm) <= 1024
        assert likeness(samples, pcm) > 0.9  # opus, every third of its samples unfiltered
