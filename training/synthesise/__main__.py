"""Speak a corpus: ``python -m training.synthesise --corpus corpus.txt --folder audio``. Resumes where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.progress import track

from training.synthesise.store import Store
from training.synthesise.teacher import OUT_RATE, Teacher


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.synthesise", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--most-seconds", type=float, default=9.0, help="longer lines are left out")
    parser.add_argument("--lead-seconds", type=float, default=0.008, help="least silence before the first sound")
    parser.add_argument("--trail-seconds", type=float, default=0.12, help="silence after the last sound")
    parser.add_argument("--lines", type=int, help="speak only the first N lines")
    parser.add_argument("--part", type=int, default=0, help="this process's part, when several share the corpus")
    parser.add_argument("--parts", type=int, default=1)
    arguments = parser.parse_args()

    lines = arguments.corpus.read_text(encoding="utf-8").splitlines()[: arguments.lines]
    mine = lines[arguments.part :: arguments.parts]
    teacher = Teacher(arguments.folder, arguments.lead_seconds, arguments.trail_seconds)
    with Store(arguments.folder) as store:
        for text in track(mine[store.next_line :], description="synthesise", total=len(mine) - store.next_line):
            try:
                spoken = teacher.speak(text)
            except ValueError as error:
                print(f"left out {text!r}: {error}")
                spoken = None
            if spoken is not None and len(spoken.pcm) > arguments.most_seconds * OUT_RATE:
                spoken = None
            store.add(text, spoken)
        print(f"{store.next_line} lines, {store.samples / OUT_RATE / 3600:.2f} h")


if __name__ == "__main__":
    main()
