"""Jobs against an engine that does what the test says: order, read-ahead, cancellation and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from kestrel.engine import EngineError, TextError
from kestrel.service.admission import Admission
from kestrel.service.errors import ApiError
from kestrel.service.job import Job
from kestrel.service.speech import Speech, piece_seed
from tests.service.fake_engine import FakeEngine, FakeStream

THREE = "One sentence. Two sentence. Three of them."


def scenario(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs an async test with a bound on its length, so that a lost wake-up fails instead of hanging."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 20))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def make(
    fake: FakeEngine, text: str = THREE, *, slots: int = 1, queue_size: int = 4, read_ahead: float | None = None,
    timeout: float = 15.0, max_seconds: float = 60.0, admission: Admission | None = None,
) -> Job:  # fmt: skip
    speech = Speech(text, seed=7, piece_chars=20, piece_min_chars=5, max_seconds=max_seconds)
    admission = admission or Admission(slots, queue_size)
    return Job(fake.engine, admission, speech, read_ahead=read_ahead, timeout=timeout)


def whole(stream: FakeStream, seconds: float, reason: str) -> None:
    """A piece that is spoken at once."""
    stream.speak(seconds)
    stream.end(reason)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def drain(job: Job) -> list[int]:
    """First sample of every block, to the end."""
    return [int(pcm[0]) async for pcm in job.blocks()]


@scenario
async def test_pieces_are_spoken_in_order_one_at_a_time() -> None:
    """Catches pieces swapped, spoken with one seed, or two of a job in the engine at once."""
    fake = FakeEngine()
    job = make(fake)
    running = asyncio.create_task(job.run())
    for index in range(3):
        await until(lambda index=index: len(fake.streams) == index + 1)  # type: ignore[misc]
        fake.streams[index].speak(1.0, index + 1)
        await asyncio.sleep(0.01)
        assert len(fake.streams) == index + 1
        fake.streams[index].end()
    assert await drain(job) == [1, 2, 3]
    await running
    assert [stream.utterance.text for stream in fake.streams] == ["One sentence.", "Two sentence.", "Three of them."]
    assert [stream.utterance.seed for stream in fake.streams] == [piece_seed(7, index) for index in range(3)]
    assert len({piece_seed(7, index) for index in range(100)} | {piece_seed(8, index) for index in range(100)}) == 200
    assert job.totals.finish_reason == "eos"
    assert job.totals.pieces == 3
    assert job.totals.phases == {"queue": 1.5, "falcon_step": 3.0}
    assert job.totals.audio_seconds == 3.0
    assert job.totals.wall_seconds == 6.0


@scenario
async def test_a_slow_client_stops_the_next_piece_and_a_reading_one_starts_it() -> None:
    """Catches unbounded buffering for a client that does not read, and a job that never goes on after it does."""
    fake = FakeEngine()
    admission = Admission(1, 0)
    job = make(fake, read_ahead=1.5, admission=admission)
    running = asyncio.create_task(job.run())
    await until(lambda: len(fake.streams) == 1)
    fake.streams[0].speak(1.0, 1)
    fake.streams[0].speak(1.0, 2)
    fake.streams[0].end()
    await until(lambda: admission.running == 0)  # its place is free for others while it waits for its client
    assert len(fake.streams) == 1
    blocks = job.blocks()
    assert (await anext(blocks))[0] == 1
    await until(lambda: len(fake.streams) == 2)  # before the second block is taken: read-ahead is used
    assert admission.running == 1
    running.cancel()
    await asyncio.sleep(0)
    fake.streams[1].end("cancelled")


@scenario
async def test_max_seconds_covers_all_pieces_and_is_reported() -> None:
    """Catches a limit applied to each piece, which would let a long text run on, and a cut text reported as whole."""
    fake = FakeEngine(lambda stream: whole(stream, min(2.0, stream.utterance.max_seconds or 0), "eos"))
    job = make(fake, max_seconds=3.0)
    await job.run()
    assert [stream.utterance.max_seconds for stream in fake.streams] == [3.0, 1.0]
    assert job.totals.audio_seconds == 3.0
    assert job.totals.finish_reason == "length"


@scenario
async def test_the_first_guard_that_fired_is_the_finish_reason() -> None:
    """A later piece that ends well must not hide that one before it was cut."""
    reasons = iter(["eos", "repetition", "silence"])
    fake = FakeEngine(lambda stream: whole(stream, 1.0, next(reasons)))
    job = make(fake)
    await job.run()
    assert job.totals.finish_reason == "repetition"
    assert job.totals.pieces == 3


@scenario
async def test_leaving_while_waiting_never_reaches_the_engine() -> None:
    """Catches a queued request of a client long gone taking a slot."""
    fake = FakeEngine()
    admission = Admission(1, 2)
    first, second = (make(fake, admission=admission) for _ in range(2))
    tasks = [asyncio.create_task(job.run()) for job in (first, second)]
    await until(lambda: admission.waiting == 1 and len(fake.streams) == 1)
    tasks[1].cancel()
    await until(lambda: admission.waiting == 0)
    tasks[0].cancel()
    await until(lambda: fake.streams[0].cancelled.is_set())
    fake.streams[0].end("cancelled")
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(fake.streams) == 1
    assert admission.running == 0


@scenario
async def test_the_place_is_kept_until_the_engine_lets_go_of_the_slot() -> None:
    """Admission that hands the place on at once would send the next job to an engine without a free slot."""
    fake = FakeEngine()
    admission = Admission(1, 1)
    job = make(fake, admission=admission)
    running = asyncio.create_task(job.run())
    await until(lambda: len(fake.streams) == 1)
    running.cancel()
    await until(lambda: fake.streams[0].cancelled.is_set())
    running.cancel()  # the deadline and the disconnect can both cancel
    await asyncio.sleep(0.02)
    assert admission.running == 1
    assert not running.done()
    fake.streams[0].speak(0.5)
    fake.streams[0].end("cancelled")
    await asyncio.gather(running, return_exceptions=True)
    assert admission.running == 0
    assert running.cancelled()
    assert job.cancel_seconds is not None
    assert job.totals.finish_reason == "cancelled"


@scenario
async def test_leaving_during_submission_cancels_what_is_submitted() -> None:
    """The text work runs in a thread that cannot be stopped; its stream must not speak on for nobody."""
    fake = FakeEngine()
    fake.gate.clear()
    admission = Admission(1, 1)
    running = asyncio.create_task(make(fake, admission=admission).run())
    await until(lambda: admission.running == 1)
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.sleep(0.01)
    fake.gate.set()
    await until(lambda: bool(fake.streams) and fake.streams[0].cancelled.is_set())
    fake.streams[0].end("cancelled")
    await asyncio.gather(running, return_exceptions=True)
    assert admission.running == 0


@scenario
async def test_a_failure_comes_after_the_audio_before_it() -> None:
    """Catches audio dropped on a failure, and a failure swallowed so that a cut reply looks complete."""
    fake = FakeEngine()
    job = make(fake)
    running = asyncio.create_task(job.run())
    await until(lambda: len(fake.streams) == 1)
    fake.streams[0].speak(1.0, 5)
    fake.streams[0].sink(EngineError("lost"))
    seen: list[np.int16] = []

    async def read() -> None:
        async for pcm in job.blocks():
            seen.append(pcm[0])

    with pytest.raises(EngineError, match="lost"):
        await read()
    assert seen == [5]
    await running


@scenario
async def test_text_errors_and_a_full_queue_reach_the_reader() -> None:
    """Each would otherwise leave the client waiting."""
    fake = FakeEngine()
    job = make(fake, "unspeakable")
    await job.run()
    with pytest.raises(TextError):
        await drain(job)
    assert fake.streams == []


@scenario
async def test_the_deadline_ends_the_job_and_frees_the_slot() -> None:
    """Catches a hung engine call holding a client and a slot for ever."""
    fake = FakeEngine(lambda stream: None)
    admission = Admission(1, 0)
    job = make(fake, admission=admission, timeout=0.05)
    running = asyncio.create_task(job.run())
    await until(lambda: bool(fake.streams) and fake.streams[0].cancelled.is_set())
    fake.streams[0].end("cancelled")
    with pytest.raises(ApiError, match="longer than") as caught:
        await drain(job)
    await running
    assert caught.value.status == 504
    assert admission.running == 0
