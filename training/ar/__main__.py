"""Command line of AR training: ``python -m training.ar run | finish | pack | plot``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from training.ar import checkpoint
from training.ar.batch import load_utterances
from training.ar.config import load_config
from training.ar.memory import keep_freed_memory
from training.ar.schedule import Decay
from training.ar.train import Trainer, run

DEFAULT_CONFIG = Path(__file__).with_name("ar_v1.toml")


def _trainer(arguments: argparse.Namespace) -> Trainer:
    config = load_config(arguments.config)
    keep_freed_memory()
    torch.set_num_threads(config.run.threads)
    held_out, training = load_utterances(arguments.codes, config.data)
    trainer = Trainer(config, held_out, training)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(f"{len(training)} training and {len(held_out)} held-out utterances, {parameters / 1e6:.2f} M parameters")
    return trainer


def _run(arguments: argparse.Namespace) -> None:
    trainer = _trainer(arguments)
    found = checkpoint.newest(arguments.folder)
    if found is not None:
        trainer.load_state_dict(checkpoint.load(found))
        print(f"resumed from {found}")
    elif arguments.initial is not None:
        trainer.warm_start(checkpoint.load(arguments.initial))
        print(f"warm start from {arguments.initial}")
    run(trainer, arguments.folder, arguments.until)


def _finish(arguments: argparse.Namespace) -> None:
    unfinished = [f for f in sorted(arguments.folder.glob("finish-*")) if checkpoint.newest(f) is not None]
    for folder in unfinished:  # an interrupted decay goes on before a new one may start
        state = checkpoint.load(checkpoint.checkpoints(folder)[-1])
        if state["steps"] < sum(state["decay"]):
            break
    else:
        found = checkpoint.newest(arguments.folder)
        if found is None:
            raise SystemExit(f"{arguments.folder} holds no checkpoint: use `run` first")
        state = checkpoint.load(found)
        folder = arguments.folder / f"finish-{state['steps']:07d}"
        if folder in unfinished:
            raise SystemExit(f"{folder} is done; train on with `run` before finishing again")
        state["decay"] = [state["steps"], arguments.steps]
    trainer = _trainer(arguments)
    trainer.load_state_dict(state)
    decay = Decay(*state["decay"])
    print(f"step {trainer.steps}: decay from step {decay.start} to {decay.end} in {folder}")
    run(trainer, folder, decay.end)


def _pack(arguments: argparse.Namespace) -> None:
    path = arguments.checkpoint or checkpoint.newest(arguments.folder)
    if path is None:
        raise SystemExit(f"{arguments.folder} holds no checkpoint")
    packed = checkpoint.pack_weights(checkpoint.load(path))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    torch.save(packed, arguments.out)
    print(f"{path} after {packed['passes']} utterances -> {arguments.out}, {arguments.out.stat().st_size / 1e6:.1f} MB")


def _plot(arguments: argparse.Namespace) -> None:
    from training.ar.plot import plot_logs  # training itself does not need matplotlib

    logs = [arguments.folder / "log.csv", *sorted(arguments.folder.glob("finish-*/log.csv"))[-1:]]
    plot_logs([log for log in logs if log.exists()], arguments.out)
    print(arguments.out)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command; `argv` defaults to the process's arguments."""
    parser = argparse.ArgumentParser(prog="python -m training.ar", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(name: str, action: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(action=action)
        sub.add_argument("--folder", type=Path, default=Path("build/training/ar_v1"), help="run folder")
        return sub

    train = command("run", _run, "train at the full rate; resumes from the newest checkpoint of the folder")
    train.add_argument("--initial", type=Path, help="packed weights to start from when the folder is empty")
    train.add_argument("--until", type=int, help="stop after this step (default: run until killed)")
    finish = command("finish", _finish, "decay the learning rate from the newest checkpoint, in a sub-folder; resumes")
    finish.add_argument("--steps", type=int, default=500, help="length of the decay")
    for sub in (train, finish):
        sub.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
        sub.add_argument("--codes", type=Path, nargs="+", required=True, help="code files (.pkl.xz)")
    pack = command("pack", _pack, "write float16 weights for conversion and release")
    pack.add_argument("--checkpoint", type=Path, help="default: newest of the folder")
    pack.add_argument("--out", type=Path, required=True)

    plot = command("plot", _plot, "draw the losses of a run and of its newest closing phase")
    plot.add_argument("--out", type=Path, required=True)

    arguments = parser.parse_args(argv)
    arguments.action(arguments)


if __name__ == "__main__":
    main()
