"""Loads damaged copies of a model file, and lets those that still load speak. Run by test_damaged_files.py.

python load_damaged.py MODEL SEED COUNT FOLDER
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from kestrel.engine.errors import EngineError, ModelFileError
from tests.native.harness import Native


def damage(original: bytes, header: int, rng: random.Random) -> bytes:
    """A few bytes changed (keys and tensor table more often than weights), a run overwritten, or the end cut off."""
    data = bytearray(original)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(header if rng.random() < 0.8 else len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case _:
                run = bytes(rng.choice((0x00, 0xFF, 0x7F)) for _ in range(rng.randint(1, 8)))
                data[at : at + len(run)] = run
    if rng.random() < 0.15:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


def main(model: Path, seed: int, count: int, folder: Path) -> None:
    original = model.read_bytes()
    header = original.rfind(b"codec.dec.tail") + 64  # the table of tensors ends near its last name
    rng = random.Random(seed)
    target = folder / "damaged.gguf"
    refused = loaded = 0
    for i in range(count):
        print(f"file {i}", flush=True)
        target.write_bytes(damage(original, header, rng))
        try:
            native = Native(target)
        except ModelFileError as error:
            refusal = str(error)
            assert refusal
            refused += 1
            continue
        loaded += 1
        try:
            prompt = torch.ones((1 + native.info.n_codebooks, 2), dtype=torch.int32)
            with native.session(prompt, max_frames=3, decode=True) as session:
                native.run(session)
                session.read()
        except EngineError as error:
            refusal = str(error)
            assert refusal
        finally:
            native.close()
    print(f"done {refused} {loaded}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
