"""Muon: momentum whose update is orthogonalised by a Newton-Schulz iteration (Jordan et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(update: Tensor, iterations: int = 5) -> Tensor:
    """Push the singular values of stacked matrices [N, rows, columns] towards 1, in bfloat16.

    The iteration only has to land between about 0.7 and 1.2, so its rounding does not matter.
    """
    a, b, c = COEFFICIENTS
    tall = update.shape[-2] > update.shape[-1]
    x = update.mT if tall else update
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-8)).bfloat16()
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    result: Tensor = (x.mT if tall else x).to(update.dtype)
    return result


class Muon:
    """Optimiser of matrices only. Matrices of one shape are orthogonalised together as a stack."""

    def __init__(self, matrices: Sequence[nn.Parameter], momentum: float = 0.95, decay: float = 0.02) -> None:
        self.momentum, self.decay = momentum, decay
        by_shape: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = list(by_shape.values())
        self.moments = [torch.zeros(len(g), *g[0].shape, device=g[0].device) for g in self.groups]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Apply one update from the parameters' gradients."""
        for group, moment in zip(self.groups, self.moments, strict=True):
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            moment.lerp_(gradient, 1 - self.momentum)
            update = orthogonalise(gradient.lerp(moment, self.momentum))
            rows, columns = group[0].shape
            scale = max(1.0, rows / columns) ** 0.5
            for parameter, delta in zip(group, update, strict=True):
                parameter.mul_(1 - rate * self.decay).add_(delta, alpha=-rate * scale)

    def state_dict(self) -> list[Tensor]:
        """Momenta, one stack per matrix shape."""
        return [m.clone() for m in self.moments]

    def load_state_dict(self, state: Sequence[Tensor]) -> None:
        """Take over momenta saved by `state_dict`; raises ValueError if they belong to another model."""
        if [tuple(m.shape) for m in self.moments] != [tuple(m.shape) for m in state]:
            raise ValueError("Muon state does not fit this model: matrix shapes differ")
        for mine, saved in zip(self.moments, state, strict=True):
            mine.copy_(saved)
