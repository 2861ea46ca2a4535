"""The teacher voice: hibari-tts 0.2.1, voice "heart" (Apache-2.0), with its phoneme durations made visible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.synthesise.noise import FrameNoise

DURATION_OUTPUT = "/Clip_output_0"
"""Graph node that holds the duration of every phoneme, the silences at both ends included, in units of 25 ms."""
OUT_RATE = 16000
FRAME = OUT_RATE // 25
"""One codec frame. Leads are cut in whole frames, so that the noise stays in phase with the frames."""
SOUND_LEVEL = 0.004
"""Root mean square over 5 ms that counts as sound (full scale = 1); the teacher's silence is exactly zero."""
FADE_SAMPLES = 80


@dataclass(frozen=True)
class Spoken:
    """A spoken line."""

    phonemes: str
    durations: NDArray[np.int16]
    """[len(phonemes) + 2] in units of 25 ms, of the audio before the lead was cut"""
    lead_frames: int
    """Frames of silence cut off at the start"""
    pcm: NDArray[np.int16]
    """mono, 16 kHz"""


def sound_bounds(samples: NDArray[np.float32]) -> tuple[int, int]:
    """First and one past the last sample that belongs to a sound; (0, 0) for silence.

    Durations would be the wrong ruler: the teacher's sounds come about 50 ms early, and the silence at the end is
    part of the last sound's duration.
    """
    width = OUT_RATE // 200
    power = np.convolve(np.square(samples, dtype=np.float64), np.ones(width) / width, mode="same")
    loud = np.flatnonzero(power > SOUND_LEVEL**2)
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, 0)


def trim(samples: NDArray[np.float32], lead_seconds: float, trail_seconds: float) -> tuple[int, NDArray[np.int16]]:
    """Cut the silence at both ends, fade over 5 ms so that no cut is a click, and convert to 16 bits.

    `lead_seconds` of silence stay before the first sound, and less than a frame more; `trail_seconds` after the last.
    Returns the number of frames cut at the start and the rest. Raises ValueError for samples that are not finite (one
    of them would spoil a whole training step) and for silence.
    """
    if not np.isfinite(samples).all():
        raise ValueError("the teacher produced samples that are not numbers")
    start, end = sound_bounds(samples)
    if end == 0:
        raise ValueError("the teacher produced silence")
    lead = max(0, int((start - lead_seconds * OUT_RATE) / FRAME))
    kept = samples[lead * FRAME : end + int(trail_seconds * OUT_RATE)].copy()
    fade = min(FADE_SAMPLES, len(kept) // 2)
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    kept[:fade] *= ramp
    kept[len(kept) - fade :] *= ramp[::-1]
    return lead, (np.clip(kept, -1, 1) * 32767).astype(np.int16)


class Teacher:
    """Speaks single lines. Building it writes a copy of the teacher's graph with one more output to `scratch`."""

    def __init__(self, scratch: Path, lead_seconds: float, trail_seconds: float, threads: int = 1) -> None:
        import hibari  # type: ignore[import-not-found, unused-ignore]
        import onnx  # type: ignore[import-not-found, unused-ignore]
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
        from hibari import Hibari  # type: ignore[import-not-found, unused-ignore]

        graph = onnx.load(str(Path(hibari.__file__).parent / "assets" / "hibari.onnx"))
        if DURATION_OUTPUT not in {name for node in graph.graph.node for name in node.output}:
            raise RuntimeError(f"this version of the teacher has no node {DURATION_OUTPUT}; hibari-tts 0.2.1 does")
        graph.graph.output.append(onnx.helper.make_tensor_value_info(DURATION_OUTPUT, onnx.TensorProto.FLOAT, None))
        scratch.mkdir(parents=True, exist_ok=True)
        path = scratch / "teacher.onnx"
        onnx.save(graph, str(path))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._teacher: Any = Hibari()
        self._margins = lead_seconds, trail_seconds

    def speak(self, text: str) -> Spoken | None:
        """Speak a line; None if the teacher would split it into several sentences."""
        from hibari import dsp  # type: ignore[import-not-found, unused-ignore]
        from scipy.signal import resample_poly  # type: ignore[import-untyped, unused-ignore]

        spoken = self._teacher.phonemize(text)
        if len(spoken) != 1:
            return None
        phonemes = "".join(c for c in spoken[0] if c in self._teacher.vocab)
        ids = np.asarray([self._teacher.ids(phonemes)], np.int64)
        outputs = self._session.run(None, {"ids": ids, "speed": np.ones(1, np.float32)})
        durations = outputs[6].reshape(-1).astype(np.int16)
        samples = dsp.synth(*(o[0] for o in outputs[:6]), FrameNoise())
        lead, pcm = trim(resample_poly(samples, 2, 3).astype(np.float32), *self._margins)
        return Spoken(phonemes, durations, lead, pcm)
