"""Reader of `.safetensors` files.

The format is a little-endian u64 header length, a JSON header of `{name: {dtype, shape, data_offsets}}`, and the data.
It is read here, memory-mapped, rather than through the library because that cannot hand BF16 to numpy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ConvertError
from .tensors import Floats, widen_bf16

MAX_HEADER = 100 << 20  # the format's own limit
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile:
    """Tensors of one `.safetensors` file. Raises ConvertError if the file is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = np.memmap(path, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:
            raise ConvertError(f"{path.name}: cannot be read: {error}") from error
        if self._data.size < 8:
            raise ConvertError(f"{path.name}: shorter than the 8-byte header length of a safetensors file")
        length = int(self._data[:8].view("<u8")[0])
        if not 2 <= length <= min(MAX_HEADER, self._data.size - 8):
            raise ConvertError(f"{path.name}: header length {length} does not fit a file of {self._data.size} bytes")
        self._base = 8 + length
        try:
            header = json.loads(self._data[8 : self._base].tobytes().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConvertError(f"{path.name}: the header is not JSON: {error}") from error
        if not isinstance(header, dict):
            raise ConvertError(f"{path.name}: the header is not a JSON object")
        room = self._data.size - self._base
        self._entries = {n: self._entry(n, e, room) for n, e in header.items() if n != "__metadata__"}

    def _entry(self, name: str, raw: Any, room: int) -> _Entry:
        try:
            dtype, shape, (begin, end) = (
                raw["dtype"],
                tuple(raw["shape"]),
                raw["data_offsets"],
            )
        except (TypeError, KeyError, ValueError) as error:
            raise ConvertError(f"{self.path.name}: tensor {name!r} has a malformed header entry") from error
        numbers = [*shape, begin, end]
        if not all(type(n) is int and n >= 0 for n in numbers) or not begin <= end <= room:
            raise ConvertError(f"{self.path.name}: tensor {name!r} lies outside the file, which may be truncated")
        if dtype in DTYPES and math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize != end - begin:
            raise ConvertError(f"{self.path.name}: tensor {name!r} of shape {list(shape)} has {end - begin} bytes")
        return _Entry(str(dtype), shape, begin, end)

    def names(self) -> Iterable[str]:
        return self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name].shape

    def read(self, name: str) -> Floats:
        entry = self._entries[name]
        if entry.dtype not in DTYPES:
            raise ConvertError(f"tensor {name!r} has type {entry.dtype}; expected one of {', '.join(DTYPES)}")
        raw = self._data[self._base + entry.begin : self._base + entry.end].tobytes()
        values = np.frombuffer(raw, DTYPES[entry.dtype])
        floats = widen_bf16(values) if entry.dtype == "BF16" else values.astype(np.float32)
        return floats.reshape(entry.shape)
