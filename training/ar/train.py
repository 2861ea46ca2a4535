"""The training loop. A `Trainer` holds all state that changes, and can be stopped and resumed at any step."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.ar import checkpoint
from training.ar.batch import choose_batch, collate
from training.ar.config import Config
from training.ar.loss import batch_losses
from training.ar.model import DualAr
from training.ar.muon import Muon
from training.ar.schedule import Decay, rate_factor
from training.ar.stream import Stream, Utterance, build_stream, choose_lettered
from training.ar.vocabulary import SHARED_PUNCTUATION

HELD_OUT_BATCH = 20


class Trainer:
    """Model, optimisers, step counter and random states of one run."""

    def __init__(self, config: Config, held_out: Sequence[Utterance], training: Sequence[Utterance]) -> None:
        if not training:
            raise ValueError("no training utterances")
        self.config, self.held_out, self.training = config, held_out, training
        self.device = torch.device(config.run.device)
        seed = config.optimiser.seed
        torch.manual_seed(seed)
        self.model = DualAr(config.model).to(self.device)
        matrices = self.model.layer_matrices()
        owned = {id(p) for p in matrices}
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(
            [p for p in self.model.parameters() if id(p) not in owned],
            config.optimiser.adam_rate,
            betas=(0.9, 0.97),
            weight_decay=0.01,
        )
        self.noise = torch.Generator().manual_seed(seed)
        self.choice = np.random.default_rng(seed)
        self.steps = 0
        self.passes = 0
        """Utterances seen, warm start included."""
        self.decay: Decay | None = None

    def warm_start(self, packed: dict[str, Any]) -> None:
        """Take weights from an earlier run (`{"model": ..., "passes": ...}`), with fresh optimiser state."""
        self.model.load_state_dict({name: value.float() for name, value in packed["model"].items()})
        self.passes = int(packed.get("passes", 0))
        with torch.no_grad():  # marks beside letters were never trained: let them start as those beside phonemes
            for letter, phoneme in SHARED_PUNCTUATION:
                self.model.text.weight[letter] = self.model.text.weight[phoneme]

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the following steps."""
        return {
            "model": {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()},
            "adam": self.adam.state_dict(),
            "muon": self.muon.state_dict(),
            "noise": self.noise.get_state(),
            "choice": self.choice.bit_generator.state,
            "steps": self.steps,
            "passes": self.passes,
            "decay": None if self.decay is None else [self.decay.start, self.decay.steps],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.model.load_state_dict(state["model"])
        self.adam.load_state_dict(state["adam"])
        self.muon.load_state_dict(state["muon"])
        self.noise.set_state(state["noise"])
        self.choice.bit_generator.state = state["choice"]
        self.steps, self.passes = int(state["steps"]), int(state["passes"])
        self.decay = None if state["decay"] is None else Decay(*state["decay"])

    def _stream(self, utterance: Utterance, lettered: np.ndarray[Any, np.dtype[np.bool_]]) -> Stream:
        return build_stream(utterance, lettered, self.model.next, self.model.eos)

    def step(self) -> dict[str, float]:
        """One update; returns the named losses of its batch and the learning-rate factor."""
        data, optimiser = self.config.data, self.config.optimiser
        chosen = [self.training[i] for i in choose_batch(len(self.training), optimiser.batch, self.choice)]
        streams = [
            self._stream(u, choose_lettered(u, data.lettered_modes, data.lettered_word, self.choice)) for u in chosen
        ]
        batch = collate(streams, self.model.eos).to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.run.bfloat16):
            losses = batch_losses(self.model, batch, (data, self.noise))
        self.adam.zero_grad()
        for matrix in self.model.layer_matrices():
            matrix.grad = None
        total: Tensor = losses.total(optimiser)
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), optimiser.clip)
        self.steps += 1
        self.passes += len(streams)
        factor = rate_factor(self.steps, optimiser.warm_up, self.decay, optimiser.floor)
        for group in self.adam.param_groups:
            group["lr"] = optimiser.adam_rate * factor
        self.adam.step()
        self.muon.step(optimiser.muon_rate * factor)
        return losses.row() | {"rate": factor}

    @torch.no_grad()
    def held_out_losses(self, lettered: bool) -> dict[str, float]:
        """Mean losses over the held-out utterances, undisturbed; `lettered` spells every word that can be."""
        rows = []
        for first in range(0, len(self.held_out), HELD_OUT_BATCH):
            part = self.held_out[first : first + HELD_OUT_BATCH]
            streams = [self._stream(u, np.array([lettered and bool(w.letters) for w in u.words])) for u in part]
            rows.append(batch_losses(self.model, collate(streams, self.model.eos).to(self.device), None).row())
        return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


class CsvLog:
    """Appends rows to a CSV file, written at once so that a killed run loses none."""

    FIELDS = (
        *("kind", "step", "passes", "seconds", "rate", "semantic", "residual1", "residual2", "residual3"),
        *("align", "semantic_accuracy", "boundary_accuracy", "step_seconds"),
    )

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join(self.FIELDS) + "\n")

    def write(self, **values: float | str) -> None:
        """Append one row; fields without a value stay empty."""
        rounded = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in values.items()}
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self.FIELDS, extrasaction="ignore").writerow(rounded)


def run(trainer: Trainer, folder: Path, last_step: int | None, report: Callable[[str], None] = print) -> None:
    """Train until `last_step` (None: until killed), logging and writing checkpoints to `folder`."""
    settings = trainer.config.run
    log = CsvLog(folder / "log.csv")
    begun = saved = lap = time.monotonic()
    recent: list[dict[str, float]] = []

    def write(kind: str, values: dict[str, float], **more: float) -> None:
        seconds = round(time.monotonic() - begun, 1)
        log.write(kind=kind, step=trainer.steps, passes=trainer.passes, seconds=seconds, **values, **more)
        shown = " ".join(f"{name} {value:.3f}" for name, value in (values | more).items())
        left = "" if last_step is None else f" ({last_step - trainer.steps} steps left)"
        report(f"{kind} step {trainer.steps} passes {trainer.passes}{left} {seconds:.0f} s: {shown}")

    def check() -> None:
        write("held_out", trainer.held_out_losses(lettered=False))
        write("held_out_letters", trainer.held_out_losses(lettered=True))

    check()
    while last_step is None or trainer.steps < last_step:
        recent.append(trainer.step())
        if trainer.steps % settings.log_every == 0:
            means = {name: float(np.mean([row[name] for row in recent])) for name in recent[0]}
            now = time.monotonic()
            write("train", means, step_seconds=(now - lap) / len(recent))
            recent, lap = [], now
        if trainer.steps % settings.held_out_every == 0:
            check()
            lap = time.monotonic()
        if time.monotonic() - saved > settings.save_seconds:
            checkpoint.save(folder, trainer.steps, trainer.state_dict(), settings.keep)
            saved = time.monotonic()
    check()
    report(f"saved {checkpoint.save(folder, trainer.steps, trainer.state_dict(), settings.keep)}")
