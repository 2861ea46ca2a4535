"""Checkpoints: everything a run needs to go on as if it had never stopped."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

NAME = re.compile(r"step-(\d{7})\.pt")


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run folder, oldest first."""
    return sorted(p for p in folder.glob("step-*.pt") if NAME.fullmatch(p.name))


def newest(folder: Path) -> Path | None:
    """The newest checkpoint, or None."""
    found = checkpoints(folder)
    return found[-1] if found else None


def save(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Write a checkpoint and delete all but the newest `keep`.

    The file appears under its name only when complete: a run killed while writing resumes from the one before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:07d}.pt"
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()
    return path


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU. Only tensors and plain containers are unpickled."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def pack_weights(state: dict[str, Any]) -> dict[str, Any]:
    """The part of a checkpoint that is shipped: float16 weights and the number of utterances seen."""
    weights = {name: value.half() for name, value in state["model"].items()}
    bad = [name for name, value in weights.items() if not bool(torch.isfinite(value).all())]
    if bad:
        raise ValueError(f"{bad[0]} does not fit float16")
    return {"model": weights, "passes": int(state["passes"])}
