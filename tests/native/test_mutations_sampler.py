"""The sampler test would catch each known mistake: wrong rules, given the engine's own logits, draw other codes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.native.conftest import Pair
from tests.native.harness import FAST_LOGITS, LOGITS
from tests.reference import sampler
from tests.reference.sampler import Sampling, draw, draw_semantic, uniform

SAMPLING = Sampling(
    temperature=0.7, fast_temperature=0.6, top_p=0.9, top_k=9, ras_window=6, ras_temperature=2.0, ras_top_p=0.99
)
FRAMES, SEEDS = 40, range(16)


@dataclass(frozen=True)
class Frame:
    """What the engine drew, and from what. logits [32 + 1], fast [codebooks - 1, 32]."""

    logits: NDArray[np.float32]
    fast: NDArray[np.float32]
    codes: list[int]


@pytest.fixture(scope="module")
def runs(tiny: Pair) -> dict[int, list[Frame]]:
    out: dict[int, list[Frame]] = {}
    for seed in SEEDS:
        out[seed] = []
        with tiny.native.session(tiny.prompt(9), max_frames=FRAMES, sampling=SAMPLING, seed=seed) as session:
            for i in range(FRAMES):
                tiny.native.step(session)
                if session.finish == "eos":
                    break
                fast: torch.Tensor = session.state(FAST_LOGITS)
                codes = session.codes()[i].tolist()
                out[seed].append(Frame(session.state(LOGITS).numpy(), fast.numpy().reshape(len(codes) - 1, -1), codes))
    return out


@dataclass(frozen=True)
class Rules:
    """How a run is drawn again. `recent` is the window's content at the start; `skip` tokens are not stored."""

    name: str
    sampling: Sampling = SAMPLING
    recent: tuple[int, ...] = ()
    skip: int = 0
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    purposes: tuple[int, int] = (0, 1)
    fast_lead: int = 1


def redrawn(frames: list[Frame], seed: int, rules: Rules) -> list[list[int]]:
    """Codes of a run by `rules`; the window holds what the engine really chose."""
    s, recent, out = rules.sampling, list(rules.recent), []
    with rules.patch():
        for i, frame in enumerate(frames):
            u = uniform(seed, i, rules.purposes[0]), uniform(seed, i, rules.purposes[1])
            codes = [draw_semantic(frame.logits, s, recent, len(frame.logits) - 1, u)]
            for j, row in enumerate(frame.fast, start=1):
                u_fast = uniform(seed, i + rules.fast_lead, 1 + j)
                codes.append(draw(row, s.fast_temperature, s.top_p, s.top_k, u_fast))
            out.append(codes)
            if i >= rules.skip:
                recent.append(frame.codes[0])
    return out


def crossing_token_kept() -> AbstractContextManager[Any]:
    def survivors(logits: NDArray[Any], top_p: float, top_k: int) -> NDArray[np.int64]:
        order = np.argsort(-logits.astype(np.float64), kind="stable")
        weights = np.exp(logits[order].astype(np.float64) - logits.max())
        before = np.cumsum(weights / weights.sum()) - weights / weights.sum()
        kept: NDArray[np.int64] = order[(before <= top_p) & (np.arange(len(order)) < top_k)]
        return kept

    return mock.patch.object(sampler, "survivors", survivors)


def temperature_first() -> AbstractContextManager[Any]:
    right = sampler.survivors
    return mock.patch.object(sampler, "survivors", lambda logits, p, k: right(logits / SAMPLING.temperature, p, k))


def nucleus_among_top_k() -> AbstractContextManager[Any]:
    right = sampler.survivors

    def survivors(logits: NDArray[Any], top_p: float, top_k: int) -> NDArray[np.int64]:
        inside = np.full_like(logits, -np.inf)
        kept = right(logits, 1.0, top_k)
        inside[kept] = logits[kept]
        return right(inside, top_p, top_k)

    return mock.patch.object(sampler, "survivors", survivors)


WRONG = [
    Rules("T28 crossing token kept", patch=crossing_token_kept),
    Rules("T28 temperature before filtering", patch=temperature_first),
    Rules("nucleus measured among the top k", patch=nucleus_among_top_k),
    Rules("top_p ignored", replace(SAMPLING, top_p=1.0)),
    Rules("top_k ignored", replace(SAMPLING, top_k=0)),
    Rules("one temperature for all codebooks", replace(SAMPLING, fast_temperature=0.7)),
    Rules("T30 no repetition-aware draw", replace(SAMPLING, ras_window=0)),
    Rules("T30 window one shorter", replace(SAMPLING, ras_window=5)),
    Rules("T30 window one longer", replace(SAMPLING, ras_window=7)),
    Rules("T30 first token not stored", skip=1),
    Rules("T30 window filled with zeros", recent=(0,) * 6),
    Rules("T30 high draw at the request's temperature", replace(SAMPLING, ras_temperature=0.7)),
    Rules("T30 high draw with the request's random number", purposes=(0, 0)),
    Rules("random stream of the fast codes shifted", fast_lead=0),
]


def test_right_rules_agree(runs: dict[int, list[Frame]]) -> None:
    """Without a mistake every code is drawn again: what follows is not noise."""
    for seed, frames in runs.items():
        assert len(frames) > 5
        assert redrawn(frames, seed, Rules("right")) == [frame.codes for frame in frames]


@pytest.mark.parametrize("rules", WRONG, ids=lambda rules: rules.name)
def test_wrong_rules_are_caught(runs: dict[int, list[Frame]], rules: Rules) -> None:
    """Catches a sampler test that is blind to the mistake."""
    assert any(redrawn(frames, seed, rules) != [f.codes for f in frames] for seed, frames in runs.items())
