"""Sessions side by side: each gives exactly what it gives alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from tests.native.conftest import Pair
from tests.native.harness import Native, Session
from tests.reference.sampler import Sampling

SAMPLING = Sampling(temperature=0.9, top_p=0.95)


@dataclass(frozen=True)
class Result:
    codes: bytes
    audio: bytes
    finish: str


class Utterance:
    """A session and what it has said so far."""

    def __init__(self, pair: Pair, seed: int) -> None:
        shape = random.Random(seed)
        self.frames = shape.randint(2, 24)
        self.session: Session = pair.native.open(
            pair.prompt(shape.choice((1, 5, 60, 126)), seed),
            max_frames=self.frames,
            sampling=SAMPLING,
            seed=seed,
            decode=True,
            chunks=(1, shape.choice((1, 4, 16))),
        )
        self._audio: list[bytes] = []

    def collect(self) -> None:
        self._audio.append(self.session.read().tobytes())

    def close(self) -> Result:
        result = Result(self.session.codes().tobytes(), b"".join(self._audio), self.session.finish)
        self.session.close()
        return result


def alone(pair: Pair, seed: int) -> Result:
    utterance = Utterance(pair, seed)
    for _ in pair.native.steps(utterance.session):
        utterance.collect()
    return utterance.close()


@pytest.mark.parametrize("plan", range(3))
def test_neighbours_change_nothing(tiny: Pair, plan: int) -> None:
    """Catches state shared between slots, kernels that change their summation order with the batch, slots not cleaned
    after a cancel, and audio mixed up: 1 to 4 sessions join, leave and are cancelled at random; codes and samples of
    each are byte-equal to running alone, and a cancelled one's are a prefix."""
    choose = random.Random(plan)
    expected: dict[int, Result] = {}
    running: dict[int, Utterance] = {}
    seeds = iter(range(100 * plan, 100 * plan + 14))
    finished: dict[int, Result] = {}
    cancelled: set[int] = set()
    exhausted = False
    while running or not exhausted:
        while len(running) < 4 and not exhausted and (not running or choose.random() < 0.4):
            seed = next(seeds, None)
            exhausted = seed is None
            if seed is not None:
                running[seed] = Utterance(tiny, seed)
        if running and choose.random() < 0.06:
            victim = choose.choice(list(running))
            running[victim].session.cancel()
            cancelled.add(victim)
        order = list(running.values())
        choose.shuffle(order)
        if order:
            tiny.native.step(*(u.session for u in order))
        for seed in list(running):
            running[seed].collect()
            if running[seed].session.finish != "running":
                finished[seed] = running.pop(seed).close()
    assert cancelled
    for seed, result in finished.items():
        expected[seed] = alone(tiny, seed)
        if result.finish == "cancelled":
            assert seed in cancelled
            assert expected[seed].codes.startswith(result.codes)
            assert expected[seed].audio.startswith(result.audio)
        else:
            assert result == expected[seed]


def test_threads_change_nothing(tiny: Pair) -> None:
    """Catches sums that are split by the number of threads: a machine with more cores must say the same bytes."""
    expected = [alone(tiny, seed) for seed in (3, 4)]
    with_threads = replace(tiny)  # its own engine, opened below
    native = Native(tiny.model_file, threads=3)
    with_threads.__dict__["native"] = native
    try:
        assert [alone(with_threads, seed) for seed in (3, 4)] == expected
    finally:
        native.close()


def test_repeat_gives_the_same_bytes(tiny: Pair) -> None:
    """Catches anything carried over in a slot, or uninitialised memory that reaches the output."""
    first = alone(tiny, 7)
    assert all(alone(tiny, 7) == first for _ in range(5))


def test_seeds_differ(tiny: Pair) -> None:
    """Guards the tests above: equal bytes would prove nothing if every seed said the same."""
    assert len({alone(tiny, seed).codes for seed in range(6)}) == 6
