"""The native library through cffi (ABI mode).

The declarations come from the text between the cdef marks of kestrel.h, which is installed beside the library, so the
two cannot drift apart. KESTREL_LIBRARY names another library file; its header is then looked for beside it, in
`_native/`, or in the source tree.

Wrappers add types and turn a status into an exception; they hold no policy. The threading rule of kestrel.h applies:
one thread at a time for a model and its sessions.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import numpy.typing as npt

from kestrel.engine.errors import BusyError, EngineError, ModelFileError

_NATIVE = Path(__file__).parent / "_native"
_SOURCE_HEADER = Path(__file__).parents[2] / "native" / "include" / "kestrel.h"
_BEGIN, _END = "/* cdef: begin */", "/* cdef: end */"

PHASES = ("prefill", "falcon_step", "sample", "fast_graph", "codec_build", "codec_compute")
FINISHES = ("", "eos", "length", "repetition", "silence", "cancelled", "context", "numeric")
TEXT_MODES = ("prompt", "interleaved")
BACKENDS = ("auto", "cpu", "metal")

_OK, _FILE, _MODEL, _BUSY = 0, 2, 3, 4


@dataclass(frozen=True, slots=True)
class NativeSampling:
    """Mirrors ks_sampling."""

    temperature: float
    fast_temperature: float
    top_p: float
    top_k: int
    ras_window: int
    ras_temperature: float
    ras_top_p: float


@dataclass(frozen=True, slots=True)
class NativeLimits:
    """Mirrors ks_limits."""

    max_frames: int
    max_segment_frames: int
    repetition_frames: int
    silence_frames: int
    silence_rms: float


@dataclass(frozen=True, slots=True)
class NativeStatus:
    """Mirrors ks_session_status; `phases` holds (nanoseconds, count) in the order of PHASES."""

    finish: str
    frames: int
    samples: int
    segments: int
    starved: bool
    positions: int
    phases: tuple[tuple[int, int], ...]


def header_declarations(header: str) -> str:
    """The part of kestrel.h for cffi, without the export macro. Raises EngineError if the marks are missing."""
    begin, end = header.find(_BEGIN), header.find(_END)
    if begin < 0 or end < begin:
        raise EngineError("kestrel.h has no cdef marks: the header does not belong to this version")
    return header[begin + len(_BEGIN) : end].replace("KS_API", "")


def library_path() -> Path:
    """The library to load. Raises EngineError naming where it was looked for."""
    if override := os.environ.get("KESTREL_LIBRARY"):
        path = Path(override)
        if not path.is_file():
            raise EngineError(f"KESTREL_LIBRARY names {path}, which is not a file")
        return path
    path = _NATIVE / ("libkestrel.dylib" if sys.platform == "darwin" else "libkestrel.so")
    if not path.is_file():
        raise EngineError(f"the native library is missing at {path}; build it with `make setup` or set KESTREL_LIBRARY")
    return path


def _header_for(library: Path) -> str:
    for path in (library.with_name("kestrel.h"), _NATIVE / "kestrel.h", _SOURCE_HEADER):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise EngineError(f"kestrel.h is missing: it must lie beside {library}")


class Library:
    """The opened library. Use `open_library`, which opens each file once."""

    def __init__(self, path: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(header_declarations(_header_for(path)))
        try:
            self.lib: Any = self.ffi.dlopen(str(path))
            self.version = self.string(self.lib.ks_version())
        except (OSError, AttributeError) as error:
            raise EngineError(f"the native library {path} cannot be used: {error}") from error

    def string(self, pointer: Any) -> str:
        return bytes(self.ffi.string(pointer)).decode("utf-8", "replace")

    def check(self, status: int) -> None:
        """Raises the exception for a ks_status other than OK, with the library's message."""
        if status == _OK:
            return
        message = self.string(self.lib.ks_last_error())
        if status in (_FILE, _MODEL):
            raise ModelFileError(message)
        if status == _BUSY:
            raise BusyError(message)
        raise EngineError(message)


@functools.cache
def open_library(path: Path) -> Library:
    """Opens a library file once a process. Raises EngineError."""
    return Library(path)


class NativeModel:
    """A loaded model. Free it with `close`; sessions die with it."""

    def __init__(self, library: Library, path: Path, *, slots: int, threads: int, backend: str, plain_ops: int) -> None:
        """Raises ModelFileError for a bad file, EngineError for bad arguments or lack of memory."""
        if backend not in BACKENDS:
            raise EngineError(f"backend {backend!r} is not known; valid: {', '.join(BACKENDS)}")
        self._library = library
        params = library.ffi.new("ks_load_params *")
        library.lib.ks_load_params_default(params)
        params.n_slots, params.n_threads = slots, threads
        params.backend, params.plain_ops = BACKENDS.index(backend), plain_ops
        out = library.ffi.new("ks_model **")
        library.check(library.lib.ks_model_load(os.fsencode(path), params, out))
        self._model: Any = out[0]
        self.interleaved = TEXT_MODES[self.info()["text_mode"]] == "interleaved"

    def close(self) -> None:
        """Frees the model. Idempotent."""
        model, self._model = self._model, None
        if model is not None:
            self._library.lib.ks_model_free(model)

    def info(self) -> dict[str, int]:
        """Fields of ks_model_info by name."""
        out = self._library.ffi.new("ks_model_info *")
        self._library.check(self._library.lib.ks_model_get_info(self._model, out))
        return {name: int(getattr(out, name)) for name, _ in self._library.ffi.typeof("ks_model_info").fields}

    def sampling(self) -> NativeSampling:
        """Defaults written in the model file."""
        out = self._library.ffi.new("ks_sampling *")
        self._library.check(self._library.lib.ks_model_sampling(self._model, out))
        return NativeSampling(
            *(getattr(out, name) for name in NativeSampling.__dataclass_fields__),
        )

    def open_session(
        self,
        columns: npt.NDArray[np.int32],
        *,
        seed: int,
        sampling: NativeSampling,
        limits: NativeLimits,
        first_chunk_frames: int,
        max_chunk_frames: int,
    ) -> NativeSession:
        """Takes a free slot. `columns`: [1 + codebooks][T]. Raises BusyError, EngineError."""
        ffi = self._library.ffi
        prompt = np.ascontiguousarray(columns, dtype=np.int32)
        params = ffi.new("ks_session_params *")
        params.prompt = ffi.cast(
            "const int32_t *", ffi.from_buffer(prompt)
        )  # copied by the call; `prompt` lives until then
        params.n_columns, params.seed = prompt.shape[1], seed
        for name in NativeSampling.__dataclass_fields__:
            setattr(params.sampling, name, getattr(sampling, name))
        for name in NativeLimits.__dataclass_fields__:
            setattr(params.limits, name, getattr(limits, name))
        params.first_chunk_frames, params.max_chunk_frames, params.decode = first_chunk_frames, max_chunk_frames, 1
        out = ffi.new("ks_session **")
        self._library.check(self._library.lib.ks_session_open(self._model, params, out))
        return NativeSession(self._library, out[0])

    def step(self, sessions: Sequence[NativeSession]) -> None:
        """Advances the sessions by one frame each. Raises EngineError; the sessions of the call have then ended."""
        handles = self._library.ffi.new("ks_session *[]", [session.handle for session in sessions])
        self._library.check(self._library.lib.ks_step(self._model, handles, len(sessions)))


class NativeSession:
    """One utterance in a slot. `close` gives the slot back."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self.handle = handle
        self._status = library.ffi.new("ks_session_status *")

    def push(self, ids: npt.NDArray[np.int32]) -> None:
        """Interleaved text: appends one segment."""
        ffi = self._library.ffi
        data = np.ascontiguousarray(ids, dtype=np.int32)
        pointer = ffi.cast("const int32_t *", ffi.from_buffer(data))
        self._library.check(self._library.lib.ks_session_push(self.handle, pointer, len(data)))

    def end_text(self) -> None:
        """Interleaved text: no segment follows."""
        self._library.check(self._library.lib.ks_session_end_text(self.handle))

    def status(self) -> NativeStatus:
        status = self._status
        self._library.check(self._library.lib.ks_session_get_status(self.handle, status))
        return NativeStatus(
            finish=FINISHES[status.finish],
            frames=status.frames,
            samples=status.samples,
            segments=status.segments,
            starved=bool(status.starved),
            positions=status.positions,
            phases=tuple((int(clock.ns), int(clock.count)) for clock in status.phases),
        )

    def read(self, samples: int) -> npt.NDArray[np.float32]:
        """Up to `samples` ready samples, mono, full scale 1."""
        ffi = self._library.ffi
        out = np.empty(samples, dtype=np.float32)
        count = ffi.new("int32_t *")
        pointer = ffi.cast("float *", ffi.from_buffer(out, require_writable=True))
        self._library.check(self._library.lib.ks_session_read(self.handle, pointer, samples, count))
        return out[: count[0]]

    def codes(self, frames: int, codebooks: int) -> npt.NDArray[np.int32]:
        """Codes of the first `frames` frames. [frames][codebooks]."""
        ffi = self._library.ffi
        out = np.empty((frames, codebooks), dtype=np.int32)
        pointer = ffi.cast("int32_t *", ffi.from_buffer(out, require_writable=True))
        self._library.check(self._library.lib.ks_session_codes(self.handle, 0, frames, pointer))
        return out

    def segment_frames(self, segments: int) -> tuple[int, ...]:
        """Frame at which each of the first `segments` segments was taken."""
        if segments == 0:
            return ()
        out = self._library.ffi.new("int32_t[]", segments)
        self._library.check(self._library.lib.ks_session_segment_frames(self.handle, out, segments))
        return tuple(out)

    def close(self) -> None:
        """Frees the slot. Idempotent."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self._library.lib.ks_session_close(handle)
