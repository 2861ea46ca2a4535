"""Memory, and seconds per audio second in every phase, of one model: own kernels against stock ggml operations.

    python -m bench.phases [--model default|audio8|PATH] [--rounds 5] [--streams 1] [--write FILE]

`audio8` is a random-weight checkpoint with the published 0.1B dimensions (q8_0 linears, f16 codec), made in a temporary
folder: what it says is noise, what it costs is real. The variants take turns within every round, so that a drift of the
machine hits all of them; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kestrel.engine import Engine, Result, Sampling, Utterance

PHASES = ("prefill", "falcon_step", "sample", "fast_graph", "codec_build", "codec_compute")
TEXT = "The little red book is on the table, and the children are playing in the garden."


@dataclass(frozen=True)
class Variant:
    """How the graphs are built and spread."""

    name: str
    plain_ops: int
    threads: int


@dataclass(frozen=True)
class Run:
    """One round of one variant: seconds per audio second."""

    rtf: float
    first_audio: float  # seconds from submit to the first chunk
    phases: dict[str, float]


def variants(threads: int) -> list[Variant]:
    """The product's default first; the others each take one thing back."""
    return [
        Variant(f"own kernels, {threads} threads", 0, threads),
        Variant("own kernels, 1 thread", 0, 1),
        Variant("stock convolution", 8, 1),
        Variant("stock snake", 16, 1),
        Variant("stock operations only", 31, 1),
    ]


@contextmanager
def model_file(name: str) -> Iterator[str | Path]:
    """The model to measure; a full-size random checkpoint is made and removed again."""
    if name != "audio8":
        yield name
        return
    from kestrel.engine.convert import Types, convert_checkpoint
    from tests.reference.checkpoint import write_checkpoint
    from tests.reference.dims import FULL

    with tempfile.TemporaryDirectory() as folder:
        source = write_checkpoint(Path(folder) / "checkpoint", FULL, encoder=False)
        target = Path(folder) / "audio8-0.1b-random.gguf"
        convert_checkpoint(source, target, types=Types(linears="q8_0", embeddings="f16", codec_convs="f16"))
        yield target


def resident_bytes() -> int:
    """Resident set of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(engine: Engine, streams: int, max_seconds: float) -> Run:
    """`streams` equal utterances at once; figures are per second of audio of all of them together."""
    start = time.monotonic()
    first = 0.0
    opened = [
        engine.submit(Utterance(TEXT, seed=i, sampling=Sampling(), max_seconds=max_seconds)) for i in range(streams)
    ]
    results: list[Result] = []
    for stream in opened:
        for _ in stream:
            first = first or time.monotonic() - start
        results.append(stream.result())
    wall = time.monotonic() - start
    audio = sum(result.audio_seconds for result in results)
    phases = {
        name: sum(result.phases[name].seconds for result in results if name in result.phases) / audio for name in PHASES
    }
    return Run(wall / audio, first, phases)


def tables(runs: dict[str, list[Run]]) -> list[list[str]]:
    """Rows of the report: one a variant, medians, ratio to the first variant."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    base = median([run.rtf for run in next(iter(runs.values()))])
    rows = [["variant", "RTF", "ratio", "first audio, ms", *(f"{p}, ms/s" for p in PHASES)]]
    for name, measured in runs.items():
        rtf = median([run.rtf for run in measured])
        rows.append(
            [
                name,
                f"{rtf:.3f}",
                f"{rtf / base:.2f}",
                f"{1000 * median([run.first_audio for run in measured]):.0f}",
                *(f"{1000 * median([run.phases[p] for run in measured]):.1f}" for p in PHASES),
            ]
        )
    return rows


def markdown(title: str, facts: dict[str, str], rows: list[list[str]]) -> str:
    """The report as docs/performance.md holds it."""
    lines = [f"## {title}", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument(
        "--max-seconds", type=float, default=None, help="audio of one stream; default 2 for audio8, else 30"
    )
    parser.add_argument("--write", type=Path, default=None, help="append the report to this Markdown file")
    options = parser.parse_args()
    max_seconds = options.max_seconds or (2.0 if options.model == "audio8" else 30.0)
    with model_file(options.model) as model:
        before = resident_bytes()
        with Engine(model, slots=max(4, options.streams)) as engine:
            info = engine.info
            measure(engine, 1, max_seconds)
            facts = {
                "model": f"{info.name}, {info.parameters / 1e6:.1f} M parameters",
                "machine": f"{info.threads} physical cores; load average before {os.getloadavg()[0]:.1f}",
                "rounds": f"{options.rounds}, {options.streams} stream(s), variants interleaved, medians",
                "weights mapped": f"{info.weight_bytes / 1e6:.1f} MB",
                "state of all slots": f"{info.state_bytes / 1e6:.1f} MB ({info.slots} slots)",
                "resident after one utterance": f"{(resident_bytes() - before) / 1e6:.0f} MB above an empty process",
            }
            threads = info.threads
        wanted = variants(threads)
        engines = {
            v.name: Engine(model, slots=max(4, options.streams), threads=v.threads, plain_ops=v.plain_ops)
            for v in wanted
        }
        runs: dict[str, list[Run]] = {v.name: [] for v in wanted}
        for engine in engines.values():
            measure(engine, 1, min(max_seconds, 1.0))  # plans graphs
        for _ in range(options.rounds):
            for name, engine in engines.items():
                runs[name].append(measure(engine, options.streams, max_seconds))
        for engine in engines.values():
            engine.close()
    rows = tables(runs)
    report = markdown(f"{options.model}, {options.streams} stream(s)", facts, rows)
    print(report)
    if options.write:
        with options.write.open("a") as file:
            file.write("\n" + report)


if __name__ == "__main__":
    main()
