"""Losses of a batch, and the disturbance of past frames that makes the model robust to its own errors."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from training.ar.batch import IGNORE, Batch
from training.ar.config import DataConfig, OptimiserConfig
from training.ar.model import DualAr

ALIGN_FLOOR = -9.0
"""Log attention below this counts as this: one badly labelled frame must not own the gradient."""


@dataclasses.dataclass(frozen=True)
class Losses:
    """Mean losses in nats and accuracies of one batch."""

    semantic: Tensor
    residual: Tensor  # [codebooks - 1]
    align: Tensor
    semantic_accuracy: Tensor
    boundary_accuracy: Tensor
    """Share of NEXT and EOS decisions hit at the true position."""

    def total(self, config: OptimiserConfig) -> Tensor:
        """The weighted sum that is minimised."""
        weights = torch.tensor(config.residual_weights, device=self.residual.device)
        return self.semantic + (self.residual * weights).sum() + config.align_weight * self.align

    def row(self) -> dict[str, float]:
        """Named values for the log."""
        row = {"semantic": self.semantic.item()}
        row |= {f"residual{i + 1}": value for i, value in enumerate(self.residual.tolist())}
        row |= {"align": self.align.item(), "semantic_accuracy": self.semantic_accuracy.item()}
        return row | {"boundary_accuracy": self.boundary_accuracy.item()}


def disturb(codes: Tensor, is_frame: Tensor, config: DataConfig, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Past frames as the model sees them in training.

    codes [B, T, C], is_frame [B, T] -> codes with some frames (all codes, or the residual ones) taken from other
    frames of the batch, and a keep factor [B, T] that is 0 for dropped frames. Random numbers come from the CPU
    generator on every device, so that a run can be resumed.
    """
    pool = codes[is_frame]  # [F, C]
    draw = torch.rand(is_frame.shape, generator=generator).to(codes.device)
    others = pool[torch.randint(len(pool), is_frame.shape, generator=generator).to(codes.device)]  # [B, T, C]
    whole = is_frame & (draw < config.replace_frame)
    residual = is_frame & (draw >= config.replace_frame) & (draw < config.replace_frame + config.replace_residual)
    first_only = torch.cat([codes[..., :1], others[..., 1:]], -1)
    disturbed = torch.where(whole[..., None], others, torch.where(residual[..., None], first_only, codes))
    return disturbed, (draw < 1 - config.drop_frame).float()


def batch_losses(model: DualAr, batch: Batch, noise: tuple[DataConfig, torch.Generator] | None) -> Losses:
    """Run the model on a batch; `noise` disturbs past frames (training), None leaves them true (held-out)."""
    codes, keep = batch.codes, None
    if noise is not None:
        codes, keep = disturb(codes, batch.is_frame, *noise)
    frames = model.embed_frames(codes)  # [B, T, dim]
    if keep is not None:
        frames = frames * keep[..., None]
    x = torch.where(batch.is_frame[..., None], frames, model.text(batch.text))
    hidden, aligned = model.slow(x, batch.align_rows)
    hidden = hidden.flatten(0, 1)  # [B * T, dim]
    logits = model.head(hidden[batch.predict])  # [R, classes]
    fast = model.fast(hidden[batch.frame_at], batch.frame_codes)  # [M, C - 1, residual]
    hit = logits.argmax(-1) == batch.targets
    boundary = batch.targets >= model.eos
    semantic = (batch.targets >= 0) & ~boundary
    missed = F.cross_entropy(fast.transpose(1, 2), batch.frame_targets, ignore_index=IGNORE, reduction="none")
    attention = [a.gather(1, batch.align_columns[:, None]).clamp_min(ALIGN_FLOOR).mean() for a in aligned]
    return Losses(
        semantic=F.cross_entropy(logits, batch.targets, ignore_index=IGNORE),
        residual=missed.sum(0) / (batch.frame_targets[:, 0] != IGNORE).sum(),
        align=-torch.stack(attention).mean(),
        semantic_accuracy=hit[semantic].float().mean(),
        boundary_accuracy=hit[boundary].float().mean(),
    )
