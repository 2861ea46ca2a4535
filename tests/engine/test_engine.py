"""The engine with the real library and the default voice.

Faults caught: utterances that influence each other, replies that change with chunking or history, slots, threads or
memory that leak, cancellations that are lost, errors that spread.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from kestrel.engine import (
    BusyError,
    Chunk,
    ClosedError,
    Engine,
    EngineError,
    Result,
    Sampling,
    Stream,
    TextError,
    TextTooLongError,
    Utterance,
)
from kestrel.engine.binding import NativeModel, NativeSession

PATIENCE = 60.0
PHASES = ["text", "queue", "prefill", "falcon_step", "sample", "fast_graph", "codec_build", "codec_compute", "encode"]

TEXTS = [
    "The old man lived alone near the sea.",
    "Hello!",
    "Turn left at the corner, and walk two blocks.",
    "It is late.",
]
LONG = "The doctor said that he should drink more water, and that the weather tomorrow will be cold and rainy."


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(slots=4, threads=1) as engine:
        yield engine


def speak(engine: Engine, utterance: Utterance) -> bytes:
    """All samples of an utterance."""
    return collect(engine.submit(utterance))


def collect(stream: Stream) -> bytes:
    return b"".join(chunk.pcm.tobytes() for chunk in stream)


class Gate:
    """A sink that holds the owner thread inside the first chunk until `open` is called: no test races with it."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self, event: Chunk | Result | Exception) -> None:
        if isinstance(event, Chunk):
            self.chunks.append(event)
            self._reached.set()
            self._opened.wait(PATIENCE)

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE)

    def open(self) -> None:
        self._opened.set()


def test_a_stream_is_consistent(engine: Engine) -> None:
    """Chunks follow each other without gap, and the result agrees with them."""
    stream = engine.submit(Utterance(TEXTS[0], first_chunk_frames=1, max_chunk_frames=8))
    samples = 0
    for index, chunk in enumerate(stream):
        assert chunk.index == index
        assert chunk.start == samples / engine.info.sample_rate
        assert chunk.pcm.dtype == np.int16
        assert 0 < len(chunk.pcm) <= 8 * engine.info.frame_size
        assert index or len(chunk.pcm) == engine.info.frame_size
        samples += len(chunk.pcm)
    result = stream.result()
    assert result.finish_reason == "eos"
    assert result.frames * engine.info.frame_size == samples
    assert result.audio_seconds == samples / engine.info.sample_rate
    assert result.rtf == result.wall_seconds / result.audio_seconds
    assert list(result.phases) == PHASES
    assert all(phase.seconds >= 0 and phase.count > 0 for phase in result.phases.values())
    assert result.phases["falcon_step"].count == result.frames
    assert list(stream) == []  # a second iteration ends at once


def test_speech_is_neither_silent_nor_clipped(engine: Engine) -> None:
    """A broken decode shows as silence, full-scale noise or a constant."""
    pcm = np.frombuffer(speak(engine, Utterance(TEXTS[0])), dtype=np.int16).astype(np.float64) / 32767
    assert 1.0 < len(pcm) / engine.info.sample_rate < 6.0
    assert 0.01 < np.sqrt(np.mean(pcm**2)) < 0.3
    assert np.mean(np.abs(pcm) > 0.99) < 0.001
    assert abs(np.mean(pcm)) < 0.01


def test_words_have_start_times(engine: Engine) -> None:
    """Every word of the text, in order, with spans that delimit it and times inside the audio."""
    text = "Please close 2 windows, Robert!"
    stream = engine.submit(Utterance(text))
    words = stream.result(PATIENCE).words
    assert [word.text for word in words] == ["Please", "close", "2", "windows", "Robert"]
    assert all(text[word.start : word.end] == word.text for word in words)
    times = [word.seconds for word in words]
    assert times[0] == 0
    assert times == sorted(set(times))
    assert times[-1] < stream.result().audio_seconds


def test_same_seed_same_bytes_other_seed_other_bytes(engine: Engine) -> None:
    """The seed alone decides the draw; temperature 0 does not depend on it."""
    assert speak(engine, Utterance(LONG, seed=1)) == speak(engine, Utterance(LONG, seed=1))
    assert speak(engine, Utterance(LONG, seed=1)) != speak(engine, Utterance(LONG, seed=2**64 - 1))
    greedy = Sampling(temperature=0)
    assert speak(engine, Utterance(LONG, seed=1, sampling=greedy)) == speak(engine, Utterance(LONG, sampling=greedy))


def test_temperature_changes_the_speech(engine: Engine) -> None:
    """An override that is lost on the way would go unnoticed."""
    assert speak(engine, Utterance(LONG, sampling=Sampling(temperature=0.9))) != speak(engine, Utterance(LONG))
    assert speak(engine, Utterance(LONG, sampling=Sampling(temperature=0.9, top_k=1))) == speak(
        engine, Utterance(LONG, sampling=Sampling(temperature=0))
    )


@pytest.mark.parametrize(("first", "most"), [(1, 1), (2, 2), (3, 8), (16, 16)])
def test_samples_do_not_depend_on_chunk_sizes(engine: Engine, first: int, most: int) -> None:
    """The codec's state carries over: any schedule gives the same bytes."""
    chunked = Utterance(TEXTS[0], first_chunk_frames=first, max_chunk_frames=most)
    assert speak(engine, chunked) == speak(engine, Utterance(TEXTS[0]))


def test_streams_beside_each_other_equal_streams_alone(engine: Engine) -> None:
    """Four at once, with other texts and seeds, give the bytes of one at a time."""
    wanted = [Utterance(text, seed=i) for i, text in enumerate(TEXTS)]
    alone = [speak(engine, utterance) for utterance in wanted]
    together = [engine.submit(utterance) for utterance in wanted]
    assert [collect(stream) for stream in together] == alone


def test_joins_leaves_and_cancels_do_not_change_a_stream(engine: Engine) -> None:
    """More utterances than slots, some cancelled at random points: the others give the bytes they give alone."""
    draw = random.Random(5)
    wanted = [Utterance(TEXTS[i % 4], seed=i) for i in range(6)]
    alone = [speak(engine, utterance) for utterance in wanted]
    for _ in range(3):
        order = draw.sample(range(6), 6)
        streams = {}
        for i in order:
            doomed = engine.submit(Utterance(LONG, seed=draw.randrange(100)))
            streams[i] = engine.submit(wanted[i])
            for _ in range(draw.randrange(3)):
                next(iter(doomed), None)
            doomed.cancel()
        assert [collect(streams[i]) for i in range(6)] == alone


def test_a_hundred_identical_requests(engine: Engine) -> None:
    """State left over in a slot, a cache or a generator would show in some reply."""
    first = speak(engine, Utterance("It is late.", seed=7))
    streams = [engine.submit(Utterance("It is late.", seed=7)) for _ in range(100)]
    assert {collect(stream) for stream in streams} == {first}


def test_cancel_from_another_thread(engine: Engine) -> None:
    """The stream ends before its next frame, with its reason; what was spoken is the beginning of the whole."""
    whole = speak(engine, Utterance(LONG))
    gate = Gate()
    stream = engine.submit(Utterance(LONG, first_chunk_frames=1, max_chunk_frames=1), gate)
    gate.wait()
    canceller = threading.Thread(target=stream.cancel)
    canceller.start()
    canceller.join()
    gate.open()
    result = stream.result(PATIENCE)
    assert (result.finish_reason, result.frames, len(gate.chunks)) == ("cancelled", 1, 1)
    assert result.audio_seconds == 1 / engine.info.frames_per_second
    assert whole.startswith(gate.chunks[0].pcm.tobytes())
    assert [word.text for word in result.words] == ["The"]


def test_cancel_while_waiting_and_after_the_end(engine: Engine) -> None:
    """A waiting utterance ends without a slot; cancelling an ended one changes nothing."""
    gate = Gate()
    running = [engine.submit(Utterance(LONG), gate), *(engine.submit(Utterance(LONG, seed=i)) for i in range(3))]
    gate.wait()
    waiting = engine.submit(Utterance(LONG))
    waiting.cancel("deadline")
    waiting.cancel("cancelled")  # the first reason stays
    gate.open()
    result = waiting.result(PATIENCE)
    assert (result.finish_reason, result.frames, result.audio_seconds, result.rtf) == ("deadline", 0, 0, 0)
    assert result.words == ()
    assert list(waiting) == []
    for stream in running:
        assert stream.result(PATIENCE).finish_reason == "eos"
        stream.cancel()
        assert stream.result().finish_reason == "eos"


def test_leaving_a_with_block_cancels(engine: Engine) -> None:
    """A caller that stops listening must not keep a slot."""
    gate = Gate()
    with engine.submit(Utterance(LONG), gate) as stream:
        gate.wait()
    gate.open()
    assert stream.result(PATIENCE).finish_reason == "cancelled"


def test_max_seconds_limits_the_audio(engine: Engine) -> None:
    """The limit holds to the frame, and the shortest one still gives audio."""
    whole = speak(engine, Utterance(LONG))
    stream = engine.submit(Utterance(LONG, max_seconds=1.0))
    assert whole.startswith(collect(stream))
    assert (stream.result().finish_reason, stream.result().audio_seconds) == ("length", 1.0)
    assert engine.submit(Utterance(LONG, max_seconds=0.001)).result(PATIENCE).frames == 1


def test_sink_receives_chunks_then_the_result(engine: Engine) -> None:
    """What a sink gets is what iteration gives; a sink and iteration exclude each other."""
    events: list[Chunk | Result | Exception] = []
    stream = engine.submit(Utterance(TEXTS[0]), events.append)
    result = stream.result(PATIENCE)
    with pytest.raises(EngineError, match="sink"):
        list(stream)
    engine.submit(Utterance("It is late.")).result(PATIENCE)  # the sink has surely been called by now
    assert events[-1] is result
    chunks = [event for event in events[:-1] if isinstance(event, Chunk)]
    assert len(chunks) == len(events) - 1
    assert b"".join(chunk.pcm.tobytes() for chunk in chunks) == speak(engine, Utterance(TEXTS[0]))


def test_a_failing_sink_ends_only_its_own_stream(engine: Engine) -> None:
    """A broken consumer must not take the owner thread down."""

    def broken(event: object) -> None:
        raise RuntimeError("consumer bug")

    other = engine.submit(Utterance(LONG))
    victim = engine.submit(Utterance(LONG), broken)
    assert victim.result(PATIENCE).finish_reason == "cancelled"
    assert other.result(PATIENCE).finish_reason == "eos"


def test_bad_requests_are_refused_and_harm_nobody(engine: Engine) -> None:
    """Each refusal names what is wrong; a stream that runs meanwhile is the same as alone."""
    alone = speak(engine, Utterance(LONG))
    running = engine.submit(Utterance(LONG))
    for text in ("", " ", "\x00", "😀", "日本語", "\ud800"):
        with pytest.raises(TextError):
            engine.submit(Utterance(text))
    for text in ("word " * 400, "a" * 100_000, "7" * 8000):
        with pytest.raises(TextTooLongError, match=r"too long .*split it into parts of about 95 characters"):
            engine.submit(Utterance(text))
        with pytest.raises(TextTooLongError):
            engine.check(text)
    engine.check(LONG)
    with pytest.raises(ValueError, match="valid: default"):
        engine.submit(Utterance("Hello.", voice="nobody"))
    with pytest.raises(ValueError, match="valid: en"):
        engine.submit(Utterance("Hello.", language="zh"))
    assert collect(running) == alone
    assert speak(engine, Utterance("Hello.", language="en-GB")) == speak(engine, Utterance("Hello."))


def test_too_many_waiting_is_busy() -> None:
    """The queue is bounded; what was accepted is still spoken."""
    gate = Gate()
    with Engine(slots=1, threads=1, max_waiting=2) as engine:
        first = engine.submit(Utterance(LONG), gate)
        gate.wait()
        accepted = [engine.submit(Utterance("Hello.")) for _ in range(2)]
        with pytest.raises(BusyError, match="2 utterances wait"):
            engine.submit(Utterance("Hello."))
        gate.open()
        assert [stream.result(PATIENCE).finish_reason for stream in [first, *accepted]] == ["eos"] * 3
        assert engine.submit(Utterance("Hello.")).result(PATIENCE).finish_reason == "eos"


def test_close_while_running() -> None:
    """Running and waiting streams end as cancelled, nobody hangs, and the engine says that it is closed."""
    engine = Engine(slots=2, threads=1, max_waiting=20_000)
    gate = Gate()
    streams = [engine.submit(Utterance(LONG), gate), *(engine.submit(Utterance(LONG, seed=i)) for i in range(4))]
    gate.wait()
    closer = threading.Thread(target=engine.close)
    closer.start()

    def submit_until_closed() -> None:
        for _ in range(10_000):
            engine.submit(Utterance("Hello."))
            closer.join(0.001)

    with pytest.raises(ClosedError, match="closed"):
        submit_until_closed()
    gate.open()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert [stream.result(0).finish_reason for stream in streams] == ["cancelled"] * 5
    engine.close()


def test_a_failed_step_ends_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine-wide failure reaches all callers as an error, and later requests are refused instead of hanging."""
    engine = Engine(slots=1, threads=1)

    def broken(self: NativeModel, sessions: object) -> None:
        raise EngineError("no memory for the graph")

    monkeypatch.setattr(NativeModel, "step", broken)
    streams = [engine.submit(Utterance(LONG)) for _ in range(2)]
    for stream in streams:
        with pytest.raises(EngineError, match="no memory for the graph"):
            stream.result(PATIENCE)
        with pytest.raises(EngineError):
            list(stream)
    with pytest.raises(ClosedError, match="no memory for the graph"):
        engine.submit(Utterance("Hello."))
    engine.close()


def test_close_ends_streams_even_if_the_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may wait for ever for a stream whose last status cannot be read."""
    engine = Engine(slots=2, threads=1)
    gate = Gate()
    streams = [engine.submit(Utterance(LONG), gate), engine.submit(Utterance(LONG)), engine.submit(Utterance(LONG))]
    gate.wait()

    def broken(self: NativeSession) -> None:
        raise EngineError("no status")

    monkeypatch.setattr(NativeSession, "status", broken)
    closer = threading.Thread(target=engine.close)
    closer.start()
    gate.open()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    for stream in streams[:2]:
        with pytest.raises(EngineError, match="no status"):
            stream.result(0)
    assert streams[2].done


def test_an_utterance_that_cannot_open_fails_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session the library refuses is that caller's error."""
    open_session = NativeModel.open_session

    def picky(self: NativeModel, columns: object, *, seed: int, **rest: object) -> object:
        if seed == 13:
            raise EngineError("bad luck")
        return open_session(self, columns, seed=seed, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(NativeModel, "open_session", picky)
    good, bad = engine.submit(Utterance(LONG)), engine.submit(Utterance(LONG, seed=13))
    with pytest.raises(EngineError, match="bad luck"):
        bad.result(PATIENCE)
    assert good.result(PATIENCE).finish_reason == "eos"


def test_a_forgotten_engine_closes() -> None:
    """Neither its thread nor the model's memory may outlive the last reference."""
    before = set(threading.enumerate())
    engine = Engine(slots=1, threads=1)
    (owner,) = set(threading.enumerate()) - before
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    owner.join(PATIENCE)
    assert not owner.is_alive()


_LEAK_PROBE = """
import resource
from kestrel.engine import Engine, Utterance

with Engine(slots=4, threads=1) as engine:
    for request in range(1, 101):
        assert sum(len(chunk.pcm) for chunk in engine.submit(Utterance("It is late.", seed=request))) > 0
        if request in (10, 100):
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_requests() -> None:
    """Peak memory after request 100 equals that after request 10 within two percent (a process of its own)."""
    done = subprocess.run([sys.executable, "-c", _LEAK_PROBE], capture_output=True, text=True, timeout=300, check=True)
    after_10, after_100 = map(int, done.stdout.split())
    assert after_100 <= 1.02 * after_10


def test_an_interpreter_that_forgets_to_close_ends() -> None:
    """Leaving with a stream still running must neither hang nor crash."""
    code = (
        "from kestrel.engine import Engine, Utterance\n"
        "engine = Engine(slots=1, threads=1)\n"
        f"stream = engine.submit(Utterance({LONG!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
