"""Keeps freed memory in the process."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's mallopt parameters


def keep_freed_memory() -> bool:
    """Tell glibc not to hand freed blocks back to the kernel; False where that is not possible.

    A step allocates and frees hundreds of tensors of a few megabytes. By default each one is mapped and unmapped,
    and clearing their pages took more time than the arithmetic.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False  # another C library
    wanted = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    accepted = [mallopt(name, value) == 1 for name, value in wanted]
    return all(accepted)
