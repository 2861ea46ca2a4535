"""Single operations of the native library on numpy arrays (ks_op_run)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kestrel.engine.binding import library_path, open_library

Floats = NDArray[np.float32]
_TYPES = {np.dtype(np.float32): b"f32", np.dtype(np.float16): b"f16"}


@dataclass(frozen=True)
class Stored:
    """An array in one of ggml's storage types."""

    type: str  # bf16, q8_0, ...
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


def run_op(
    name: str,
    inputs: Sequence[NDArray[Any] | Stored],
    shape: tuple[int, ...],
    options: Sequence[int] = (),
    *,
    plain: bool = False,
    threads: int = 1,
) -> Floats:
    """The result of the operation, of `shape`; input shapes and options are those of native/src/ops/<name>.h.

    Raises EngineError with the library's message.
    """
    library = open_library(library_path())
    ffi = library.ffi
    arrays = [
        a
        if isinstance(a, Stored)
        else Stored(_TYPES[a.dtype].decode(), a.shape, np.ascontiguousarray(a).view(np.uint8).reshape(-1))
        for a in inputs
    ]
    types = [ffi.new("char[]", array.type.encode()) for array in arrays]
    native = ffi.new("ks_array[]", len(arrays))
    for entry, array, kind in zip(native, arrays, types, strict=True):
        entry.type = kind
        entry.data = ffi.cast("void *", array.data.ctypes.data)
        for axis, length in enumerate(array.shape):
            entry.shape[axis] = length
    out = np.full(shape, np.nan, dtype=np.float32)
    library.check(
        library.lib.ks_op_run(
            name.encode(),
            native,
            len(arrays),
            list(options),
            len(options),
            int(plain),
            threads,
            ffi.cast("float *", out.ctypes.data),
            out.size,
        )
    )
    return out
