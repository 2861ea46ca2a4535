"""Fast AR: the residual codes of one frame from the slow state and the semantic code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .blocks import block, causal_mask, rms_norm, rope_table
from .weights import Weights

ChooseCode = Callable[[Tensor, int], int]


def fast_logits(weights: Weights, hidden: Tensor, codes: list[int]) -> Tensor:
    """Logits [len(codes), residual] of the codebooks after each of `codes`, all positions at once.

    hidden [dim]: slow state after its final norm, at position 0. codes: c_0, c_1, ...; c_0 is clamped to the table.
    """
    w, c = weights.tensors, weights.config.fast
    table = w["fast_embeddings.weight"]
    rows = torch.tensor([min(code, table.shape[0] - 1) for code in codes])
    x = torch.cat([hidden[None], table[rows]])
    mask, rope = causal_mask(len(x)), rope_table(len(x), c.head_dim, c.rope_base, c.rope_bf16)
    for i in range(c.layers):
        x = block(x, w, f"fast.{i}", c, mask, rope)
    return rms_norm(x[1:], w["fast.norm.weight"], c.norm_eps) @ w["fast_output.weight"].T


def fast_frame(weights: Weights, hidden: Tensor, semantic: int, choose: ChooseCode) -> tuple[list[int], Tensor]:
    """Codes of one frame and the logits [codebooks - 1, residual] they were chosen from by choose(logits, codebook).

    The prefix is run again for every codebook: slow, and free of any cache that could be wrong.
    """
    codes, logits = [semantic], []
    for codebook in range(1, len(weights.config.codebook_sizes)):
        logits.append(fast_logits(weights, hidden, codes)[-1])
        codes.append(choose(logits[-1], codebook))
    return codes, torch.stack(logits)
