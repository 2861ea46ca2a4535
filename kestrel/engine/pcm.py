"""Float samples to 16-bit integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FULL_SCALE = 32767.0


def to_int16(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """1.0 becomes 32767; halves round to even; what lies outside [-1, 1] is clamped.

    -32768 is never used, so that the sign of a sample can be turned without overflow.
    """
    scaled: npt.NDArray[np.float32] = np.clip(samples, -1.0, 1.0) * np.float32(FULL_SCALE)
    return np.rint(scaled).astype(np.int16)
