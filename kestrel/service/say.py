"""`kestrel say`: the server's planner and pieces, without the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kestrel.engine import Engine
from kestrel.service.containers import Container, Pcm, container, wav_header
from kestrel.service.intake import speech_of
from kestrel.service.runtime import load_engine
from kestrel.service.schema import SpeechRequest
from kestrel.service.script import Piece, fitted, silence
from kestrel.service.settings import Settings
from kestrel.service.speech import Speech, Totals
from kestrel.service.text import Pause


def say(request: SpeechRequest, settings: Settings, output: Path | None, console: Console) -> None:
    """Speaks `request` into the file `output`, or as a streamed WAV to standard output if None.

    Raises ApiError, PlanError or TextError for a request that cannot be spoken, EngineError or OSError for a failure; a
    file is then left as it was.
    """
    with load_engine(settings) as engine:
        speech = speech_of(request, engine.info, settings)
        script = fitted(speech.script(), engine.check)
        wav = container("wav", engine.info.sample_rate)
        speaking = _Speaking(engine, speech, script)
        characters = sum(len(item.text) for item in script if isinstance(item, Piece))
        with _sink(output) as file, _progress(console, characters) as advance:
            _write(file, wav, speaking, advance)
            if output is not None:
                file.seek(0)
                file.write(wav_header(engine.info.sample_rate, speaking.samples))
    totals = speaking.totals
    rtf = totals.wall_seconds / totals.spoken_seconds if totals.spoken_seconds else 0.0
    console.print(
        f"{totals.audio_seconds:.2f} s of audio in {totals.wall_seconds:.2f} s (RTF {rtf:.3f}), "
        f"seed {speech.seed}, finish reason {totals.finish_reason}",
        markup=False,
    )


class _Speaking:
    """Samples of all pieces and pauses in order, with the totals so far."""

    def __init__(self, engine: Engine, speech: Speech, script: list[Piece | Pause]) -> None:
        self.totals = Totals()
        self.samples = 0
        self.characters = 0  # of the pieces that are done
        self._engine = engine
        self._speech = speech
        self._script = script

    @property
    def seconds(self) -> float:
        return self.samples / self._engine.info.sample_rate

    def __iter__(self) -> Iterator[Pcm]:
        rate = self._engine.info.sample_rate
        for item in self._script:
            if self._speech.exhausted(self.totals.audio_seconds):
                self.totals = self.totals.cut_short()
                return
            totals = self.totals
            if isinstance(item, Pause):
                seconds = min(item.seconds, self._speech.max_seconds - totals.audio_seconds)
                for pcm in silence(seconds, rate):
                    self.samples += len(pcm)
                    yield pcm
                    self.totals = self.totals.silent(len(pcm) / rate)
                continue
            # Leaving the block early (Ctrl-C, a closed pipe) cancels the piece.
            with self._engine.submit(self._speech.utterance(item.text, totals.pieces, totals.audio_seconds)) as stream:
                for chunk in stream:
                    self.samples += len(chunk.pcm)
                    yield chunk.pcm
                self.totals = self.totals.add(stream.result())
            self.characters += len(item.text)


class _Advance:
    """Moves the progress bar; with no terminal, does nothing."""

    def __init__(self, bar: Progress | None, characters: int) -> None:
        self._bar = bar
        self._task = bar.add_task("Speaking", total=characters, audio=0.0) if bar is not None else None

    def to(self, characters: int, audio_seconds: float) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=characters, audio=audio_seconds)


@contextmanager
def _progress(console: Console, characters: int) -> Iterator[_Advance]:
    if not console.is_terminal:
        yield _Advance(None, characters)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[audio]:.1f} s of audio"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Advance(bar, characters)


@contextmanager
def _sink(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears under its name only when it is complete."""
    if output is None:
        yield sys.stdout.buffer
        return
    partial = output.with_name(f".{output.name}.part")
    try:
        with partial.open("wb") as file:
            yield file
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _write(file: BinaryIO, wav: Container, speaking: _Speaking, advance: _Advance) -> None:
    """Header with unknown sizes, then samples as they come; a file's header is corrected at the end."""
    begun = False
    for pcm in speaking:
        file.write(wav.block(pcm) if begun else wav.header(None) + wav.block(pcm))
        file.flush()
        begun = True
        advance.to(speaking.characters, speaking.seconds)
