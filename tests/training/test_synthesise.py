"""Teacher audio: periodic noise in phase with the frames, clean starts, a store that survives interruption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training.synthesise.noise import FFT, HOP, PERIOD, FrameNoise
from training.synthesise.store import Store
from training.synthesise.teacher import LEAD_UNITS, TRAIL_UNITS, Spoken, finish, lead_cut, shorten, trail_cut


def overlap_add(spectrum: np.ndarray, hops: int) -> np.ndarray:
    """Inverse short-time transform as the teacher does it."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    out, norm = np.zeros(hops * HOP + FFT), np.zeros(hops * HOP + FFT)
    for k, frame in enumerate(np.fft.irfft(spectrum.T, FFT, axis=1)):
        out[k * HOP : k * HOP + FFT] += frame * window
        norm[k * HOP : k * HOP + FFT] += window**2
    return (out / np.maximum(norm, 1e-9))[FFT // 2 :]


@pytest.mark.parametrize("start", [0, 600, 6600])
def test_every_frame_after_the_cut_has_the_same_noise(start: int) -> None:
    """Catches noise out of phase with the frames once the lead is cut: it would have to be coded frame by frame."""
    hops = 60
    parts = FrameNoise(start).standard_normal((FFT // 2 + 1, 2 * hops))
    noise = overlap_add(parts.view(np.complex64), hops)[start : hops * HOP - FFT]
    frames = noise[: len(noise) // PERIOD * PERIOD].reshape(-1, PERIOD)
    np.testing.assert_allclose(frames, np.broadcast_to(frames[0], frames.shape), atol=1e-5)
    reference = FrameNoise(0).standard_normal((FFT // 2 + 1, 2 * hops))
    np.testing.assert_allclose(
        frames[0], overlap_add(reference.view(np.complex64), hops)[PERIOD : 2 * PERIOD], atol=1e-5
    )
    assert frames.std() > 0


def test_ends_are_cut_without_a_click() -> None:
    """Catches 0.3 s of silence around every sentence, durations that no longer add up, and jumps at the ends."""
    durations = np.array([13, 2, 2, 13, 6, 1], np.int16)  # pad, a, b, ".", "!", pad
    assert lead_cut(durations) == 13 - LEAD_UNITS
    assert trail_cut("ab.!", durations) == 20 - TRAIL_UNITS
    assert list(shorten("ab.!", durations)) == [LEAD_UNITS, 2, 2, TRAIL_UNITS, 0, 0]
    assert list(shorten("ab", np.array([0, 2, 2, 3], np.int16))) == [0, 2, 2, 3]
    pcm = finish(np.full(2000, 0.5, np.float32), 400, 200)
    assert len(pcm) == 1400
    assert pcm[0] == pcm[-1] == 0
    assert np.abs(np.diff(pcm.astype(int))).max() < 300
    assert pcm[700] == 16383
    with pytest.raises(ValueError, match="not numbers"):
        finish(np.array([0, np.nan], np.float32), 0, 0)


def test_interrupted_store_continues_with_whole_utterances(tmp_path: Path) -> None:
    """Catches samples shifted against the index after a kill between the two writes, and lines spoken twice."""
    spoken = Spoken("ab", np.array([1, 2, 2, 1], np.int16), np.arange(100, dtype=np.int16))
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
