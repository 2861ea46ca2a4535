"""The way of one reply's samples: speed and rate, then the encoder. Not for the event loop; one thread at a time."""

from __future__ import annotations

from kestrel.service.containers import Pcm
from kestrel.service.encoders import encoder
from kestrel.service.formats import FORMATS
from kestrel.service.shaping import Shaper


class AudioOutput:
    """Samples of the engine in, bytes of the reply out.

    `rate`: the wanted sample rate, None for the engine's own; a codec without it takes its next higher one.
    `whole`: everything comes at the end, as one file with exact sizes.
    """

    def __init__(
        self, name: str, engine_rate: int, *, whole: bool, speed: float = 1.0, rate: int | None = None
    ) -> None:
        self.format = FORMATS[name]
        self.sample_rate = self.format.rate(rate or engine_rate)
        self.speed = speed
        self.whole = whole
        self.samples = 0  # shaped so far
        self._shaper = Shaper(engine_rate, self.sample_rate, speed)
        self._encoder = encoder(name, self.sample_rate, whole=whole)

    @property
    def media_type(self) -> str:
        """Content type; that of bare samples carries their rate, since nothing else does."""
        if self.format.name == "pcm":
            return f"{self.format.media_type};rate={self.sample_rate};channels=1;bits=16"
        return self.format.media_type

    @property
    def seconds(self) -> float:
        """Length of the audio so far."""
        return self.samples / self.sample_rate

    def encode(self, pcm: Pcm) -> bytes:
        """Bytes that are ready after these samples; may be none."""
        shaped = self._shaper.shape(pcm)
        self.samples += len(shaped)
        return self._encoder.encode(shaped) if len(shaped) else b""

    def finish(self) -> bytes:
        """The rest of the bytes."""
        shaped = self._shaper.finish()
        self.samples += len(shaped)
        data = self._encoder.encode(shaped) if len(shaped) else b""
        return data + self._encoder.finish()
