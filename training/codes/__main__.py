"""Encode synthesised audio: ``python -m training.codes --audio folder --encoder checkpoint --out codes.pkl.xz``."""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track

from training.codes.encoder import FRAME, Encoder


def encode_line(
    encoder: Encoder, entry: dict[str, Any], samples: np.ndarray[Any, np.dtype[np.int16]]
) -> tuple[Any, ...]:
    """(text, phonemes, durations, codes) of one line, with the silence back that synthesis cut off at the start.

    Durations count from the uncut start, and so must the frames.
    """
    lead = np.zeros(int(entry["lead_frames"]) * FRAME, np.float32)
    codes = encoder.encode(np.concatenate([lead, samples.astype(np.float32) / 32768]))
    return entry["text"], entry["phonemes"], np.array(entry["durations"], np.int16), codes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.codes", description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder written by training.synthesise")
    parser.add_argument("--encoder", type=Path, required=True, help="checkpoint of the codec's encoder and code tables")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--held-out", type=int, default=0, help="lines put into the held-out part, from the start")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    encoder = Encoder.load(arguments.encoder)
    audio = np.memmap(arguments.audio / "audio.i16", dtype="<i2", mode="r")
    index = [json.loads(line) for line in (arguments.audio / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    spoken = [entry for entry in index if entry["samples"]]
    lines = [
        encode_line(encoder, entry, audio[entry["offset"] : entry["offset"] + entry["samples"]])
        for entry in track(spoken, description="encode")
    ]
    held_out, training = lines[: arguments.held_out], lines[arguments.held_out :]
    with lzma.open(arguments.out, "wb", preset=1) as file:
        pickle.dump((held_out, training), file)
    print(f"{arguments.out}: {len(training)} training and {len(held_out)} held-out lines")


if __name__ == "__main__":
    main()
