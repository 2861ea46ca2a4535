"""From the text front end to samples: pauses are exact silence, spans are the caller's, refusals come before audio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.engine import TextError, TextTooLongError
from kestrel.service.admission import Admission
from kestrel.service.job import Block, Job
from kestrel.service.script import Piece, fitted
from kestrel.service.speech import Speech
from kestrel.service.text import Pause, PlanError, Switches
from tests.service.fake_engine import RATE, FakeEngine, FakeStream
from tests.service.server_process import Server


def texts(speech: Speech) -> list[str]:
    """The pieces of a speech."""
    return [item.text for item in speech.script() if isinstance(item, Piece)]


@given(st.lists(st.sampled_from(["WWW", "one", "FBI,", "two.", "x" * 30]), min_size=1, max_size=40), st.integers(5, 60))
def test_pieces_that_are_too_long_for_the_engine_are_split(words: list[str], most: int) -> None:
    """Catches words lost or torn at the second cut, spans that shift with it, and a word refused for its neighbours:
    only a word that alone is too long is refused."""

    def check(text: str) -> None:
        if len(text) + 2 * text.count("W") > most:  # a W has more sounds than letters
            raise TextTooLongError("too long")

    script = Speech(" ".join(words), switches=Switches.off()).script()
    if any(len(word) + 2 * word.count("W") > most for word in words):
        with pytest.raises(TextTooLongError):
            fitted(script, check)
        return
    pieces = [item for item in fitted(script, check) if isinstance(item, Piece)]
    assert " ".join(piece.text for piece in pieces).split() == words
    assert all(" ".join(words)[slice(*piece.span)] == piece.text for piece in pieces)
    for piece in pieces:
        check(piece.text)


def run(speech: Speech, fake: FakeEngine) -> tuple[Job, np.ndarray[Any, Any], list[float]]:
    """The samples of a job that nobody hurries, and when each piece began. Raises a failure that comes before both."""
    job = Job(fake.engine, Admission(1, 0), speech, read_ahead=None, timeout=10)
    blocks: list[np.ndarray[Any, Any]] = []
    starts: list[float] = []

    async def speak() -> None:
        running = asyncio.create_task(job.run())
        try:
            async for event in job.events():
                if isinstance(event, Block):
                    blocks.append(event.pcm)
                else:
                    starts.append(event.start)
        except Exception:
            assert not blocks, "a failure before the first sound must still be able to become a status"
            raise
        finally:
            await running

    asyncio.run(asyncio.wait_for(speak(), 20))
    return job, np.concatenate(blocks), starts


def at_once(stream: FakeStream) -> None:
    stream.speak(1.0, 9)
    stream.end()


def test_pauses_are_exact_silence() -> None:
    """Catches a pause of the wrong length or place, one lost at either end, and one that flatters the engine's RTF."""
    fake = FakeEngine(at_once)
    job, pcm, starts = run(Speech("[pause:250ms]One.[pause:500ms][pause:1s] Two.[pause:0.1234s]", seed=7), fake)
    lengths = [RATE // 4, RATE, RATE * 3 // 2, RATE, round(0.1234 * RATE)]
    expected = np.concatenate([np.full(length, 9 * (i % 2)) for i, length in enumerate(lengths)])
    assert np.array_equal(pcm, expected)
    assert [stream.utterance.text for stream in fake.streams] == ["One.", "Two."]
    assert job.totals.audio_seconds == len(pcm) / RATE
    assert job.totals.spoken_seconds == pytest.approx(2.0)
    assert job.totals.pieces == 2
    assert starts == [0.25, 2.75]


def test_a_failure_after_a_leading_pause_is_still_a_failure() -> None:
    """Catches a 200 that holds a pause and then breaks off."""
    with pytest.raises(TextError):
        run(Speech("[pause:1s] unspeakable"), FakeEngine())


def test_pauses_count_towards_max_seconds() -> None:
    """Catches a text of pauses that gives hours of silence."""
    fake = FakeEngine(at_once)
    job, pcm, _ = run(Speech("One. " + "[pause:10s]" * 100 + "Two.", max_seconds=12.0), fake)
    assert len(pcm) == 12 * RATE
    assert job.totals.finish_reason == "length"
    with pytest.raises(PlanError, match="nothing to say"):
        Speech("[pause:10s][pause:1s]").script()


def test_spans_are_the_callers() -> None:
    """Catches timings that refer to the normalised text, at which no highlighting can point."""
    text = "# Hi\n\nIt **costs** $3.50 on 2026-11-30.[pause:1s] Bye 😀 [now](https://x.io)!"
    script = Speech(text, piece_chars=60, piece_min_chars=10).script()
    shown = [(type(item).__name__, text[slice(*item.span)]) for item in script]
    assert shown == [
        ("Piece", "Hi"),
        ("Piece", "It **costs** $3.50 on 2026-11-30"),
        ("Piece", "2026-11-30."),  # a passage that is longer spoken than written may be cut in two
        ("Pause", "[pause:1s]"),
        ("Piece", "Bye 😀 [now](https://x.io)!"),
    ]
    first = script[1]
    assert isinstance(first, Piece)
    for word, original in [("It", "It"), ("costs", "costs"), ("fifty", "$3.50"), ("on", "on")]:
        at = first.text.index(word)
        start, end = first.original(at, at + len(word))
        assert text[start:end] == original


@given(st.text(st.sampled_from("ab 1.!?,\n#*|-$😀é漢"), max_size=120), st.integers(5, 40))
def test_pieces_follow_each_other_in_the_callers_text(text: str, most: int) -> None:
    """Catches pieces out of order, empty, or outside the text."""
    speech = Speech(text, piece_chars=most, piece_min_chars=3, languages=("en", "zh"))
    try:
        script = speech.script()
    except PlanError:
        return
    start = 0
    for item in script:
        assert start <= item.span[0] <= item.span[1] <= len(text)
        start = item.span[0]
        assert isinstance(item, Pause) or item.text.strip()


def test_whose_rules_read_the_text() -> None:
    """Catches English rules on a text of unknown language, and a check of letters on a model of many languages."""
    many = ("en", "zh")
    assert texts(Speech("5 km")) == ["five kilometers"]
    assert texts(Speech("5 km", switches=Switches.off())) == ["5 km"]
    assert texts(Speech("5 km", languages=many)) == ["5 km"]
    assert texts(Speech("5 km 漢", languages=many, language="en-GB")) == ["five kilometers 漢"]


def post(server: Server, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/tts", json={"format": "pcm", "seed": 7} | body, timeout=60)


def test_characters_without_a_sound_are_named(terse: Server) -> None:
    """Catches silence, spelled-out code points, and a refusal in mid-stream: the letters are in the last sentence."""
    for stream in (False, True):
        reply = post(terse, text="A long first sentence comes before. Then 你好.", stream=stream)
        assert reply.status_code == 422
        error = reply.json()["error"]
        assert error["code"] == "unsupported_characters"
        assert "你 (U+4F60), 好 (U+597D)" in error["message"]


@pytest.mark.parametrize(
    ("normalize", "told"),
    [
        ("yes", "must be true, false, or an object"),
        ({"dates": "no"}, "valid boolean"),
        ({"colour": True}, "unknown category 'colour'; valid: markdown, pauses"),
        ({"emoji": "sing"}, "'drop' or 'name'"),
    ],
)
def test_a_wrong_switch_is_refused(terse: Server, normalize: object, told: str) -> None:
    """Catches a misspelt switch that is ignored."""
    reply = post(terse, text="Hello.", normalize=normalize)
    assert reply.status_code == 400
    assert told in reply.json()["error"]["message"]


def test_a_malformed_pause_tells_what_is_valid(terse: Server) -> None:
    """Catches a 500, and a tag that is read aloud."""
    reply = post(terse, text="Hello [pause:forever] you.")
    assert reply.status_code == 400
    assert "[pause:500ms]" in reply.json()["error"]["message"]


def test_server_and_command_line_say_the_same(server: Server, tmp_path: Path) -> None:
    """Catches a path that skips the front end: signs, words and the pause must give the same samples everywhere."""
    written, words = "I paid $5.[pause:300ms] Bye!", "I paid five dollars."
    served = post(server, text=written).content
    streamed = post(server, text=written, stream=True).content
    target = tmp_path / "x.wav"
    command = [sys.executable, "-m", "kestrel", "say", written, "-o", str(target), "--seed", "7", "--threads", "1"]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    assert target.read_bytes()[44:] == served == streamed
    first = post(server, text=words).content
    rate = int(post(server, text=words).headers["X-Sample-Rate"])
    silent = bytes(2 * round(0.3 * rate))
    assert served[: len(first) + len(silent)] == first + silent
