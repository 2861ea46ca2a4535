"""Loss curves of a run, from its CSV logs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")

PANELS = (
    ("semantic", "codebook 0, NEXT and EOS (nats)"),
    ("residual1", "codebook 1 (nats)"),
    ("residual2", "codebook 2 (nats)"),
    ("residual3", "codebook 3 (nats)"),
    ("align", "alignment (nats)"),
    ("boundary_accuracy", "NEXT and EOS accuracy"),
)
KINDS = (
    ("train", "training, disturbed past", "0.7"),
    ("held_out", "held-out, phonemes", "tab:blue"),
    ("held_out_letters", "held-out, letters", "tab:orange"),
)


def read_rows(logs: Sequence[Path]) -> list[dict[str, str]]:
    """Rows of several logs (a run and its closing phase) by step.

    A run that was killed repeats the steps since its last checkpoint: what was written last counts.
    """
    rows: dict[tuple[int, str], dict[str, str]] = {}
    for log in logs:
        with log.open(newline="") as file:
            rows |= {(int(row["step"]), row["kind"]): row for row in csv.DictReader(file)}
    return [row for _, row in sorted(rows.items())]


def plot_logs(logs: Sequence[Path], out: Path) -> None:
    """Draw the losses over utterances seen. Raises ValueError if the logs are empty."""
    rows = read_rows(logs)
    if not rows:
        raise ValueError("the logs hold no rows")
    figure = Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 3)
    for axis, (field, title) in zip(axes.flat, PANELS, strict=True):
        for kind, label, colour in KINDS:
            points = [(int(r["passes"]) / 1000, float(r[field])) for r in rows if r["kind"] == kind and r[field]]
            axis.plot([x for x, _ in points], [y for _, y in points], color=colour, label=label)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
        axis.set_xlabel("thousand utterances", fontsize=8)
    axes.flat[0].legend(fontsize=8)
    figure.savefig(out, dpi=100)
