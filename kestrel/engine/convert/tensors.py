"""What the readers of the two weight files have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


class TensorFile(Protocol):
    """Named tensors of one file, read one at a time."""

    def names(self) -> Iterable[str]:
        """Names of all tensors in the file."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape without reading the data. KeyError if absent."""

    def read(self, name: str) -> Floats:
        """Values as float32. KeyError if absent, ConvertError if they are not numbers this converter reads."""


def widen_bf16(bits: NDArray[np.uint16]) -> Floats:
    """bfloat16 bit patterns to float32: the same bits, with a mantissa of zeros below."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
