"""Weight normalisation, folded into plain weights.

A weight-normed convolution stores a direction v and a gain g per slice of axis 0; its weight is g · v / ‖v‖ with the
norm over all other axes. Axis 0 of a transposed convolution ([in, out, k]) is the *input* channel: folding per output
channel would give every upsampling stage wrong gains.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .errors import ConvertError
from .tensors import Floats, TensorFile

SPELLINGS = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)


def fold(gain: Floats, direction: Floats) -> Floats:
    """Weight [n, ...] of a direction [n, ...] and a gain [n, 1, ...]. ValueError if a slice is all zero."""
    axes = tuple(range(1, direction.ndim))
    norm = np.sqrt(np.square(direction, dtype=np.float64).sum(axis=axes, keepdims=True))
    if not norm.all():
        raise ValueError("a slice of the direction is all zero")
    weight: Floats = (gain * (direction / norm)).astype(np.float32)
    return weight


class FoldedFile:
    """A tensor file whose weight-normed tensors read as plain ones, whichever way they are spelled."""

    def __init__(self, inner: TensorFile) -> None:
        self._inner = inner
        self._pairs: dict[str, tuple[str, str]] = {}
        present = set(inner.names())
        for name in present:
            for gain, direction in SPELLINGS:
                if name.endswith("." + direction):
                    owner = name.removesuffix(direction)
                    self._pairs[f"{owner}weight"] = (owner + gain, name)
        self._names = present | set(self._pairs)

    def names(self) -> Iterable[str]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        pair = self._pairs.get(name)
        return self._inner.shape(pair[1] if pair else name)

    def read(self, name: str) -> Floats:
        pair = self._pairs.get(name)
        if pair is None:
            return self._inner.read(name)
        try:
            gain, direction = self._inner.read(pair[0]), self._inner.read(pair[1])
        except KeyError as error:
            raise ConvertError(
                f"tensor {pair[0]!r} is missing: {name!r} is weight-normed and needs its gain"
            ) from error
        expected = (direction.shape[0],) + (1,) * (direction.ndim - 1)
        if gain.shape != expected:
            raise ConvertError(f"tensor {pair[0]!r} has shape {list(gain.shape)}; expected {list(expected)}")
        try:
            return fold(gain, direction)
        except ValueError as error:
            raise ConvertError(f"tensor {pair[1]!r}: {error}, so its weight norm cannot be folded") from error
