"""The parity suite would catch each known porting mistake: a reference with the mistake disagrees with the engine by
more than the limit that the right reference keeps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.native import tolerances
from tests.native.conftest import Models, Pair
from tests.native.harness import FAST_LOGITS, HIDDEN, LAYER, LOGITS, SSM, Native
from tests.native.mutations import (
    Mutation,
    append_with_wrong_stride,
    centred_convolutions,
    clamp_steps,
    codec_config,
    double_softplus,
    exchange,
    fast_config,
    inner_of,
    multiplier,
    post_config,
    slow_config,
    slow_modulo_heads,
    slow_pair_rotation,
    stack_half_rotation,
    stack_modulo_heads,
    swapped,
    tanh_gelu,
    tensors,
    trimmed_on_the_left,
    with_norm,
    without_gate,
)
from tests.native.tolerances import error
from tests.reference.codec import decode
from tests.reference.fast import fast_logits
from tests.reference.published import from_checkpoint
from tests.reference.slow import SlowReference
from tests.reference.weights import ModelFileReader, Weights, from_gguf

FRAMES = 8


def one(_: float) -> float:
    return 1.0


def segment_to_one(index: int) -> Callable[[tuple[float, ...]], tuple[float, ...]]:
    return lambda m: (*m[:index], 1.0, *m[index + 1 :])


def clamp_rows(table: Tensor) -> Tensor:
    """Codebooks 1 and up of [4 * 32, dim] with rows from 16 on equal to row 15, as if codes were clamped first."""
    books = table.clone().reshape(4, 32, -1)
    books[1:, 16:] = books[1:, 15:16]
    return books.flatten(0, 1)


def shift_books(table: Tensor) -> Tensor:
    return table.reshape(4, 32, -1).roll(1, 0).flatten(0, 1)


SLOW = [
    Mutation("T1 convolution taps flipped", "slow", tensors(r"slow\.\d+\.mamba\.conv\.weight", lambda t: t.flip(-1))),
    Mutation(
        "T2 embedding multiplier on the text table only",
        "slow",
        tensors(r"codebook_embeddings\.weight", lambda t: t / 0.37),
    ),
    Mutation("T3 embedding multiplier missing", "slow", multiplier(embedding=one)),
    Mutation("T3 embedding multiplier twice", "slow", multiplier(embedding=lambda m: m * m)),
    Mutation("T4 head multiplier applied", "slow", tensors(r"semantic_output\.weight", lambda t: t * 0.078125)),
    Mutation("T5 softplus twice", "slow", patch=double_softplus),
    Mutation("T6 step clamped", "slow", tweak=clamp_steps),
    Mutation("T7 D skip missing", "slow", tensors(r"slow\.\d+\.mamba\.D", torch.zeros_like)),
    Mutation("T7 gate missing", "slow", tweak=without_gate),
    Mutation("T7 norm added", "slow", tweak=with_norm),
    Mutation(
        "T8 B and C swapped",
        "slow",
        exchange(lambda c: (2 * inner_of(c), c.ssm_state), lambda c: (2 * inner_of(c) + c.ssm_state, c.ssm_state)),
    ),
    Mutation("T8 z and x swapped", "slow", exchange(lambda c: (0, inner_of(c)), lambda c: (inner_of(c), inner_of(c)))),
    Mutation("T9 K/V stride", "slow", tweak=append_with_wrong_stride),
    Mutation("T15 neighbours rotated in the slow AR", "slow", slow_pair_rotation),
    Mutation("T16 rotation base of the slow AR", "slow", slow_config(rope_base=1e4)),
    Mutation("T17 KV head j mod n in the slow AR", "slow", slow_modulo_heads),
    Mutation("T18 gate and up swapped in the slow AR", "slow", swapped(r"slow\.\d+\.ffn\.gate\.weight", "gate|up")),
    Mutation("T19 codebook sum scaled", "slow", tensors(r"codebook_embeddings\.weight", lambda t: t / 2)),
    Mutation("T22 codes clamped before feeding back", "slow", tensors(r"codebook_embeddings\.weight", clamp_rows)),
    Mutation("A not negated", "slow", tensors(r"slow\.\d+\.mamba\.A_log", lambda t: t + 0.5)),
    Mutation("convolution bias missing", "slow", tensors(r"slow\.\d+\.mamba\.conv\.bias", torch.zeros_like)),
    Mutation("codebook offsets shifted", "slow", tensors(r"codebook_embeddings\.weight", shift_books)),
    Mutation("norms swapped", "slow", swapped(r"slow\.\d+\.input_norm\.weight", "input_norm|ffn_norm")),
    Mutation("norm epsilon", "slow", slow_config(norm_eps=1e-6)),
    Mutation("attention_in missing", "slow", multiplier(attention_in=one)),
    Mutation("attention_out missing", "slow", multiplier(attention_out=one)),
    Mutation("key multiplier missing", "slow", multiplier(key=one)),
    Mutation("ssm_in missing", "slow", multiplier(ssm_in=one)),
    Mutation("ssm_out missing", "slow", multiplier(ssm_out=one)),
    Mutation("mlp gate multiplier missing", "slow", multiplier(mlp_gate=one)),
    Mutation("mlp down multiplier missing", "slow", multiplier(mlp_down=one)),
    *(Mutation(f"ssm multiplier {i} missing", "slow", multiplier(ssm=segment_to_one(i))) for i in range(5)),
]
FAST = [
    Mutation("T15 halves rotated in the fast AR", "fast", stack_half_rotation("fast")),
    Mutation("T16 rotation base of the fast AR", "fast", fast_config(rope_base=1e4)),
    Mutation("T17 KV head j mod n in the fast AR", "fast", stack_modulo_heads("fast")),
    Mutation("T18 gate and up swapped in the fast AR", "fast", swapped(r"fast\.\d+\.ffn\.gate\.weight", "gate|up")),
    Mutation("T25 f32 rotation table in the fast AR", "fast", fast_config(rope_bf16=False)),
    Mutation("norm epsilon in the fast AR", "fast", fast_config(norm_eps=1e-3)),
]
CODEC = [
    Mutation("T15 halves rotated in the codec", "codec", stack_half_rotation(r"codec\.post")),
    Mutation("T16 rotation base of the codec", "codec", post_config(rope_base=1e5)),
    Mutation("T17 KV head j mod n in the codec", "codec", stack_modulo_heads(r"codec\.post")),
    Mutation(
        "T18 gate and up swapped in the codec", "codec", swapped(r"codec\.post\.\d+\.ffn\.gate\.weight", "gate|up")
    ),
    Mutation("T24 tanh GELU", "codec", patch=tanh_gelu),
    Mutation("T25 f32 rotation table in the codec", "codec", post_config(rope_bf16=False)),
    Mutation("window one longer", "codec", codec_config(window=9)),
    Mutation("window one shorter", "codec", codec_config(window=7)),
    Mutation("dilations", "codec", codec_config(dilations=(1, 3, 7))),
    Mutation("LayerScale missing", "codec", tensors(r"codec\.post\.\d+\.attn_scale", torch.ones_like)),
    Mutation("ConvNeXt scale missing", "codec", tensors(r"codec\.up\.\d+\.scale", torch.ones_like)),
    Mutation("depthwise taps flipped", "codec", tensors(r"codec\.up\.\d+\.dw\.weight", lambda t: t.flip(-1))),
    Mutation("convolution taps flipped", "codec", tensors(r"codec\.dec\..*conv1\.weight", lambda t: t.flip(-1))),
    Mutation("transposed taps flipped", "codec", tensors(r"codec\.dec\.\d+\.up\.weight", lambda t: t.flip(-1))),
    Mutation("future samples of transposed convolutions", "codec", patch=trimmed_on_the_left),
    Mutation("convolutions not causal", "codec", patch=centred_convolutions),
    Mutation("snake parameters exponentiated", "codec", tensors(r"codec\.dec\..*snake\d?", torch.exp)),
    Mutation("VQ bias missing", "codec", tensors(r"codec\.vq\.\d+\.out\.bias", torch.zeros_like)),
]

Checks = list[tuple[str, float, float]]


@dataclass(frozen=True)
class Recorded:
    """What the engine computed: a prompt, then frames fed back, and one waveform."""

    prompt: Tensor
    columns: Tensor  # of the frames fed back
    layers: list[Tensor]
    hidden: list[Tensor]
    logits: list[Tensor]
    ssm: list[Tensor]
    fast: Tensor
    frame: list[int]
    codes: Tensor
    samples: Tensor


@pytest.fixture(scope="module")
def pair(models: Models) -> Pair:
    return models["multipliers"]


@pytest.fixture(scope="module")
def recorded(pair: Pair) -> Recorded:
    config = pair.reference.config
    prompt = pair.prompt(40)
    hidden, logits = [], []
    with pair.native.session(prompt, max_frames=FRAMES) as session:
        for i in range(FRAMES):
            pair.native.step(session)
            if i == 0:
                layers = [session.state(LAYER, layer) for layer in range(config.slow.layers)]
                fast = session.state(FAST_LOGITS).reshape(len(config.codebook_sizes) - 1, -1)
            hidden.append(session.state(HIDDEN))
            logits.append(session.state(LOGITS))
        shape = (config.slow.ssm_heads, config.slow.ssm_head_dim, config.slow.ssm_state)
        ssm = [session.state(SSM, layer, shape) for layer in range(config.slow.layers)]
        frames = torch.from_numpy(session.codes()).long()
    columns = torch.cat([frames[:, :1] + config.semantic_begin, frames], 1).T[:, :-1]
    generator = torch.Generator().manual_seed(5)
    codes = torch.randint(0, 32, (len(config.codebook_sizes), 30), generator=generator)
    samples = torch.from_numpy(pair.native.decode(codes))
    return Recorded(prompt, columns, layers, hidden, logits, ssm, fast, frames[0].tolist(), codes, samples)


def slow_checks(recorded: Recorded, reference: SlowReference, columns: Tensor) -> Checks:
    first = reference.run(recorded.prompt)
    then = reference.run(columns)
    checks = []
    for i, (actual, expected) in enumerate(zip(recorded.layers, first.layers, strict=True)):
        checks.append((f"layer {i}", error(actual, expected[-1]), tolerances.LAYER * (i + 1)))
    expected_hidden = torch.cat([first.hidden[-1:], then.hidden])
    expected_logits = torch.cat([first.logits[-1:], then.logits])
    checks.append(("hidden", error(torch.stack(recorded.hidden), expected_hidden), tolerances.HIDDEN))
    checks.append(("logits", error(torch.stack(recorded.logits), expected_logits), tolerances.LOGITS))
    for i, actual in enumerate(recorded.ssm):
        checks.append((f"ssm {i}", error(actual, reference.state(i).ssm), tolerances.STATE * len(recorded.ssm)))
    return checks


def checks_of(recorded: Recorded, pair: Pair, mutation: Mutation) -> Checks:
    weights = mutation.edit(pair.reference.weights)
    with mutation.patch():
        if mutation.stage == "slow":
            reference = SlowReference(weights)
            mutation.tweak(reference)
            return slow_checks(recorded, reference, recorded.columns)
        if mutation.stage == "fast":
            expected = fast_logits(weights, recorded.hidden[0], recorded.frame[:-1])
            return [("fast logits", error(recorded.fast, expected), tolerances.LOGITS)]
        return codec_checks(recorded, weights, recorded.codes)


def codec_checks(recorded: Recorded, weights: Weights, codes: Tensor) -> Checks:
    return [("samples", error(recorded.samples, decode(weights, codes).samples), tolerances.SAMPLES)]


def assert_caught(checks: Checks) -> None:
    assert any(value > limit for _, value, limit in checks), checks


def assert_kept(checks: Checks) -> None:
    assert all(value < limit for _, value, limit in checks), checks


@pytest.mark.parametrize("stage", ["slow", "fast", "codec"])
def test_right_reference_agrees(recorded: Recorded, pair: Pair, stage: str) -> None:
    """Without a mistake every limit is kept: what follows is not noise."""
    assert_kept(checks_of(recorded, pair, Mutation("none", stage)))  # type: ignore[arg-type]


@pytest.mark.parametrize("mutation", SLOW + FAST + CODEC, ids=lambda m: m.name)
def test_mistake_is_caught(recorded: Recorded, pair: Pair, mutation: Mutation) -> None:
    """Catches a parity suite that is blind to the mistake."""
    assert_caught(checks_of(recorded, pair, mutation))


def test_weight_norm_axis_is_caught(recorded: Recorded, pair: Pair) -> None:
    """T20: transposed convolutions folded per output channel."""
    weights = from_checkpoint(pair.checkpoint, transposed_norm_axis=1)
    assert_caught(codec_checks(recorded, weights, recorded.codes))


def test_layer_norm_epsilon_is_caught(pair: Pair, tmp_path: Path) -> None:
    """T23: the RMS norms' 1e-5 used in the LayerNorm of ConvNeXt. Ordinary inputs hide it, so here they are small."""
    path = tmp_path / "small.gguf"
    shutil.copy(pair.model_file, path)
    for tensor in ModelFileReader(path, "r+").tensors:
        if ".dw." in tensor.name:
            tensor.data[:] *= 0.002
    weights, native = from_gguf(path), Native(path)
    codes = torch.arange(4 * 6).reshape(4, 6) % 16
    samples = torch.from_numpy(native.decode(codes))
    native.close()
    wrong = codec_config(layer_norm_eps=1e-5)(weights)
    assert error(samples, decode(weights, codes).samples) < tolerances.SAMPLES
    assert error(samples, decode(wrong, codes).samples) > tolerances.SAMPLES


def test_wrapped_codes_are_caught(recorded: Recorded, pair: Pair) -> None:
    """T22: codes beyond a residual codebook wrapped instead of clamped."""
    sizes = torch.tensor(pair.reference.config.codec.codebook_sizes)[:, None]
    assert bool((recorded.codes >= sizes).any())
    assert_caught(codec_checks(recorded, pair.reference.weights, recorded.codes % sizes))


def test_clamped_fast_codes_are_caught(recorded: Recorded, pair: Pair) -> None:
    """T22: residual codes clamped to the codec's 16 before the fast AR reads them."""
    clamped = [recorded.frame[0], *(min(code, 15) for code in recorded.frame[1:-1])]
    assert clamped != recorded.frame[:-1]
    expected = fast_logits(pair.reference.weights, recorded.hidden[0], clamped)
    assert_caught([("fast logits", error(recorded.fast, expected), tolerances.LOGITS)])


def test_restarted_window_is_caught(recorded: Recorded, pair: Pair) -> None:
    """T26: the codec restarted in the middle of a stream."""
    parts = [decode(pair.reference.weights, part).samples for part in torch.split(recorded.codes, 15, 1)]
    assert_caught([("samples", error(recorded.samples, torch.cat(parts)), tolerances.SAMPLES)])


def test_compact_ids_are_caught(recorded: Recorded, pair: Pair) -> None:
    """T29: semantic codes fed back by their index in the head, not by their id in the vocabulary."""
    columns = recorded.columns.clone()
    columns[0] -= pair.reference.config.semantic_begin
    assert_caught(slow_checks(recorded, SlowReference(pair.reference.weights), columns))


def test_state_before_the_norm_is_caught(recorded: Recorded, pair: Pair) -> None:
    """T37: the fast AR fed with the slow state before its final norm."""
    expected = fast_logits(pair.reference.weights, recorded.layers[-1], recorded.frame[:-1])
    assert_caught([("fast logits", error(recorded.fast, expected), tolerances.LOGITS)])
