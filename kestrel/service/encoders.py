"""Encoders: samples in, bytes of one format out, as the samples come or as one file.

One encoder per reply, used by one thread at a time. A *streamed* encoder gives whole packets only, so the bytes given
so far are a valid, shorter file at every moment, and no header before there is audio to go with it. A *whole* encoder
keeps everything until `finish`, because exact sizes (WAV), the sample count (FLAC) and the gapless tag (MP3) stand at
the front of a file and are known at its end.

FFmpeg, through PyAV, does the compression: it is the one maintained library with all four codecs.
"""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any, Protocol

import av
from av.audio.stream import AudioStream

from kestrel.service.containers import Pcm, wav_header
from kestrel.service.formats import FORMATS, AudioFormat


class Encoder(Protocol):
    """Turns the samples of one reply into its bytes."""

    def encode(self, pcm: Pcm) -> bytes:
        """Bytes that are ready after these samples; may be none."""
        ...

    def finish(self) -> bytes:
        """The rest of the bytes. Nothing may be encoded after it."""
        ...


def frame_of(pcm: Pcm, sample_rate: int, position: int) -> av.AudioFrame:
    """Samples as FFmpeg takes them; `position` counts the samples before them."""
    frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
    frame.sample_rate = sample_rate
    frame.time_base = Fraction(1, sample_rate)
    frame.pts = position
    return frame


class PlainEncoder:
    """16-bit little-endian samples, bare or behind a WAV header."""

    def __init__(self, sample_rate: int, *, header: bool, whole: bool) -> None:
        self._sample_rate = sample_rate
        self._header = header
        self._whole = whole
        self._blocks: list[bytes] = []
        self._begun = False

    def encode(self, pcm: Pcm) -> bytes:
        data = pcm.astype("<i2", copy=False).tobytes()
        if self._whole:
            self._blocks.append(data)
            return b""
        if not self._header or self._begun:
            return data
        self._begun = True
        return wav_header(self._sample_rate, None) + data

    def finish(self) -> bytes:
        if not self._whole:
            return b""
        samples = sum(map(len, self._blocks)) // 2
        return b"".join([wav_header(self._sample_rate, samples) if self._header else b"", *self._blocks])


class _Pipe:
    """A file that can only be written: its lack of `seek` tells FFmpeg that the sizes cannot be filled in later."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data


class FfmpegEncoder:
    """A codec and a container of FFmpeg's."""

    def __init__(self, audio: AudioFormat, sample_rate: int, *, whole: bool) -> None:
        self._sample_rate = sample_rate
        self._file: io.BytesIO | _Pipe = io.BytesIO() if whole else _Pipe()
        # bitexact: no version of the library in the file, so equal samples give equal bytes.
        options = {"flush_packets": "1", "fflags": "+bitexact", **audio.muxer_options}
        self._container = av.open(self._file, "w", format=audio.muxer, options=options)
        stream: Any = self._container.add_stream(audio.codec, rate=sample_rate, options=dict(audio.codec_options))
        self._stream: AudioStream = stream
        self._stream.codec_context.layout = "mono"
        if audio.bit_rate is not None:
            self._stream.codec_context.bit_rate = audio.bit_rate
        self._position = 0
        self._container.start_encoding()
        # Kept back, so that the first bytes of a reply always are audio too.
        self._head = self._file.take() if isinstance(self._file, _Pipe) else b""

    def encode(self, pcm: Pcm) -> bytes:
        if len(pcm):
            self._mux(frame_of(pcm, self._sample_rate, self._position))
            self._position += len(pcm)
        return self._ready()

    def finish(self) -> bytes:
        """Empties the codec, then closes the container: the last packets exist only after the first of these, the last
        page or the sizes only after the second."""
        self._mux(None)
        self._container.close()
        return self._file.getvalue() if isinstance(self._file, io.BytesIO) else self._ready()

    def _mux(self, frame: av.AudioFrame | None) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)

    def _ready(self) -> bytes:
        data = self._file.take() if isinstance(self._file, _Pipe) else b""
        if data:
            data, self._head = self._head + data, b""
        return data


def encoder(name: str, sample_rate: int, *, whole: bool) -> Encoder:
    """An encoder for the format `name`, a key of FORMATS, at one of its rates."""
    audio = FORMATS[name]
    if audio.codec:
        return FfmpegEncoder(audio, sample_rate, whole=whole)
    return PlainEncoder(sample_rate, header=name == "wav", whole=whole)
