"""How close two float32 implementations must be, and the comparison.

The limits are those of the model's description for values around 1 (one layer 5e-6, the stack's hidden state 1e-4,
samples 1e-4), but for logits, whose 1e-3 would hide small mistakes. Larger values have larger roundings, so each limit
grows with the largest value compared. Errors seen on x86-64: layers 4e-6, hidden and logits 6e-6, samples 8e-6.
"""

from __future__ import annotations

import numpy as np
import torch

LAYER, STATE, HIDDEN, LOGITS, SAMPLES = 5e-6, 5e-6, 1e-4, 1e-4, 1e-4


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference, relative to the largest expected value where that is above 1."""
    if actual.shape != expected.shape or not torch.isfinite(actual).all():
        return float("inf")
    if actual.numel() == 0:
        return 0.0
    return float((actual - expected).abs().max() / max(1.0, float(expected.abs().max())))


def samples_error(actual: np.ndarray, expected: torch.Tensor) -> float:
    """Largest difference of two waveforms of full scale 1."""
    return error(torch.from_numpy(actual), expected)
