"""Codec against the PyTorch reference, whole and in chunks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.native import tolerances
from tests.native.conftest import Models, Pair
from tests.native.harness import PLAIN_ALL, PLAIN_CONV, PLAIN_SNAKE, Native
from tests.native.tolerances import samples_error
from tests.reference.dims import PRESETS
from tests.reference.sampler import Sampling

SCHEDULES = {"1": (1,), "2": (2,), "3": (3,), "7": (7,), "16": (16,), "mixed": (5, 1, 1, 16, 2, 3)}


def codes_of(pair: Pair, frames: int, seed: int = 0) -> torch.Tensor:
    """[codebooks, frames] over the language model's whole range, beyond the residual codebooks of the codec."""
    c, generator = pair.reference.config, torch.Generator().manual_seed(seed)
    return torch.randint(0, c.codebook_sizes[0], (len(c.codebook_sizes), frames), generator=generator)


@pytest.mark.parametrize("frames", [1, 2, 40])
@pytest.mark.parametrize("preset", ["tiny", "wide_state"])
def test_whole(models: Models, preset: str, frames: int) -> None:
    """Catches every mistake in the codec's layers; 40 frames reach beyond the attention window of 8 in each layer, and
    codes beyond a codebook must be clamped into it."""
    pair = models[preset]
    codes = codes_of(pair, frames)
    expected = torch.from_numpy(pair.reference.samples(codes))
    assert 0.05 < float(expected.std()) < 0.8  # neither silence nor clipping: differences can be seen
    assert samples_error(pair.native.decode(codes), expected) < tolerances.SAMPLES


def test_long_stream(tiny: Pair) -> None:
    """Catches rotation tables computed in double: the published float32 table, rounded to bfloat16, has another entry
    at position 230 for this head size, which moves samples by 1e-3."""
    codes = codes_of(tiny, 360)
    expected = torch.from_numpy(tiny.reference.samples(codes))
    assert samples_error(tiny.native.decode(codes, (16,)), expected) < tolerances.SAMPLES


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_chunks_equal_whole(tiny: Pair, schedule: str) -> None:
    """Catches state lost or restarted between chunks: any split gives the same bytes as one call."""
    codes = codes_of(tiny, 40)
    whole = tiny.native.decode(codes)
    assert tiny.native.decode(codes, SCHEDULES[schedule]).tobytes() == whole.tobytes()


def test_decoders_share_nothing(tiny: Pair) -> None:
    """Catches state that leaks from one stream to the next in the same slot."""
    first, second = codes_of(tiny, 9, seed=1), codes_of(tiny, 9, seed=2)
    alone = tiny.native.decode(second)
    tiny.native.decode(first)
    assert tiny.native.decode(second).tobytes() == alone.tobytes()


@pytest.mark.parametrize("chunks", [(1, 1), (1, 16), (3, 8), (16, 16)])
def test_session_audio(tiny: Pair, chunks: tuple[int, int]) -> None:
    """Catches a session that decodes other codes than it reports, drops or repeats a chunk, or forgets the last one."""
    sampling = Sampling()
    with tiny.native.session(
        tiny.prompt(6), max_frames=37, sampling=sampling, seed=3, decode=True, chunks=chunks
    ) as session:
        parts = []
        for _ in tiny.native.steps(session):
            parts.append(session.read())
        codes = torch.from_numpy(session.codes()).long().T
        audio = np.concatenate(parts)
        assert len(audio) == codes.shape[1] * tiny.native.info.frame_size
        assert audio.tobytes() == tiny.native.decode(codes).tobytes()
        assert samples_error(audio, torch.from_numpy(tiny.reference.samples(codes))) < tolerances.SAMPLES


@pytest.mark.parametrize("operations", [PLAIN_CONV, PLAIN_SNAKE, PLAIN_ALL])
@pytest.mark.parametrize("preset", PRESETS)
def test_plain_operations_agree(models: Models, preset: str, operations: int) -> None:
    """Catches a codec kernel that drifts from the stock ggml operations it replaces."""
    pair = models[preset]
    plain = Native(pair.model_file, plain_ops=operations)
    try:
        codes = codes_of(pair, 11)
        own = torch.from_numpy(pair.native.decode(codes))
        for chunks in ((4,), (1, 3), (11,)):  # stock matrix products round differently by their number of columns
            assert samples_error(plain.decode(codes, chunks), own) < tolerances.SAMPLES
    finally:
        plain.close()
