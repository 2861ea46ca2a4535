"""Admission: bounds that leak, waiters that are overtaken or forgotten, and a Retry-After that lies."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.service.admission import (
    MAX_RETRY_AFTER,
    PARKED_PER_SLOT,
    Admission,
    DeadlineUnreachable,
    QueueFull,
    blend_rtf,
    expected_audio_seconds,
    retry_after,
)


class Caller:
    """A request that holds its place until told to leave."""

    def __init__(self, admission: Admission, order: list[Caller], *, background: bool = False) -> None:
        self.background = background
        self.leave = asyncio.Event()
        self.refused: QueueFull | None = None
        self.inside = False
        self.task = asyncio.create_task(self._call(admission, order))

    async def _call(self, admission: Admission, order: list[Caller]) -> None:
        try:
            async with admission.background_place(10.0) if self.background else admission.place(10.0):
                self.inside = True
                order.append(self)
                await self.leave.wait()
        except QueueFull as error:
            self.refused = error
        finally:
            self.inside = False


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@given(st.lists(st.tuples(st.sampled_from(["arrive", "leave", "cancel"]), st.integers(0, 20)), max_size=40),
       st.integers(1, 3), st.integers(0, 3))  # fmt: skip
def test_bounds_order_and_departures(steps: list[tuple[str, int]], slots: int, queue_size: int) -> None:
    """Against a plain list model: never more than the bounds, first come first served, no place lost on a cancel."""

    async def scenario() -> None:
        admission = Admission(slots, queue_size)
        order: list[Caller] = []
        callers: list[Caller] = []  # everyone admitted and not yet gone, in order of arrival
        for action, pick in steps:
            if action == "arrive":
                caller = Caller(admission, order)
                await _settle()
                if len(callers) < slots + queue_size:
                    assert caller.refused is None
                    callers.append(caller)
                else:
                    assert caller.refused is not None
                    assert caller.refused.retry_after >= 1
            elif callers:
                inside = [caller for caller in callers if caller.inside]
                caller = inside[pick % len(inside)] if action == "leave" else callers[pick % len(callers)]
                caller.leave.set() if action == "leave" else caller.task.cancel()
                callers.remove(caller)
                await _settle()
            assert [caller.inside for caller in callers].count(True) == min(slots, len(callers))
            assert all(caller.inside for caller in callers[:slots])
            assert admission.running == min(slots, len(callers))
            assert admission.waiting == max(0, len(callers) - slots)
        for caller in callers:
            caller.task.cancel()
        await asyncio.gather(*(caller.task for caller in callers), return_exceptions=True)
        assert admission.running == admission.waiting == 0

    asyncio.run(scenario())


@given(st.lists(st.tuples(st.sampled_from(["request", "background", "leave", "cancel"]), st.integers(0, 20)),
                max_size=40), st.integers(1, 3), st.integers(0, 3))  # fmt: skip
def test_background_work_runs_only_while_no_request_waits(
    steps: list[tuple[str, int]], slots: int, queue_size: int
) -> None:
    """Against a plain list model: a job never gets a place that a request waits for, never counts against the bounds of
    requests, and always gets one that nobody else wants."""

    async def scenario() -> None:
        admission = Admission(slots, queue_size)
        running: list[Caller] = []
        requests: list[Caller] = []
        background: list[Caller] = []
        for action, pick in steps:
            everyone = [*running, *requests, *background]
            if action in ("request", "background"):
                caller = Caller(admission, [], background=action == "background")
                await _settle()
                held = sum(other.background for other in running)
                if len(running) < slots:
                    running.append(caller)
                elif caller.background:
                    background.append(caller)
                elif len(requests) < queue_size + held:
                    requests.append(caller)
                else:
                    assert caller.refused is not None
            elif everyone if action == "cancel" else running:
                choice = everyone if action == "cancel" else running
                caller = choice[pick % len(choice)]
                caller.leave.set() if action == "leave" else caller.task.cancel()
                for place in (running, requests, background):
                    if caller in place:
                        place.remove(caller)
                for queue in (requests, background):
                    if len(running) < slots and queue:
                        running.append(queue.pop(0))
                await _settle()
            assert all(caller.inside for caller in running)
            assert not any(caller.inside for caller in [*requests, *background])
            assert (admission.running, admission.waiting) == (len(running), len(requests))
        for caller in [*running, *requests, *background]:
            caller.task.cancel()
        await asyncio.gather(*(caller.task for caller in [*running, *requests, *background]), return_exceptions=True)
        assert admission.running == admission.waiting == 0

    asyncio.run(scenario())


async def _grant_and_cancel_together() -> None:
    admission = Admission(1, 2)
    first, second, third = (Caller(admission, []) for _ in range(3))
    await _settle()
    first.leave.set()
    await asyncio.sleep(0)  # first leaves and the place passes to second, whose task has not run yet
    second.task.cancel()
    await _settle()
    assert third.inside
    assert admission.running == 1
    assert admission.waiting == 0
    third.leave.set()
    await _settle()
    assert admission.running == 0


def test_a_place_granted_to_a_cancelled_waiter_is_passed_on() -> None:
    """Catches a slot lost for ever when the client leaves in the very turn in which it is let in."""
    asyncio.run(_grant_and_cancel_together())


async def _park_and_resume() -> None:
    admission = Admission(1, 3)
    stack = AsyncExitStack()
    ticket = await stack.enter_async_context(admission.place(10.0))
    second, third = (Caller(admission, []) for _ in range(2))
    await _settle()
    admission.park(ticket)
    await _settle()
    assert [second.inside, third.inside, admission.running, admission.waiting] == [True, False, 1, 1]
    resuming = asyncio.create_task(admission.resume(ticket))
    await _settle()
    assert not resuming.done()
    second.leave.set()
    await _settle()
    assert resuming.done()
    assert not third.inside
    admission.park(ticket)
    await _settle()
    assert third.inside
    await stack.aclose()  # the client of a parked job leaves
    third.leave.set()
    await _settle()
    assert admission.running == 0


def test_a_parked_job_makes_room_and_comes_back_first() -> None:
    """Catches slots held by slow listeners, a listener who starves behind newcomers, a place lost or given twice."""
    asyncio.run(_park_and_resume())


async def _park_too_many() -> None:
    admission = Admission(1, 0)
    async with AsyncExitStack() as stack:
        for _ in range(PARKED_PER_SLOT):
            admission.park(await stack.enter_async_context(admission.place(1.0)))
        kept = await stack.enter_async_context(admission.place(1.0))
        admission.park(kept)
        assert admission.running == 1
        await admission.resume(kept)
        assert admission.running == 1
    assert admission.running == 0


def test_parked_jobs_are_bounded() -> None:
    """Each holds audio in memory; without a bound, slow clients could take all of it."""
    asyncio.run(_park_too_many())


@pytest.mark.parametrize(
    ("queued", "rtf", "slots", "seconds"),
    [([], 1.0, 4, 1), ([10.0, 10.0], 0.5, 1, 10), ([10.0, 10.0], 0.5, 4, 3), ([3600.0] * 10, 1.0, 1, MAX_RETRY_AFTER)],
)
def test_retry_after_is_the_work_ahead(queued: list[float], rtf: float, slots: int, seconds: int) -> None:
    """A constant or zero Retry-After makes clients hammer or give up."""
    assert retry_after(queued, rtf, slots) == seconds


@given(st.lists(st.floats(0, 1000), max_size=20), st.floats(0, 50), st.integers(1, 64), st.floats(0, 1000))
def test_retry_after_grows_with_work_and_stays_in_range(
    queued: list[float], rtf: float, slots: int, more: float
) -> None:
    """Catches overflow, zero and negative values."""
    assert 1 <= retry_after(queued, rtf, slots) <= retry_after([*queued, more], rtf, slots) <= MAX_RETRY_AFTER


def test_produced_audio_shortens_the_wait() -> None:
    """A nearly finished request must not count with its whole length."""

    async def scenario() -> tuple[int, int]:
        admission = Admission(1, 0, rtf=1.0)
        async with AsyncExitStack() as stack:
            ticket = await stack.enter_async_context(admission.place(expected_audio_seconds(900, 60.0)))
            before = admission.retry_after()
            ticket.produced_seconds = 55.0
            return before, admission.retry_after()

    assert asyncio.run(scenario()) == (60, 5)


def test_measured_rtf_moves_the_estimate_slowly() -> None:
    """One slow request must not send everyone away for minutes."""
    assert 1.0 < blend_rtf(1.0, 10.0) < 4.0


async def _audio_bound() -> tuple[str, int]:
    admission = Admission(2, 8, rtf=0.5, max_audio_seconds=100.0)
    async with AsyncExitStack() as stack:
        long = await stack.enter_async_context(admission.place(500.0))  # nothing before it: never too long
        with pytest.raises(QueueFull) as refused:
            await stack.enter_async_context(admission.place(20.0))
        long.produced_seconds = 450.0
        admission.park(await stack.enter_async_context(admission.place(30.0)))
        assert admission.audio_seconds == 80.0
        with pytest.raises(QueueFull):  # one that rests has its audio still to come
            await stack.enter_async_context(admission.place(21.0))
        await stack.enter_async_context(admission.place(20.0))
        return str(refused.value), refused.value.retry_after
    return "", 0


def test_audio_seconds_are_bounded_besides_the_count() -> None:
    """Catches a short queue that is hours long, and a Retry-After that waits for all of it instead of for room."""
    told, retry = asyncio.run(_audio_bound())
    assert "500 s of audio" in told
    assert "100 s are the limit" in told
    assert retry == 105  # 420 s too much, at half their length, on two slots


async def _deadline(within: float) -> int:
    admission = Admission(1, 8, rtf=0.5)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(admission.place(60.0, 1.0))  # a free slot has no wait
        waiting = asyncio.create_task(stack.enter_async_context(admission.place(40.0)))
        await _settle()
        late = asyncio.create_task(stack.enter_async_context(admission.place(1.0, within)))
        await _settle()
        waiting.cancel()
        late.cancel()
        await asyncio.gather(waiting, late, return_exceptions=True)
        error = late.exception() if not late.cancelled() else None
        assert error is None or isinstance(error, DeadlineUnreachable)
        return 0 if error is None else error.retry_after


def test_a_deadline_that_would_pass_in_the_queue_is_told_at_once() -> None:
    """Catches clients that wait their whole deadline for a refusal: 100 s of audio at RTF 0.5 are 50 s of waiting."""
    assert asyncio.run(_deadline(51.0)) == 0
    assert asyncio.run(_deadline(45.0)) == 5
    assert asyncio.run(_deadline(0.5)) == 50
