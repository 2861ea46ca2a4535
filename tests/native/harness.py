"""The native library as the parity tests see it: every state readable, every build option settable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kestrel.engine.binding import Library, library_path, open_library
from tests.reference.sampler import GREEDY, Sampling

CONV, SSM, KEY, VALUE, HIDDEN, LOGITS, FAST_LOGITS, LAYER = range(8)
PLAIN_LINEAR, PLAIN_MAMBA, PLAIN_ATTENTION, PLAIN_CONV, PLAIN_SNAKE, PLAIN_ALL = 1, 2, 4, 8, 16, 31
FINISHES = ("running", "eos", "length", "repetition", "silence", "cancelled", "context", "numeric")

MAX_STEPS = 5000

Floats = NDArray[np.float32]


class Session:
    """One utterance. The last column fed is that of the frame before the newest: the newest is fed by the next step."""

    def __init__(self, native: Native, handle: Any) -> None:
        self._native = native
        self.handle = handle

    def state(self, which: int, layer: int = 0, shape: tuple[int, ...] = (-1,)) -> torch.Tensor:
        n, lib, ffi = self._native.n, self._native.lib, self._native.ffi
        self._native.check(lib.ks_session_state(self.handle, which, layer, ffi.NULL, 0, n))
        out = np.empty(n[0], dtype=np.float32)
        self._native.check(
            lib.ks_session_state(self.handle, which, layer, ffi.cast("float *", out.ctypes.data), len(out), n)
        )
        return torch.from_numpy(out.reshape(shape))

    @property
    def status(self) -> Any:
        out = self._native.ffi.new("ks_session_status *")
        self._native.check(self._native.lib.ks_session_get_status(self.handle, out))
        return out

    @property
    def finish(self) -> str:
        return FINISHES[self.status.finish]

    def codes(self) -> NDArray[np.int32]:
        """[frames][codebooks]."""
        frames = self.status.frames
        out = np.empty((frames, self._native.info.n_codebooks), dtype=np.int32)
        pointer = self._native.ffi.cast("int32_t *", out.ctypes.data)
        self._native.check(self._native.lib.ks_session_codes(self.handle, 0, frames, pointer))
        return out

    def read(self) -> Floats:
        """All samples that are ready."""
        out = np.empty(self.status.samples, dtype=np.float32)
        pointer = self._native.ffi.cast("float *", out.ctypes.data)
        self._native.check(self._native.lib.ks_session_read(self.handle, pointer, len(out), self._native.n32))
        return out[: self._native.n32[0]]

    def push(self, ids: Sequence[int]) -> None:
        self._native.check(self._native.lib.ks_session_push(self.handle, list(ids), len(ids)))

    def end_text(self) -> None:
        self._native.check(self._native.lib.ks_session_end_text(self.handle))

    def segment_frames(self) -> list[int]:
        count = self.status.segments
        out = self._native.ffi.new("int32_t[]", max(count, 1))
        self._native.check(self._native.lib.ks_session_segment_frames(self.handle, out, count))
        return list(out)[:count]

    def cancel(self) -> None:
        self._native.lib.ks_session_cancel(self.handle)

    def close(self) -> None:
        self._native.lib.ks_session_close(self.handle)


class Native:
    """A loaded model. Raises EngineError with the library's message."""

    def __init__(
        self, path: Path, *, slots: int = 4, threads: int = 1, plain_ops: int = 0, record: bool = True
    ) -> None:
        library: Library = open_library(library_path())
        self.lib, self.ffi, self.check = library.lib, library.ffi, library.check
        params = self.ffi.new("ks_load_params *")
        self.lib.ks_load_params_default(params)
        params.n_slots, params.n_threads, params.record, params.plain_ops = slots, threads, int(record), plain_ops
        out = self.ffi.new("ks_model **")
        self.check(self.lib.ks_model_load(os.fsencode(path), params, out))
        self.model = out[0]
        self.info = self.ffi.new("ks_model_info *")
        self.check(self.lib.ks_model_get_info(self.model, self.info))
        self.n = self.ffi.new("int64_t *")
        self.n32 = self.ffi.new("int32_t *")

    def close(self) -> None:
        self.lib.ks_model_free(self.model)

    def open(
        self,
        prompt: torch.Tensor,
        *,
        max_frames: int = 1,
        sampling: Sampling = GREEDY,
        seed: int = 0,
        decode: bool = False,
        chunks: tuple[int, int] = (1, 16),
        max_segment_frames: int = 0,
    ) -> Session:
        """prompt [1 + codebooks, T]. All guards are off."""
        matrix = np.ascontiguousarray(prompt.numpy(), dtype=np.int32)
        params = self.ffi.new("ks_session_params *")
        params.prompt = self.ffi.cast("const int32_t *", matrix.ctypes.data)
        params.n_columns, params.seed = matrix.shape[1], seed
        for name in Sampling.__dataclass_fields__:
            setattr(params.sampling, name, getattr(sampling, name))
        params.limits.max_frames, params.limits.max_segment_frames = max_frames, max_segment_frames
        params.first_chunk_frames, params.max_chunk_frames = chunks
        params.decode = int(decode)
        out = self.ffi.new("ks_session **")
        self.check(self.lib.ks_session_open(self.model, params, out))
        return Session(self, out[0])

    @contextmanager
    def session(self, prompt: torch.Tensor, **options: Any) -> Iterator[Session]:
        opened = self.open(prompt, **options)
        try:
            yield opened
        finally:
            opened.close()

    def step(self, *sessions: Session) -> None:
        self.check(self.lib.ks_step(self.model, [s.handle for s in sessions], len(sessions)))

    def steps(self, session: Session) -> Iterator[None]:
        """Steps one session to its end, yielding after every step. One that never ends is a failure, not a hang."""
        for _ in range(MAX_STEPS):
            if session.finish != "running":
                return
            self.step(session)
            yield
        raise AssertionError(f"the session still runs after {MAX_STEPS} steps")

    def run(self, session: Session) -> None:
        """Steps one session to its end."""
        for _ in self.steps(session):
            pass

    def decode(self, codes: torch.Tensor, chunks: Sequence[int] = ()) -> Floats:
        """codes [codebooks, T] -> samples; `chunks` are the sizes of successive calls, the last one repeated."""
        total = codes.shape[1]
        sizes = list(chunks) or [total]
        decoder = self.ffi.new("ks_decoder **")
        self.check(self.lib.ks_decoder_open(self.model, decoder))
        parts: list[Floats] = []
        try:
            begin = 0
            while begin < total:
                size = min(sizes.pop(0) if len(sizes) > 1 else sizes[0], total - begin)
                part = np.ascontiguousarray(codes[:, begin : begin + size].numpy(), dtype=np.int32)
                pcm = np.empty(size * self.info.frame_size, dtype=np.float32)
                pointers = self.ffi.cast("int32_t *", part.ctypes.data), self.ffi.cast("float *", pcm.ctypes.data)
                self.check(self.lib.ks_decoder_run(decoder[0], pointers[0], size, pointers[1]))
                parts.append(pcm)
                begin += size
        finally:
            self.lib.ks_decoder_close(decoder[0])
        return np.concatenate(parts)
