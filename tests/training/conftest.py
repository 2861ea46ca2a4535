"""A corpus small enough to train on in a test, and a model to match."""

from __future__ import annotations

import numpy as np
import pytest

from training.ar.config import Config, DataConfig, ModelConfig, OptimiserConfig, RunConfig
from training.ar.stream import Utterance, make_utterance

LINES = (
    ("Hi there, Bob.", "hˈI ðˈɛɹ, bˈɑb."),
    ("The cat sat.", "ðə kˈæt sˈæt."),
    ("USA today", "jˌuˌɛsˈA tədˈA"),
    ("Go!", "ɡˈO!"),
)


def speak(text: str, phonemes: str, seed: int) -> Utterance:
    """An utterance with two duration units a phoneme, 13 of leading silence, and random codes."""
    durations = np.array([13, *[2] * len(phonemes), 14], np.int16)
    frames = int(durations.sum() * 0.025 / 0.04)
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, n, frames) for n in (32, 8, 8)], 1).astype(np.int16)
    utterance = make_utterance(text, phonemes, durations, codes, DataConfig(anticipation=0.05))
    assert utterance is not None
    return utterance


@pytest.fixture
def utterances() -> list[Utterance]:
    return [speak(text, phonemes, seed) for seed, (text, phonemes) in enumerate(LINES)]


@pytest.fixture
def tiny() -> Config:
    model = ModelConfig(
        dim=32,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=8,
        ffn=48,
        ssm_inner=32,
        ssm_heads=4,
        ssm_state=8,
        fast_layers=1,
        fast_heads=4,
        fast_kv_heads=2,
        fast_head_dim=8,
        fast_ffn=48,
        codebook_sizes=(32, 8, 8),
        aligned_layers=(1,),
    )
    return Config(
        model=model, optimiser=OptimiserConfig(batch=3, warm_up=2, residual_weights=(1.0, 0.8)), run=RunConfig()
    )
