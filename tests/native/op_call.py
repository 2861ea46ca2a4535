"""Single operations of the native library on numpy arrays (ks_op_run)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kestrel.engine.binding import library_path, open_library

Floats = NDArray[np.float32]
_TYPES = {np.dtype(np.float32): b"f32", np.dtype(np.float16): b"f16"}


def run_op(
    name: str,
    inputs: Sequence[NDArray[Any]],
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
    ffi, arrays = library.ffi, [np.ascontiguousarray(array) for array in inputs]
    types = [ffi.new("char[]", _TYPES[array.dtype]) for array in arrays]
    native = ffi.new("ks_array[]", len(arrays))
    for entry, array, kind in zip(native, arrays, types, strict=True):
        entry.type = kind
        entry.data = ffi.cast("void *", array.ctypes.data)
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
