"""The engine on a prompt-text model: a random checkpoint of the published layout, converted.

Faults caught: anything that works only for the built-in voice: its front end, its rates, its number of codebooks, its
text mode. Random weights speak noise, so these tests look at structure, not at sound.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrel.engine import Engine, Sampling, TextError, Utterance
from kestrel.engine.convert import Types, convert_checkpoint
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import TINY

ENDINGS = {"eos", "length", "repetition", "silence", "context"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("prompt")
    write_checkpoint(folder / "checkpoint", TINY, encoder=False)
    convert_checkpoint(folder / "checkpoint", folder / "tiny.gguf", types=Types("f32", "f32", "f32"))
    with Engine(folder / "tiny.gguf", slots=2, threads=1) as engine:
        yield engine


def spoken(engine: Engine, utterance: Utterance) -> tuple[bytes, str]:
    stream = engine.submit(utterance)
    pcm = b"".join(chunk.pcm.tobytes() for chunk in stream)
    return pcm, stream.result().finish_reason


def test_prompt_text_is_spoken(engine: Engine) -> None:
    """Whole frames at the model's own rate, a normal ending, and no word times, which this mode cannot know."""
    assert engine.info.text_mode == "prompt"
    assert engine.info.max_characters is None
    stream = engine.submit(Utterance("Hello, 世界!", max_seconds=1.0))
    samples = sum(len(chunk.pcm) for chunk in stream)
    result = stream.result()
    assert result.finish_reason in ENDINGS
    assert result.frames > 0
    assert samples == result.frames * engine.info.frame_size
    assert result.audio_seconds <= 1.0
    assert result.words == ()
    assert result.phases["prefill"].count > 0


def test_streams_are_independent_here_too(engine: Engine) -> None:
    """Two slots, other texts and seeds beside each other: the bytes of one at a time."""
    wanted = [
        Utterance(text, seed=i, max_seconds=1.0) for i, text in enumerate(["one", "two two", "three three three"])
    ]
    alone = [spoken(engine, utterance) for utterance in wanted]
    streams = [engine.submit(utterance) for utterance in wanted]
    together = [
        (b"".join(chunk.pcm.tobytes() for chunk in stream), stream.result().finish_reason) for stream in streams
    ]
    assert together == alone


def test_text_and_sampling_reach_the_model(engine: Engine) -> None:
    """Another text or temperature gives other samples; white space that cleaning removes does not."""
    greedy = Sampling(temperature=0)
    base = spoken(engine, Utterance("a b", sampling=greedy, max_seconds=1.0))
    assert spoken(engine, Utterance("  a \n b\x00", sampling=greedy, max_seconds=1.0)) == base
    assert spoken(engine, Utterance("a c", sampling=greedy, max_seconds=1.0)) != base
    assert spoken(engine, Utterance("a b", seed=3, max_seconds=1.0)) != base


def test_text_beyond_the_context_is_refused(engine: Engine) -> None:
    """Before it takes a slot, with advice."""
    with pytest.raises(TextError, match="too long"):
        engine.submit(Utterance("word " * engine.info.max_positions))
