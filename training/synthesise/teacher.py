"""The teacher voice: hibari-tts 0.2.1, voice "heart" (Apache-2.0), with its phoneme durations made visible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.synthesise.noise import RATE, FrameNoise

DURATION_OUTPUT = "/Clip_output_0"
"""Graph node that holds the duration of every phoneme, the silences at both ends included, in units of 25 ms."""
UNIT_SAMPLES = RATE // 40
LEAD_UNITS = 1
"""Silence kept before the first phoneme; the teacher starts with about 0.3 s of it."""
OUT_RATE = 16000
FADE_SAMPLES = 80


@dataclass(frozen=True)
class Spoken:
    """A spoken line."""

    phonemes: str
    durations: NDArray[np.int16]
    """[len(phonemes) + 2] in units of 25 ms"""
    pcm: NDArray[np.int16]
    """mono, 16 kHz"""


def lead_cut(durations: NDArray[np.int16]) -> int:
    """Units of leading silence to cut off."""
    return max(0, int(durations[0]) - LEAD_UNITS)


def finish(samples: NDArray[np.float32], cut_samples: int) -> NDArray[np.int16]:
    """Cut the lead, fade in over 5 ms so that the cut is no click, and convert to 16 bits.

    Raises ValueError for samples that are not finite: one of them would spoil a whole training step.
    """
    if not np.isfinite(samples).all():
        raise ValueError("the teacher produced samples that are not numbers")
    kept = samples[cut_samples:].copy()
    fade = min(FADE_SAMPLES, len(kept))
    kept[:fade] *= np.linspace(0, 1, fade, dtype=np.float32)
    return (np.clip(kept, -1, 1) * 32767).astype(np.int16)


class Teacher:
    """Speaks single lines. Building it writes a copy of the teacher's graph with one more output to `scratch`."""

    def __init__(self, scratch: Path, threads: int = 1) -> None:
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
        cut = lead_cut(durations)
        samples = dsp.synth(*(o[0] for o in outputs[:6]), FrameNoise(cut * UNIT_SAMPLES))
        pcm = finish(resample_poly(samples, 2, 3).astype(np.float32), cut * UNIT_SAMPLES * 2 // 3)
        durations[0] -= cut
        return Spoken(phonemes, durations, pcm)
