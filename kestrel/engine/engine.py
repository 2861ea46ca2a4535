"""The engine: text in, streams of samples out."""

from __future__ import annotations

import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from kestrel.engine.binding import NativeModel, library_path, open_library
from kestrel.engine.budget import frame_budget, guard_limits, positions_needed
from kestrel.engine.errors import TextTooLongError
from kestrel.engine.frontends import Prompt, make_frontend
from kestrel.engine.job import Job, Rates
from kestrel.engine.metadata import read_metadata
from kestrel.engine.model import ModelInfo, describe
from kestrel.engine.registry import resolve_model
from kestrel.engine.stream import Sink, Stream
from kestrel.engine.utterance import Utterance, resolve_sampling
from kestrel.engine.worker import Worker

# A position never stands for more characters than this, so a longer text cannot fit and need not be read at all.
_CHARACTERS_PER_POSITION = 8


class Engine:
    """A loaded model and the thread that runs it. Every method may be called from any thread.

    Raises ModelFileError for a missing or bad model, EngineError for a missing library or bad arguments. Close it, or
    use it as a context manager; a forgotten one closes when it is collected or when the interpreter exits.
    """

    def __init__(
        self,
        model: str | Path = "default",
        *,
        slots: int = 4,
        threads: int = 0,
        backend: str = "auto",
        plain_ops: int = 0,
        max_waiting: int = 256,
    ) -> None:
        """`slots`: utterances that run at once; `max_waiting` more may wait. `threads`: 0 = physical cores.

        `backend`: of the codec: auto, cpu or metal. `plain_ops`: see ks_plain in kestrel.h.
        """
        path = resolve_model(model)
        library = open_library(library_path())
        native = NativeModel(library, path, slots=slots, threads=threads, backend=backend, plain_ops=plain_ops)
        try:
            metadata = read_metadata(path)
            info = native.info()
            self._defaults = native.sampling()
            self._frontend = make_frontend(metadata, info["n_codebooks"], info["semantic_begin"])
            self._segment_frames = metadata.number("sampling.max_segment_frames")
            self._info = describe(metadata, info, self._defaults, self._frontend.max_characters, library.version)
        except BaseException:
            native.close()
            raise
        self._rates = Rates(self._info.sample_rate, self._info.frames_per_second)
        self._worker = Worker(native, self._info.slots, max_waiting)
        # Runs on close, collection or interpreter exit, whichever comes first; the worker must not refer to the engine.
        self._finalizer = weakref.finalize(self, self._worker.close)

    @property
    def info(self) -> ModelInfo:
        """Facts about the loaded model."""
        return self._info

    def submit(self, utterance: Utterance, sink: Sink | None = None) -> Stream:
        """Starts an utterance. The text work happens in the calling thread.

        Raises TextError if the text cannot be spoken, ValueError for a voice or language the model lacks, BusyError
        if too many wait, ClosedError after close or a failure. With a `sink` every event goes there (see Stream).
        """
        submitted = time.monotonic()
        self._worker.check_open()
        self._check_voice(utterance)
        prompt = self._encode(utterance.text)
        fps = self._info.frames_per_second
        frames = frame_budget(prompt.symbols, self._frontend.frames_per_symbol, fps, utterance.max_seconds)
        job = Job(
            utterance,
            prompt,
            resolve_sampling(self._defaults, utterance.sampling),
            guard_limits(frames, self._segment_frames, fps),
            self._rates,
            Stream(sink, self._worker.wake),
            submitted,
        )
        self._worker.submit(job)
        return job.stream

    def check(self, text: str) -> None:
        """Raises what submit would for this text: TextTooLongError if it must be split, else TextError."""
        self._encode(text)

    def close(self) -> None:
        """Ends running streams as cancelled and frees the model. Idempotent."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_voice(self, utterance: Utterance) -> None:
        if utterance.voice not in self._info.voices:
            raise ValueError(f"voice {utterance.voice!r} is not known; valid: {', '.join(self._info.voices)}")
        language = utterance.language
        if language is None:
            return
        spoken = {code.lower() for code in self._info.languages}
        primary = language.lower().replace("_", "-").split("-")[0]
        if language.lower() not in spoken and primary not in {code.split("-")[0] for code in spoken}:
            raise ValueError(
                f"language {language!r} is not spoken by this model; valid: {', '.join(self._info.languages)}"
            )

    def _encode(self, text: str) -> Prompt:
        """Prompt of a text that fits the model's context. Raises TextError."""
        room = self._info.max_positions
        if len(text) > room * _CHARACTERS_PER_POSITION:
            raise TextTooLongError(self._too_long(text))
        prompt = self._frontend.encode(text)
        ids = sum(len(segment) for segment in prompt.segments)
        if positions_needed(prompt.columns.shape[1], ids, prompt.symbols, self._frontend.frames_per_symbol) > room:
            raise TextTooLongError(self._too_long(text))
        return prompt

    def _too_long(self, text: str) -> str:
        advice = self._info.max_characters
        hint = f" of about {advice} characters" if advice else ""
        return f"the text is too long for one utterance ({len(text)} characters); split it into parts{hint}"
