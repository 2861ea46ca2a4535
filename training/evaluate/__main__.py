"""Word error rate of models through the engine: ``python -m training.evaluate MODEL... --list FILE...``."""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kestrel.engine import Engine, Utterance
from training.evaluate.judge import Judge, assemble
from training.evaluate.level import Level, measure
from training.evaluate.sentences import Sentence, read_sentences
from training.evaluate.transcript import Errors, compare, total


@dataclass(frozen=True)
class Row:
    """One spoken sentence."""

    sentence: Sentence
    seed: int
    heard: str
    errors: Errors
    finish: str
    seconds: float
    level: Level


def speak(engine: Engine, judge: Judge, sentences: list[Sentence], seeds: range) -> Iterator[Row]:
    """Speak and judge every sentence with every seed."""
    rate = engine.info.sample_rate
    for seed in seeds:
        for sentence in sentences:
            stream = engine.submit(Utterance(sentence.text, seed=seed))
            pcm = np.concatenate([np.zeros(0, np.int16), *(chunk.pcm for chunk in stream)])
            samples = np.asarray(pcm / 32768, np.float32)
            heard = judge.transcribe(samples, rate)
            result = stream.result()
            yield Row(
                sentence,
                seed,
                heard,
                compare(sentence.text, heard),
                result.finish_reason,
                result.audio_seconds,
                measure(samples, rate),
            )


def summarise(model: str, rows: list[Row]) -> list[str]:
    """One line a section and one for everything."""
    sections = list(dict.fromkeys(r.sentence.section for r in rows))
    lines = []
    for section in [*sections, "all"]:
        part = [r for r in rows if section in ("all", r.sentence.section)]
        errors = total(r.errors for r in part)
        right = sum(r.errors.word_edits == 0 for r in part) / len(part)
        ended = sum(r.finish == "eos" for r in part)
        onset, tail = (float(np.median([getattr(r.level, name) for r in part])) for name in ("onset", "tail"))
        lines.append(
            f"{model} {section}: WER {errors.wer:.1%} CER {errors.cer:.1%}, {right:.0%} of {len(part)} right, "
            f"{ended} ended by the model, {sum(r.seconds for r in part):.1f} s, "
            f"silence before {onset * 1000:.0f} after {tail * 1000:.0f} ms, "
            f"loudest first 10 ms {max(r.level.first_db for r in part):.0f} dB"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.add_argument("models", nargs="+", help="model files, or `default`")
    parser.add_argument("--list", dest="lists", type=Path, nargs="+", required=True, help="sentence lists")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 to N-1 for every sentence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--judge", type=Path, default=Path("build/training/whisper-base"), help="folder of the judge")
    parser.add_argument("--csv", type=Path, help="write every sentence with its transcript here")
    arguments = parser.parse_args()

    judge = Judge(assemble(arguments.judge), arguments.threads)
    written: list[tuple[str, Row]] = []
    for model in arguments.models:
        with Engine(model, slots=1, threads=arguments.threads) as engine:
            for path in arguments.lists:
                rows = list(speak(engine, judge, read_sentences(path), range(arguments.seeds)))
                written += [(model, row) for row in rows]
                print(f"{path.name}:", *summarise(model, rows), sep="\n  ", flush=True)
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            levels = [field.name for field in dataclasses.fields(Level)]
            counts = ["words", "edits", "characters", "character_edits"]
            table.writerow(["model", "section", "seed", "text", "heard", *counts, "finish", "seconds", *levels])
            for model, r in written:
                where = (model, r.sentence.section, r.seed, r.sentence.text, r.heard)
                measured = [round(getattr(r.level, name), 3) for name in levels]
                table.writerow([*where, *dataclasses.astuple(r.errors), r.finish, r.seconds, *measured])


if __name__ == "__main__":
    main()
