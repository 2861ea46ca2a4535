"""Teacher audio: periodic noise in phase with the frames, clean starts, a store that survives interruption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training.synthesise.noise import FFT, HOP, PERIOD, FrameNoise
from training.synthesise.store import Store
from training.synthesise.teacher import FRAME, OUT_RATE, Spoken, trim


def overlap_add(spectrum: np.ndarray, hops: int) -> np.ndarray:
    """Inverse short-time transform as the teacher does it."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    out, norm = np.zeros(hops * HOP + FFT), np.zeros(hops * HOP + FFT)
    for k, frame in enumerate(np.fft.irfft(spectrum.T, FFT, axis=1)):
        out[k * HOP : k * HOP + FFT] += frame * window
        norm[k * HOP : k * HOP + FFT] += window**2
    return (out / np.maximum(norm, 1e-9))[FFT // 2 :]


def test_every_frame_has_the_same_noise() -> None:
    """Catches noise that is not periodic in the codec frame: it would have to be coded and guessed frame by frame."""
    hops = 60
    parts = FrameNoise().standard_normal((FFT // 2 + 1, 2 * hops))
    noise = overlap_add(parts.view(np.complex64), hops)[: hops * HOP - FFT]
    frames = noise[: len(noise) // PERIOD * PERIOD].reshape(-1, PERIOD)
    np.testing.assert_allclose(frames, np.broadcast_to(frames[0], frames.shape), atol=1e-5)
    assert frames.std() > 0
    with pytest.raises(ValueError, match="too long"):
        FrameNoise().standard_normal((FFT // 2 + 1, 2 * 5000))


def test_ends_are_cut_without_a_click() -> None:
    """Catches 0.3 s of silence around every sentence, a cut off the frame grid, a cut sound, and jumps at the ends."""
    samples = np.zeros(20000, np.float32)
    samples[5000:12000] = 0.5 * np.sin(np.arange(7000) * 0.3)
    lead, pcm = trim(samples, 0.008, 0.12)
    onset = int(np.flatnonzero(np.abs(pcm) > 300)[0])
    assert lead == 7
    assert onset + lead * FRAME == pytest.approx(5000, abs=20)
    assert len(pcm) - int(np.flatnonzero(np.abs(pcm) > 300)[-1]) == pytest.approx(0.12 * OUT_RATE, abs=60)
    assert np.array_equal(pcm[400:7000], (samples[400 + lead * FRAME : 7000 + lead * FRAME] * 32767).astype(np.int16))
    _, hard = trim(np.full(3000, 0.5, np.float32), 0, 0.1)
    assert hard[0] == hard[-1] == 0
    assert np.abs(np.diff(hard.astype(int))).max() < 300
    with pytest.raises(ValueError, match="not numbers"):
        trim(np.array([0, np.nan], np.float32), 0, 0)
    with pytest.raises(ValueError, match="silence"):
        trim(np.zeros(1000, np.float32), 0, 0)


def test_interrupted_store_continues_with_whole_utterances(tmp_path: Path) -> None:
    """Catches samples shifted against the index after a kill between the two writes, and lines spoken twice."""
    spoken = Spoken("ab", np.array([1, 2, 2, 1], np.int16), 7, np.arange(100, dtype=np.int16))
    with Store(tmp_path) as store:
        store.add("one", spoken)
        store.add("refused", None)
        store.add("two", spoken)
    with (tmp_path / "audio.i16").open("ab") as audio:
        audio.write(b"\1" * 33)
    with (tmp_path / "index.jsonl").open("ab") as index:
        index.write(b'{"line": 3, "te')
    with Store(tmp_path) as store:
        assert store.next_line == 3
        store.add("three", spoken)
    entries = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [e["text"] for e in entries] == ["one", "refused", "two", "three"]
    samples = np.fromfile(tmp_path / "audio.i16", "<i2")
    for entry in entries:
        expected = [] if entry["text"] == "refused" else list(range(100))
        assert list(samples[entry["offset"] : entry["offset"] + entry["samples"]]) == expected
