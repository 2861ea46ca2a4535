"""Noise that repeats with every codec frame.

The teacher adds its breath noise on the host, from a random generator. Fresh noise would have to be coded by the
codec and guessed by the AR model, bit by bit, although nobody can hear which noise it is. So every codec frame gets
the same noise: a spectrum of constant magnitude and random phase with a period of one frame.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

RATE = 24000
FFT, HOP = 1200, 300
"""The teacher's analysis window and hop, in samples."""
PERIOD = 960
"""One codec frame (40 ms)."""
MOST_HOPS = PERIOD  # a multiple of the period in samples, long enough for 12 s


@functools.cache
def periodic_spectrum() -> NDArray[np.complex64]:
    """Short-time spectrum [bins, hops] of the noise."""
    rng = np.random.default_rng(5)
    phases = np.exp(2j * np.pi * rng.random(PERIOD // 2 + 1))
    samples = np.tile(np.fft.irfft(phases, PERIOD), MOST_HOPS * HOP // PERIOD)
    padded = np.pad(samples, FFT // 2, mode="wrap")  # whole periods, so wrapping continues them
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:MOST_HOPS] * window
    spectrum = np.fft.rfft(frames, axis=1).T
    spectrum *= np.sqrt(2 / np.mean(np.abs(spectrum) ** 2))  # the power of complex white noise
    return np.ascontiguousarray(spectrum, np.complex64)


class FrameNoise:
    """Stands in for the generator the teacher draws its noise from."""

    def standard_normal(self, shape: tuple[int, int], dtype: type = np.float32) -> NDArray[np.float32]:
        """Real and imaginary parts side by side, [bins, 2 * hops], as the teacher asks for them.

        Raises ValueError for audio longer than the noise that was prepared.
        """
        hops = shape[1] // 2
        if hops > MOST_HOPS:
            raise ValueError(f"line too long: {hops} hops, at most {MOST_HOPS}")
        return np.ascontiguousarray(periodic_spectrum()[:, :hops]).view(np.float32)
