"""Audio containers: 16-bit mono PCM, bare or behind a WAV header.

The WAV header is written by hand because writers that patch the sizes on close cannot be used on a socket. Layout:
Microsoft/IBM "Multimedia Programming Interface and Data Specifications 1.0" (1991), RIFF WAVE chapter.
"""

from __future__ import annotations

import struct
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]

UNKNOWN_SIZE = 0xFFFFFFFF
"""Both size fields of a streamed WAV: the reader takes data until the stream ends, the convention of ffmpeg and sox."""

HEADER_BYTES = 44


class Container(Protocol):
    """Turns PCM blocks into the bytes of one reply: header, then every block."""

    media_type: str

    def header(self, samples: int | None) -> bytes:
        """Bytes before the first block. `samples`: length of the whole audio, None while it is not known."""
        ...

    def block(self, pcm: Pcm) -> bytes:
        """Bytes of one block of samples."""
        ...


def wav_header(sample_rate: int, samples: int | None) -> bytes:
    """44-byte header of a 16-bit mono WAV; `samples` None writes the sentinel for an unknown length.

    Raises ValueError for audio that the 32-bit size fields cannot hold.
    """
    data = UNKNOWN_SIZE if samples is None else samples * 2
    riff = UNKNOWN_SIZE if samples is None else data + HEADER_BYTES - 8
    if samples is not None and riff >= UNKNOWN_SIZE:
        raise ValueError(f"a WAV file holds at most {(UNKNOWN_SIZE - HEADER_BYTES) // 2} samples, not {samples}")
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff, b"WAVE",
        b"fmt ", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16,
        b"data", data,
    )  # fmt: skip


class Wav:
    """`audio/wav`."""

    media_type = "audio/wav"

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate

    def header(self, samples: int | None) -> bytes:
        return wav_header(self.sample_rate, samples)

    def block(self, pcm: Pcm) -> bytes:
        return pcm.astype("<i2", copy=False).tobytes()


class RawPcm:
    """Bare little-endian samples; the media type carries the rate, since nothing else does."""

    def __init__(self, sample_rate: int) -> None:
        self.media_type = f"audio/pcm;rate={sample_rate};channels=1;bits=16"

    def header(self, samples: int | None) -> bytes:
        return b""

    def block(self, pcm: Pcm) -> bytes:
        return pcm.astype("<i2", copy=False).tobytes()


CONTAINERS: dict[str, type[Wav | RawPcm]] = {"wav": Wav, "pcm": RawPcm}


def container(name: str, sample_rate: int) -> Container:
    """The container called `name`, a key of CONTAINERS."""
    return CONTAINERS[name](sample_rate)
