"""Models as they ship: quantised weights, and the built-in voice with its interleaved text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import kestrel
from kestrel.engine.convert import Types, convert_checkpoint
from tests.native import tolerances
from tests.native.conftest import Pair
from tests.native.harness import HIDDEN, LOGITS, Native
from tests.native.tolerances import error, samples_error
from tests.reference.model import Generation, Reference
from tests.reference.sampler import Sampling
from tests.reference.weights import ModelFileReader, from_gguf

VOICE = Path(kestrel.__file__).parent / "voices" / "default.gguf"
QUANTISED_CODEC = 2e-2
"""Waveform limit with q8_0 codec linears: ggml quantises their inputs to 8 bits as well."""


@pytest.mark.parametrize(
    ("types", "samples"),
    [
        (Types("f16", "f16", "f16"), 5e-3),  # f16 products round their inputs too
        (Types("bf16", "bf16", "f32"), 2e-2),
        (Types("q8_0", "q8_0", "f32"), QUANTISED_CODEC),
    ],
    ids=lambda value: value.linears if isinstance(value, Types) else "",
)
def test_stored_types(tiny: Pair, tmp_path: Path, types: Types, samples: float) -> None:
    """Catches a storage type read wrongly: the reference computes with the dequantised weights of the same file."""
    path = tmp_path / "model.gguf"
    convert_checkpoint(tiny.checkpoint, path, types=types)
    reference, native = Reference(from_gguf(path)), Native(path)
    try:
        prompt = tiny.prompt(33)
        expected = reference.slow.run(prompt)
        with native.session(prompt) as session:
            native.step(session)
            assert error(session.state(HIDDEN), expected.hidden[-1]) < tolerances.HIDDEN
            assert error(session.state(LOGITS), expected.logits[-1]) < tolerances.LOGITS
        codes = torch.arange(4 * 12).reshape(4, 12) * 7 % 32
        assert samples_error(native.decode(codes, (5,)), torch.from_numpy(reference.samples(codes))) < samples
    finally:
        native.close()


@pytest.fixture(scope="module")
def voice() -> Iterator[tuple[Native, Reference]]:
    native = Native(VOICE, slots=2)
    yield native, Reference(from_gguf(VOICE))
    native.close()


def interleaved_text(words: str) -> tuple[list[int], list[list[int]]]:
    """Prompt ids and segments of phoneme words: each word is followed by the next word and a marker, the last one by
    the end id, and then the model is one word ahead of its speech."""
    fields = ModelFileReader(VOICE).fields
    symbols = json.loads(fields["kestrel.phonemes"].contents())
    units = [[symbols["ids"][p] for p in word if p in symbols["ids"]] for word in words.split(" ")]
    units.append([symbols["end"]])
    marker = [symbols["marker"]]
    return [symbols["bos"], *units[0], *units[1], *marker], [unit + marker for unit in units[2:]]


WORDS = "ðə kwˈɪk bɹˈaʊn fˈɑks"


def run_voice(
    native: Native, prompt: torch.Tensor, segments: list[list[int]], late: bool, frames: int, sampling: Sampling
) -> tuple[list[list[int]], list[int], str]:
    """Runs an utterance, all text pushed first, or (late) each segment only when the session starves for it."""
    with native.session(prompt, max_frames=frames, sampling=sampling, seed=11, max_segment_frames=30) as session:
        waiting = list(segments)
        if not late:
            for segment in waiting:
                session.push(segment)
            waiting.clear()
            session.end_text()
        for _ in native.steps(session):
            if session.status.starved:
                if waiting:
                    session.push(waiting.pop(0))
                else:
                    session.end_text()
        return session.codes().tolist(), session.segment_frames(), session.finish


SAMPLED = Sampling(temperature=0.3, fast_temperature=0.1, top_p=0.95, top_k=20, ras_window=0)


@pytest.mark.parametrize("sampling", [Sampling(0, 0), SAMPLED], ids=["greedy", "sampled"])
def test_voice_speaks_as_the_reference(voice: tuple[Native, Reference], sampling: Sampling) -> None:
    """Catches mistakes in interleaved text on the real voice: NEXT fed or not, EOS before the text ends, codebooks of
    different sizes, f32 rotation tables. Codes, word starts and the end must be the same, and so must the samples."""
    native, reference = voice
    ids, segments = interleaved_text(WORDS)
    prompt = reference.text_columns(ids)
    expected: Generation = reference.generate(
        prompt, 90, sampling=sampling, seed=11, segments=segments, max_segment_frames=30
    )
    codes, starts, finish = run_voice(native, prompt, segments, False, 90, sampling)
    assert codes == expected.frames
    assert starts == expected.segment_frames
    assert finish == expected.finish
    assert len(starts) == len(segments)
    audio = native.decode(expected.codes, (1, 2, 4, 8, 16))
    assert samples_error(audio, torch.from_numpy(reference.samples(expected.codes))) < QUANTISED_CODEC
    assert float(np.sqrt(np.mean(audio**2))) > 1e-3


def test_late_text_changes_nothing(voice: tuple[Native, Reference]) -> None:
    """Catches a starving session that draws again, loses a frame, or ends: text that arrives word by word gives the
    codes of text given at once. EOS is not possible while text may follow, so the runs differ only in waiting."""
    native, reference = voice
    ids, segments = interleaved_text(WORDS)
    prompt = reference.text_columns(ids)
    early = run_voice(native, prompt, segments, False, 90, SAMPLED)
    late = run_voice(native, prompt, segments, True, 90, SAMPLED)
    shared = early[1][-1]  # up to the last segment: after it, the end of the text is known later
    assert late[1] == early[1]
    assert late[0][:shared] == early[0][:shared]
