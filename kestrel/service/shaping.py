"""Speed and sample rate: what happens to the samples between the engine and the encoder.

FFmpeg's filters do the work: `atempo` stretches time by overlapping similar waveforms, so the pitch stays, and
`aresample` changes the rate. Both run as the samples come. `atempo` gives slightly different samples when they come in
other portions, and the engine's chunks differ between streamed and whole replies; so they are cut into equal blocks
first, and the result does not depend on how the audio arrives.
"""

from __future__ import annotations

import math

import av
import numpy as np
from av.filter import Graph

from kestrel.service.containers import Pcm
from kestrel.service.encoders import frame_of

_BLOCK_SECONDS = 0.02
_FLUSH_SECONDS = 0.25
"""Silence behind the audio, times the speed if that is above 1. `atempo` drops what does not fill its last window."""
_TAIL_SECONDS = 0.025
"""Kept beyond the computed length: overlapping may place the last sound this much late."""

_NOTHING = np.zeros(0, np.int16)


def tempo_steps(speed: float) -> list[float]:
    """Factors within 0.5 to 2 whose product is `speed`: below, `atempo` has no window; above, it skips samples."""
    steps = max(1, math.ceil(abs(math.log2(speed)) - 1e-9))
    return [speed ** (1 / steps)] * steps


class Shaper:
    """Samples at one rate and speed in, at another out. Gives back the very samples when there is nothing to change."""

    def __init__(self, from_rate: int, to_rate: int, speed: float = 1.0) -> None:
        self._from_rate, self._to_rate, self._speed = from_rate, to_rate, speed
        self._block = max(1, int(from_rate * _BLOCK_SECONDS))
        self._graph = None if speed == 1.0 and from_rate == to_rate else _graph(from_rate, to_rate, speed)
        self._pending = _NOTHING
        self._pushed = self._pulled = 0

    def shape(self, pcm: Pcm) -> Pcm:
        """The samples that are ready after these; may be none."""
        if self._graph is None:
            return pcm
        waiting = np.concatenate([self._pending, pcm])
        whole = len(waiting) // self._block * self._block
        self._pending = waiting[whole:]
        return _joined([self._through(block) for block in waiting[:whole].reshape(-1, self._block)])

    def finish(self) -> Pcm:
        """The rest of the samples."""
        if self._graph is None:
            return _NOTHING
        rest = [self._through(self._pending)] if len(self._pending) else []
        if self._speed == 1.0:
            self._graph.push(None)
            return _joined([*rest, self._pull()])
        limit = round(self._pushed / self._speed / self._from_rate * self._to_rate + _TAIL_SECONDS * self._to_rate)
        before = self._pulled - sum(map(len, rest))
        silence = np.zeros(self._block, np.int16)
        blocks = math.ceil(_FLUSH_SECONDS * max(1.0, self._speed) / _BLOCK_SECONDS)
        rest += [self._through(silence) for _ in range(blocks)]
        self._graph.push(None)
        return _joined([*rest, self._pull()])[: max(0, limit - before)]

    def _through(self, block: Pcm) -> Pcm:
        assert self._graph is not None
        self._graph.push(frame_of(block, self._from_rate, self._pushed))
        self._pushed += len(block)
        return self._pull()

    def _pull(self) -> Pcm:
        assert self._graph is not None
        ready: list[Pcm] = []
        while True:
            try:
                frame = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                break
            assert isinstance(frame, av.AudioFrame)
            ready.append(frame.to_ndarray()[0])
        pcm = _joined(ready)
        self._pulled += len(pcm)
        return pcm


def _joined(parts: list[Pcm]) -> Pcm:
    return np.concatenate(parts) if parts else _NOTHING


def _graph(from_rate: int, to_rate: int, speed: float) -> Graph:
    graph = Graph()
    source = graph.add_abuffer(sample_rate=from_rate, format="s16", layout="mono", time_base=None)
    steps = [graph.add("atempo", f"{step:.9f}") for step in tempo_steps(speed)] if speed != 1.0 else []
    if from_rate != to_rate:
        steps.append(graph.add("aresample", str(to_rate)))
    steps.append(graph.add("aformat", "sample_fmts=s16"))
    graph.link_nodes(source, *steps, graph.add("abuffersink")).configure()
    return graph
