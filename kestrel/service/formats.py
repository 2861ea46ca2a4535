"""The audio formats a reply can have: what each is called, how it is packed, at which rates it can be encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

FormatName = Literal["wav", "pcm", "mp3", "opus", "aac", "flac"]

SLOWEST, FASTEST = 0.25, 4.0
"""Speeds that can be asked for."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One value of `format`. `codec` and `muxer` are FFmpeg's names, empty for the two formats without compression.

    `priming`: samples of silence that a decoder gives before the audio, because the stream cannot tell it how many to
    drop. A whole MP3 can, in a tag at its front; AAC in ADTS never can.
    """

    name: str
    media_type: str
    suffix: str
    codec: str = ""
    muxer: str = ""
    rates: tuple[int, ...] = ()  # empty: any
    bit_rate: int | None = None
    priming: int = 0
    codec_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    muxer_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def rate(self, sample_rate: int) -> int:
        """The rate to encode audio of `sample_rate` at: its own, else the next higher one that the codec has."""
        if not self.rates or sample_rate in self.rates:
            return sample_rate
        return next((rate for rate in self.rates if rate > sample_rate), self.rates[-1])


_MPEG_RATES = (16000, 22050, 24000, 32000, 44100, 48000)

FORMATS: Mapping[str, AudioFormat] = MappingProxyType(
    {
        "wav": AudioFormat("wav", "audio/wav", "wav"),
        "pcm": AudioFormat("pcm", "audio/pcm", "pcm"),
        "mp3": AudioFormat(
            "mp3", "audio/mpeg", "mp3", "libmp3lame", "mp3", _MPEG_RATES, 80_000, 1105,
            muxer_options={"id3v2_version": "0"},
        ),
        # A page holds 40 ms: Ogg's default of a second would keep the first audio back for as long.
        "opus": AudioFormat(
            "opus", "audio/ogg;codecs=opus", "opus", "libopus", "ogg", (16000, 24000, 48000), 48_000,
            muxer_options={"page_duration": "40000"},
        ),
        "aac": AudioFormat("aac", "audio/aac", "aac", "aac", "adts", _MPEG_RATES, 64_000, 1024),
        # Short frames for the same reason; no padding, which is room for tags that nobody will write.
        "flac": AudioFormat(
            "flac", "audio/flac", "flac", "flac", "flac",
            codec_options={"frame_size": "1024"}, muxer_options={"metadata_header_padding": "0"},
        ),
    }
)  # fmt: skip
