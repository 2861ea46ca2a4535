"""Drawing rules in NumPy, with the random numbers handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Sampling:
    """Parameters of a request. temperature <= 0 is greedy; top_k and ras_window 0 are off."""

    temperature: float = 0.7
    fast_temperature: float = 0.7
    top_p: float = 0.9
    top_k: int = 50
    ras_window: int = 10
    ras_temperature: float = 1.0
    ras_top_p: float = 0.9


GREEDY = Sampling(temperature=0.0, fast_temperature=0.0)


def survivors(logits: NDArray[Any], top_p: float, top_k: int) -> NDArray[np.int64]:
    """Tokens that can be drawn, best first. The nucleus is measured on untempered probabilities, and the token that
    crosses top_p is out; the best one is always in."""
    order = np.argsort(-logits.astype(np.float64), kind="stable")
    sorted_logits = logits[order].astype(np.float64)
    weights = np.exp(sorted_logits - sorted_logits[0])
    cumulative = np.cumsum(weights / weights.sum())
    keep = np.isfinite(sorted_logits)
    if top_p < 1:
        keep &= cumulative <= top_p
    if top_k > 0:
        keep &= np.arange(len(order)) < top_k
    keep[0] = True
    return order[keep]


def probabilities(logits: NDArray[Any], temperature: float, top_p: float, top_k: int) -> NDArray[np.float64]:
    """Probability of every token, 0 for those that cannot be drawn."""
    kept = survivors(logits, top_p, top_k)
    scaled = logits[kept].astype(np.float64) / max(temperature, 1e-5)
    weights = np.exp(scaled - scaled.max())
    out = np.zeros(len(logits))
    out[kept] = weights / weights.sum()
    return out


def draw(logits: NDArray[Any], temperature: float, top_p: float, top_k: int, uniform: float) -> int:
    """Inverts the cumulative distribution, best token first, at `uniform` in [0, 1)."""
    if temperature <= 0:
        return int(np.argmax(logits))
    p = probabilities(logits, temperature, top_p, top_k)
    order = survivors(logits, top_p, top_k)
    index = int(np.searchsorted(np.cumsum(p[order]), uniform, side="right"))
    return int(order[min(index, len(order) - 1)])


def draw_semantic(
    logits: NDArray[Any], sampling: Sampling, recent: Sequence[int], eos: int, uniforms: tuple[float, float]
) -> int:
    """The semantic draw; a repeated code (never EOS or NEXT) is replaced by the draw at the high temperature."""
    normal = draw(logits, sampling.temperature, sampling.top_p, sampling.top_k, uniforms[0])
    window = recent[-sampling.ras_window :] if sampling.ras_window else []
    if sampling.temperature <= 0 or normal >= eos or normal not in window:
        return normal
    return draw(logits, sampling.ras_temperature, sampling.ras_top_p, sampling.top_k, uniforms[1])


def philox(counter: tuple[int, int, int, int], key: int) -> tuple[int, int, int, int]:
    """Philox 4x32 with 10 rounds (Salmon et al. 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & MASK, (a >> 32) ^ c3 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def uniform(seed: int, draw_index: int, purpose: int) -> float:
    """The engine's documented stream: `draw_index` counts semantic draws; purpose 0 is the normal draw, 1 the high
    one, 1 + j codebook j, which sees the count after its frame's semantic draw."""
    bits = philox((draw_index & MASK, draw_index >> 32, purpose, 0), seed)
    return float(((bits[0] >> 5) << 26) | (bits[1] >> 6)) * 2.0**-53
