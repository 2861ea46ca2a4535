"""The commands of AR training as a user runs them: train, close, interrupt, close again, pack."""

from __future__ import annotations

import csv
import lzma
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from training.ar import checkpoint
from training.ar.__main__ import main

TINY = """
[model]
dim = 32
layers = 2
heads = 4
kv_heads = 2
head_dim = 8
ffn = 48
ssm_inner = 32
ssm_heads = 4
ssm_state = 8
fast_layers = 1
fast_heads = 4
fast_kv_heads = 2
fast_head_dim = 8
fast_ffn = 48
codebook_sizes = [32, 8, 8, 8]
aligned_layers = [1]

[optimiser]
batch = 2
warm_up = 2

[run]
log_every = 1
held_out_every = 3
save_seconds = 0
keep = 9
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    phonemes = "ðə kˈæt sˈæt."
    durations = np.array([13, *[2] * len(phonemes), 14], np.int16)
    line = lambda: ("The cat sat.", phonemes, durations, rng.integers(0, 8, (33, 4)).astype(np.int16))  # noqa: E731
    with lzma.open(tmp_path / "codes.pkl.xz", "wb") as file:
        pickle.dump(([line()], [line(), line(), line()]), file)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def test_close_interrupt_and_pack(files: Path) -> None:
    """Catches a closing phase that starts over or shortens when interrupted, that spoils the main run, and weights
    that cannot be packed."""
    common = ["--folder", str(files / "run"), "--config", str(files / "tiny.toml")]
    common += ["--codes", str(files / "codes.pkl.xz")]
    main(["run", *common, "--until", "4"])
    main(["finish", *common, "--steps", "5"])
    closing = files / "run" / "finish-0000004"
    done = checkpoint.load(closing / "step-0000009.pt")
    with (closing / "log.csv").open() as file:
        rates = [float(row["rate"]) for row in csv.DictReader(file) if row["kind"] == "train"]
    assert rates == pytest.approx([1 - 0.97 * k / 5 for k in range(1, 6)], abs=1e-3)
    assert checkpoint.load(files / "run" / "step-0000004.pt")["decay"] is None

    for step in (8, 9):
        (closing / f"step-{step:07d}.pt").unlink()
    main(["finish", *common, "--steps", "99"])
    again = checkpoint.load(closing / "step-0000009.pt")
    assert all(torch.equal(again["model"][name], value) for name, value in done["model"].items())
    with pytest.raises(SystemExit, match="train on"):
        main(["finish", *common])

    main(["run", *common, "--until", "6"])
    assert checkpoint.load(files / "run" / "step-0000006.pt")["steps"] == 6
    main(["pack", "--folder", str(closing), "--out", str(files / "out" / "packed.pt")])
    packed = torch.load(files / "out" / "packed.pt", weights_only=True)
    assert packed["passes"] == 18
    assert {v.dtype for v in packed["model"].values()} == {torch.float16}

    main(
        [
            "run",
            "--folder",
            str(files / "second"),
            *common[2:],
            "--initial",
            str(files / "out" / "packed.pt"),
            "--until",
            "1",
        ]
    )
    assert checkpoint.load(files / "second" / "step-0000001.pt")["passes"] == 20


def test_code_files_may_hold_only_arrays(files: Path) -> None:
    """Catches a code file that runs commands when it is read."""

    class Attack:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("gotcha",)

    with lzma.open(files / "codes.pkl.xz", "wb") as file:
        pickle.dump(([], [Attack()]), file)
    with pytest.raises(pickle.UnpicklingError, match="only arrays"):
        main(["run", "--folder", str(files / "x"), "--codes", str(files / "codes.pkl.xz"), "--until", "1"])
