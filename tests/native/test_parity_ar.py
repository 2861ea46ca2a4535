"""Slow and fast AR against the PyTorch reference, in float32, at every layer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kestrel.engine.convert import convert_checkpoint
from tests.native import tolerances
from tests.native.conftest import F32, Models, Pair
from tests.native.harness import (
    CONV,
    FAST_LOGITS,
    HIDDEN,
    KEY,
    LAYER,
    LOGITS,
    PLAIN_ALL,
    PLAIN_ATTENTION,
    PLAIN_LINEAR,
    PLAIN_MAMBA,
    SSM,
    VALUE,
    Native,
    Session,
)
from tests.native.tolerances import error
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import PRESETS
from tests.reference.fast import fast_logits
from tests.reference.sampler import GREEDY, Sampling, draw, draw_semantic, uniform

LENGTHS = (1, 2, 127, 128, 129, 300)


def state_errors(session: Session, pair: Pair) -> dict[str, float]:
    """Error of every state of a session against the reference, which has read the same columns."""
    slow = pair.reference.slow
    c = pair.reference.config.slow
    worst: dict[str, float] = {}
    for layer in range(c.layers):
        expected = slow.state(layer)
        actual = {
            "conv": session.state(CONV, layer, (-1, c.ssm_conv - 1)),
            "ssm": session.state(SSM, layer, (c.ssm_heads, c.ssm_head_dim, c.ssm_state)),
            "key": session.state(KEY, layer, (-1, c.kv_heads, c.head_dim)),
            "value": session.state(VALUE, layer, (-1, c.kv_heads, c.head_dim)),
        }
        for name, tensor in actual.items():
            worst[f"{name} {layer}"] = error(tensor, getattr(expected, name))
    return worst


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("preset", PRESETS)
def test_prompt(models: Models, preset: str, length: int) -> None:
    """Catches every mistake in the layers, embeddings, multipliers and heads, and wrong behaviour at the borders of
    prefill blocks and of the 128-position buckets, in each layer's output and each state of each layer."""
    pair = models[preset]
    pair.reference.slow.reset()
    prompt = pair.prompt(length)
    expected = pair.reference.slow.run(prompt)
    with pair.native.session(prompt) as session:
        pair.native.step(session)
        for layer, output in enumerate(expected.layers):
            assert error(session.state(LAYER, layer), output[-1]) < tolerances.LAYER * (layer + 1), f"layer {layer}"
        assert error(session.state(HIDDEN), expected.hidden[-1]) < tolerances.HIDDEN
        assert error(session.state(LOGITS), expected.logits[-1]) < tolerances.LOGITS
        for name, value in state_errors(session, pair).items():
            assert value < tolerances.STATE * pair.reference.config.slow.layers, name
        codes = session.codes()[0].tolist()
        logits = fast_logits(pair.reference.weights, expected.hidden[-1], codes[:-1])
        assert error(session.state(FAST_LOGITS).reshape(logits.shape), logits) < tolerances.LOGITS
        assert codes[0] == int(expected.logits[-1].argmax())
        assert codes[1:] == logits.argmax(-1).tolist()


@pytest.mark.parametrize("preset", ["tiny", "multipliers"])
def test_600_steps(models: Models, preset: str) -> None:
    """Catches what goes wrong only after many steps: K/V appended with a wrong stride, a bucket change that loses
    state, states that grow. Every step's hidden state, logits and codes are compared, and every state at the end."""
    pair, frames = models[preset], 600
    prompt = pair.prompt(17)
    hidden, logits, fast = [], [], []
    with pair.native.session(prompt, max_frames=frames + 1) as session:
        for _ in range(frames + 1):
            pair.native.step(session)
            hidden.append(session.state(HIDDEN))
            logits.append(session.state(LOGITS))
            fast.append(session.state(FAST_LOGITS))
        codes = torch.from_numpy(session.codes()).long()
        assert len(codes) == frames + 1
        columns = torch.cat(
            [prompt, torch.cat([codes[:-1, :1] + pair.reference.config.semantic_begin, codes[:-1]], 1).T], 1
        )
        pair.reference.slow.reset()
        expected = pair.reference.slow.run(columns)
        first = prompt.shape[1] - 1
        assert error(torch.stack(hidden), expected.hidden[first:]) < tolerances.HIDDEN
        assert error(torch.stack(logits), expected.logits[first:]) < tolerances.LOGITS
        for name, value in state_errors(session, pair).items():
            assert value < tolerances.HIDDEN, name
        for layer in range(pair.reference.config.slow.layers):
            assert float(session.state(SSM, layer).abs().max()) < 1e4
    assert_greedy(expected.logits[first:], codes[:, 0])
    for i in range(0, frames, 50):
        want = fast_logits(pair.reference.weights, expected.hidden[first + i], codes[i, :-1].tolist())
        assert error(fast[i].reshape(want.shape), want) < tolerances.LOGITS
        assert_greedy(want, codes[i, 1:])


def assert_greedy(logits: torch.Tensor, chosen: torch.Tensor) -> None:
    """Each choice is the best one, or within rounding of it."""
    margin = logits.max(-1).values - logits.gather(-1, chosen[:, None])[:, 0]
    assert float(margin.max()) < tolerances.LOGITS


@pytest.mark.parametrize("preset", PRESETS)
def test_prefill_equals_steps(models: Models, preset: str) -> None:
    """Catches a prefill that computes something else than single steps: the same columns, read either way, leave the
    same bytes in every state and the same logits."""
    pair = models[preset]
    prompt = pair.prompt(3)
    with pair.native.session(prompt, max_frames=140) as stepped:
        pair.native.run(stepped)
        codes = torch.from_numpy(stepped.codes()).long()[:-1]
        semantic = codes[:, :1] + pair.reference.config.semantic_begin
        with pair.native.session(torch.cat([prompt, torch.cat([semantic, codes], 1).T], 1)) as prefilled:
            pair.native.step(prefilled)
            for which in (HIDDEN, LOGITS, FAST_LOGITS):
                assert torch.equal(prefilled.state(which), stepped.state(which))
            for layer in range(pair.reference.config.slow.layers):
                for which in (CONV, SSM, KEY, VALUE):
                    assert torch.equal(prefilled.state(which, layer), stepped.state(which, layer))


def test_generation_equals_reference(tiny: Pair) -> None:
    """Catches mistakes of the loop that teacher forcing hides: EOS and codes fed back, ids shifted, frames dropped at
    the limit. A whole greedy run gives identical codes."""
    prompt = tiny.prompt(20)
    expected = tiny.reference.generate(prompt, 48)
    with tiny.native.session(prompt, max_frames=48) as session:
        tiny.native.run(session)
        assert session.codes().tolist() == expected.frames
        assert session.finish == "length"


def test_end_of_utterance(tmp_path: Path) -> None:
    """Catches EOS compared with the wrong index, emitted as a frame, or one frame late: greedy runs of a model whose
    EOS row competes end where the reference's end."""
    source = write_checkpoint(tmp_path / "c", replace(PRESETS["tiny"], eos_gain=1.5), seed=1)
    convert_checkpoint(source, tmp_path / "m.gguf", types=F32)
    pair = Pair(source, tmp_path / "m.gguf")
    lengths = set()
    try:
        for seed in range(6):
            prompt = pair.prompt(8, seed)
            expected = pair.reference.generate(prompt, 64)
            with pair.native.session(prompt, max_frames=64) as session:
                pair.native.run(session)
                assert session.codes().tolist() == expected.frames
                assert session.finish == expected.finish
                if session.finish == "eos":
                    lengths.add(len(expected.frames))
    finally:
        pair.native.close()
    assert len(lengths) > 1  # several different ends were seen


@pytest.mark.parametrize("seed", range(4))
def test_sampled_codes_follow_the_rules(tiny: Pair, seed: int) -> None:
    """Catches a wrong filter order, the crossing token kept, RAS semantics and a random stream other than the
    documented one: the reference sampler, given the engine's own logits, must draw exactly the engine's codes."""
    sampling = Sampling(temperature=0.8, fast_temperature=0.6, top_p=0.95, top_k=7, ras_window=5)
    recent: list[int] = []
    eos = tiny.reference.config.semantic_size
    with tiny.native.session(tiny.prompt(9), max_frames=80, sampling=sampling, seed=seed) as session:
        for i in range(80):
            tiny.native.step(session)
            codes = session.codes()
            logits = session.state(LOGITS).numpy()
            token = draw_semantic(logits, sampling, recent, eos, (uniform(seed, i, 0), uniform(seed, i, 1)))
            if token == eos:
                assert session.finish == "eos"
                return
            assert token == codes[i, 0]
            recent.append(token)
            for j, row in enumerate(session.state(FAST_LOGITS).numpy().reshape(codes.shape[1] - 1, -1), start=1):
                u = uniform(seed, i + 1, 1 + j)
                assert draw(row, sampling.fast_temperature, sampling.top_p, sampling.top_k, u) == codes[i, j]


def test_repetition_aware_draw_was_needed(tiny: Pair) -> None:
    """Guards the test above: in its runs, the repetition rule must have replaced draws, or it would prove nothing."""
    prompt, differ = tiny.prompt(9), 0
    for seed in range(4):
        plain = Sampling(temperature=0.8, fast_temperature=0.6, top_p=0.95, top_k=7, ras_window=0)
        aware = Sampling(temperature=0.8, fast_temperature=0.6, top_p=0.95, top_k=7, ras_window=5)
        runs = []
        for sampling in (plain, aware):
            with tiny.native.session(prompt, max_frames=80, sampling=sampling, seed=seed) as session:
                tiny.native.run(session)
                runs.append(session.codes().tolist())
        differ += runs[0] != runs[1]
    assert differ > 0


@pytest.mark.parametrize("operations", [PLAIN_LINEAR, PLAIN_MAMBA, PLAIN_ATTENTION, PLAIN_ALL])
@pytest.mark.parametrize("preset", PRESETS)
def test_plain_operations_agree(models: Models, preset: str, operations: int) -> None:
    """Catches a custom kernel that drifts from the stock ggml operations it replaces, and the reverse."""
    pair = models[preset]
    plain = Native(pair.model_file, plain_ops=operations)
    try:
        for length in (1, 130):
            prompt = pair.prompt(length)
            with pair.native.session(prompt, max_frames=4) as own, plain.session(prompt, max_frames=4) as stock:
                for _ in range(4):
                    pair.native.step(own)
                    plain.step(stock)
                    for which, limit in ((HIDDEN, tolerances.HIDDEN), (LOGITS, tolerances.LOGITS)):
                        assert error(stock.state(which), own.state(which)) < limit
                for layer in range(pair.reference.config.slow.layers):
                    for which in (CONV, SSM, KEY, VALUE):
                        assert error(stock.state(which, layer), own.state(which, layer)) < tolerances.HIDDEN
                assert stock.codes().tolist() == own.codes().tolist()
    finally:
        plain.close()


def test_greedy_ignores_the_seed(tiny: Pair) -> None:
    """Catches a random draw left in greedy mode."""
    runs = []
    for seed in (0, 1 << 63):
        with tiny.native.session(tiny.prompt(5), max_frames=12, sampling=GREEDY, seed=seed) as session:
            tiny.native.run(session)
            runs.append(session.codes().tolist())
    assert runs[0] == runs[1]
