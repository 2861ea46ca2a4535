"""Decoding replies with FFmpeg, as players do: whole files, and files that stop somewhere."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from kestrel.service.formats import FORMATS

Samples = NDArray[np.float64]

MUXERS = {"wav": "wav", "mp3": "mp3", "opus": "ogg", "aac": "aac", "flac": "flac"}


def decode(data: bytes, name: str, rate: int = 24000) -> tuple[Samples, int]:
    """Samples between -1 and 1, as far as `data` goes, and their rate. `rate` counts for bare samples only."""
    if name == "pcm":
        return np.frombuffer(data[: len(data) // 2 * 2], "<i2") / 32768, rate
    parts: list[NDArray[Any]] = []
    with av.open(io.BytesIO(data), format=MUXERS[name]) as container:
        stream = container.streams.audio[0]
        to_float = av.AudioResampler(format="flt", layout="mono")
        assert stream.layout.nb_channels == 1
        try:
            for frame in container.decode(stream):
                parts += [out.to_ndarray()[0] for out in to_float.resample(frame)]
        except av.InvalidDataError:
            pass  # a last frame that was cut; what came before it counts
        return np.concatenate([np.zeros(0), *parts]).astype(np.float64), stream.rate


def frame_samples(name: str, rate: int) -> int:
    """Length of a codec frame at the rate that the decoder gives. Exact formats have frames of one sample."""
    return {"mp3": 576 if rate < 32000 else 1152, "aac": 1024, "opus": rate // 50}.get(name, 1)


def without_priming(samples: Samples, name: str, *, whole: bool = False) -> Samples:
    """The audio, without the silence that its decoder puts before it."""
    return samples if whole and name == "mp3" else samples[FORMATS[name].priming :]


def likeness(a: Samples, b: Samples) -> float:
    """Correlation of two signals, as far as both go."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-12))


def resampled(samples: Samples, from_rate: int, to_rate: int) -> Samples:
    """By Fourier series: exact for what both rates hold."""
    if from_rate == to_rate:
        return samples
    length = round(len(samples) * to_rate / from_rate)
    padded = np.concatenate([samples, np.zeros(-len(samples) % from_rate + from_rate)])
    bins = np.fft.rfft(padded)
    target = len(padded) * to_rate // from_rate
    return np.fft.irfft(bins[: target // 2 + 1], target)[:length] * (to_rate / from_rate)


def buzz(seconds: float, rate: int, f0: float = 140.0) -> NDArray[np.int16]:
    """A voice-like sound, gliding, with pauses, and loud at its very first and last sample."""
    t = np.arange(int(seconds * rate)) / rate
    phase = 2 * np.pi * np.cumsum(f0 * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * t))) / rate
    wave = sum(np.cos(k * phase) / k for k in range(1, 15))
    envelope = np.where((t % 0.9 < 0.7) | (t > seconds - 0.3), 1.0, 0.02)
    return np.asarray(6000 * wave * envelope).astype(np.int16)
