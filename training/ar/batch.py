"""Corpus loading, choice of batches, and padding of streams to tensors."""

from __future__ import annotations

import dataclasses
import io
import lzma
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.ar.config import DataConfig
from training.ar.stream import Ints, Stream, Utterance, make_utterance

IGNORE = -100
"""Target of a row that only rounds a batch up; cross entropy skips it."""
ROUND_POSITIONS, ROUND_ROWS = 16, 256


class _ArraysOnly(pickle.Unpickler):
    """Unpickler that knows NumPy arrays and nothing else: a data file must not be able to run code."""

    ALLOWED = frozenset(
        {
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"the code file may hold only arrays, found {module}.{name}")
        return super().find_class(module, name)


def load_utterances(paths: Sequence[Path], config: DataConfig) -> tuple[list[Utterance], list[Utterance]]:
    """Read (held-out, training) utterances from xz-compressed code files.

    Each file is a pickled pair of lists of (text, phonemes, durations int16, codes int16 [frames, codebooks]).
    """
    held_out: list[Any] = []
    training: list[Any] = []
    for path in paths:
        parts = _ArraysOnly(io.BytesIO(lzma.decompress(path.read_bytes()))).load()
        held_out += parts[0]
        training += parts[1]

    def convert(entries: list[Any]) -> list[Utterance]:
        made = (make_utterance(text, ps, dur, codes, config) for text, ps, dur, codes in entries)
        return [u for u in made if u is not None]

    # Sorted by length: a batch is drawn from a narrow window, so little of it is padding.
    return convert(held_out), sorted(convert(training), key=lambda u: len(u.codes))


def choose_batch(count: int, size: int, rng: np.random.Generator) -> list[int]:
    """Indices of a batch: a random subset of a random window four batches wide."""
    window = min(count, 4 * size)
    first = int(rng.integers(0, count - window + 1))
    return [first + int(i) for i in rng.choice(window, min(size, window), replace=False)]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Padded streams. B utterances, T positions, R predictions, M predicted frames, C codebooks.

    T, R and M are rounded up. The CPU's matrix library compiles a kernel for every new shape and keeps it: with
    exact sizes nearly every batch would be a new shape, and memory grew by gigabytes within minutes.
    """

    text: Tensor  # [B, T] text ids, 0 at frames and padding
    is_frame: Tensor  # [B, T]
    codes: Tensor  # [B, T, C] codes at frame positions, else 0
    predict: Tensor  # [R] positions with a target, as indices into B * T
    targets: Tensor  # [R] classes, IGNORE where rounded up
    frame_at: Tensor  # [M] positions whose target is a frame, as indices into B * T
    frame_codes: Tensor  # [M, C] that frame's codes
    frame_targets: Tensor  # [M, C - 1] its residual codes, IGNORE where rounded up
    align_rows: tuple[Tensor, Tensor]  # [A] utterance, [A] position
    align_columns: Tensor  # [A]

    def to(self, device: torch.device) -> Batch:
        """Copy to a device."""
        rows = (self.align_rows[0].to(device), self.align_rows[1].to(device))
        moved = {f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self) if f.name != "align_rows"}
        return Batch(align_rows=rows, **moved)


def round_up(values: Ints, multiple: int, fill: int) -> Tensor:
    """Pad the first axis to a multiple."""
    missing = -len(values) % multiple
    return torch.from_numpy(np.concatenate([values, np.full((missing, *values.shape[1:]), fill, np.int64)]))


def collate(streams: Sequence[Stream], semantic_size: int) -> Batch:
    """Pad streams of different lengths to one batch."""
    count = len(streams)
    length = -(-max(s.length for s in streams) // ROUND_POSITIONS) * ROUND_POSITIONS
    books = streams[0].codes.shape[1]
    text = np.zeros((count, length), np.int64)
    is_frame = np.zeros((count, length), bool)
    codes = np.zeros((count, length, books), np.int64)
    targets = np.full((count, length), -1, np.int64)
    frame_codes = []
    for i, stream in enumerate(streams):
        n, tokens = stream.length, stream.tokens
        text[i, :n] = np.maximum(tokens, 0)
        is_frame[i, :n] = tokens < 0
        codes[i, :n][tokens < 0] = stream.codes[-tokens[tokens < 0] - 1]
        targets[i, :n] = stream.targets
        frame_codes.append(stream.codes)  # frames are predicted in their order, each once
    flat = targets.reshape(-1)
    predict = np.flatnonzero(flat >= 0)
    frame_at = np.flatnonzero((flat >= 0) & (flat < semantic_size))
    all_codes = np.concatenate(frame_codes)
    utterance = np.concatenate([np.full(len(s.aligned), i) for i, s in enumerate(streams)])
    aligned = np.concatenate([s.aligned for s in streams])
    tensor = torch.from_numpy
    return Batch(
        text=tensor(text),
        is_frame=tensor(is_frame),
        codes=tensor(codes),
        predict=round_up(predict, ROUND_ROWS, 0),
        targets=round_up(flat[predict], ROUND_ROWS, IGNORE),
        frame_at=round_up(frame_at, ROUND_ROWS, 0),
        frame_codes=round_up(all_codes, ROUND_ROWS, 0),
        frame_targets=round_up(all_codes[:, 1:], ROUND_ROWS, IGNORE),
        align_rows=(tensor(utterance), tensor(aligned[:, 0].copy())),
        align_columns=tensor(aligned[:, 1].copy()),
    )
