"""The generation loop: prompt and text segments in, frames of codes and samples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .codec import decode
from .fast import fast_frame
from .sampler import GREEDY, Sampling, draw, draw_semantic, uniform
from .slow import SlowOutput, SlowReference
from .weights import Weights


@dataclass
class Generation:
    """frames: [n][codebooks]. columns: everything the slow AR read, [1 + codebooks, positions]. logits and
    fast_logits: one entry a frame (logits also for draws of NEXT and EOS). segment_frames: frame at which each segment
    was read. finish: eos, length or context."""

    columns: Tensor
    frames: list[list[int]] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    fast_logits: list[Tensor] = field(default_factory=list)
    segment_frames: list[int] = field(default_factory=list)
    finish: str = "length"

    @property
    def codes(self) -> Tensor:
        """[codebooks, frames]."""
        return torch.tensor(self.frames, dtype=torch.long).reshape(len(self.frames), -1).T


class Reference:
    """The whole model for one utterance at a time."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.config = weights.config
        self.slow = SlowReference(weights)

    def text_columns(self, ids: Sequence[int]) -> Tensor:
        columns = torch.zeros(1 + len(self.config.codebook_sizes), len(ids), dtype=torch.long)
        columns[0] = torch.tensor(ids)
        return columns

    def frame_column(self, codes: Sequence[int]) -> Tensor:
        return torch.tensor([self.config.semantic_begin + codes[0], *codes])[:, None]

    def generate(
        self,
        prompt: Tensor,
        max_frames: int,
        *,
        sampling: Sampling = GREEDY,
        seed: int = 0,
        segments: Sequence[Sequence[int]] = (),
        max_segment_frames: int = 0,
    ) -> Generation:
        """prompt [1 + codebooks, T]. segments: interleaved text, one read at every NEXT; EOS is possible after them."""
        self.slow.reset()
        out = Generation(prompt)
        state = self._read(out, prompt, first=True)
        recent: list[int] = []
        draws, waiting, segment_frames = 0, list(segments), 0
        eos = self.config.semantic_size
        while len(out.frames) < max_frames:
            logits = state.logits[-1].clone()
            overdue = self.config.has_next and 0 < max_segment_frames <= segment_frames
            if self.config.has_next:
                logits[eos if waiting else eos + 1] = -torch.inf
            if overdue:
                token = eos + 1 if waiting else eos
            else:
                uniforms = uniform(seed, draws, 0), uniform(seed, draws, 1)
                token = draw_semantic(logits.numpy(), sampling, recent, eos, uniforms)
                draws += 1
            out.logits.append(state.logits[-1])
            if token == eos:
                out.finish = "length" if overdue else "eos"
                break
            if token > eos:
                out.segment_frames.append(len(out.frames))
                segment_frames = 0
                state = self._read(out, self.text_columns(waiting.pop(0)))
                continue
            recent.append(token)
            segment_frames += 1
            self._frame(out, state.hidden[-1], token, sampling, seed, draws)
            if len(out.frames) < max_frames:
                state = self._read(out, self.frame_column(out.frames[-1]))
        return out

    def _read(self, out: Generation, columns: Tensor, first: bool = False) -> SlowOutput:
        if not first:
            out.columns = torch.cat([out.columns, columns], 1)
        return self.slow.run(columns)

    def _frame(self, out: Generation, hidden: Tensor, semantic: int, sampling: Sampling, seed: int, draws: int) -> None:
        def choose(logits: Tensor, codebook: int) -> int:
            u = uniform(seed, draws, 1 + codebook)
            return draw(logits.numpy(), sampling.fast_temperature, sampling.top_p, sampling.top_k, u)

        codes, logits = fast_frame(self.weights, hidden, semantic, choose)
        out.frames.append(codes)
        out.fast_logits.append(logits)

    def samples(self, codes: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """codes [codebooks, T] -> float32 samples."""
        return decode(self.weights, codes).samples.numpy()
