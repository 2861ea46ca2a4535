"""Learning-rate schedule: warm-up, constant for as long as one likes, then a linear decay that ends the run."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Decay:
    """The closing phase: starts after step `start` and lasts `steps` steps."""

    start: int
    steps: int

    @property
    def end(self) -> int:
        return self.start + self.steps


def rate_factor(step: int, warm_up: int, decay: Decay | None, floor: float) -> float:
    """Share of the full learning rate at `step` (the first is 1). Linear up over `warm_up`, down to `floor`."""
    up = min(1.0, step / warm_up) if warm_up else 1.0
    if decay is None or step <= decay.start:
        return up
    return max(floor, up * (1 - (1 - floor) * (step - decay.start) / decay.steps))
