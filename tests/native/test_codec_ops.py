"""The codec's operations on their own, against torch in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from kestrel.engine.errors import EngineError
from tests.native.op_call import Floats, run_op

THREADS = (1, 2, 3)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Floats:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def wide(array: NDArray[np.floating]) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array)).double()


def worst(actual: Floats, expected: torch.Tensor) -> float:
    assert actual.shape == tuple(expected.shape)
    assert np.isfinite(actual).all()
    return float((wide(actual) - expected).abs().max())


def rounding(expected: torch.Tensor, steps: int) -> float:
    """What a chain of `steps` float32 multiply-adds may lose: the roundings add up like a random walk."""
    return 2.0**-24 * (4 + math.sqrt(steps)) * float(expected.abs().max())


def causal_conv(x: Floats, weight: NDArray[np.floating], bias: Floats, dilation: int) -> torch.Tensor:
    """x [T, in], weight [out, in, k] -> [T, out]."""
    padded = F.pad(wide(x).T[None], ((weight.shape[2] - 1) * dilation, 0))
    return F.conv1d(padded, wide(weight), wide(bias), dilation=dilation)[0].T


def causal_conv_transpose(x: Floats, weight: NDArray[np.floating], bias: Floats, stride: int) -> torch.Tensor:
    """x [T, in], weight [in, out, k] -> [T * stride, out]."""
    full = F.conv_transpose1d(wide(x).T[None], wide(weight), wide(bias), stride=stride)
    return full[0, :, : len(x) * stride].T


# in, out, kernel, dilation: channels on, below and above the register tile of every target (4 to 32), one output
# channel (the tail), and a chain of multiply-adds long enough to be split into blocks.
CONVS = [
    (16, 16, 7, 1),
    (5, 7, 7, 3),
    (33, 50, 7, 9),
    (96, 33, 2, 1),
    (3, 96, 1, 1),
    (20, 1, 7, 1),
    (9, 2, 7, 3),
    (1, 3, 2, 9),
    (400, 18, 7, 1),
]


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "dilation"), CONVS)
def test_conv1d(inputs: int, outputs: int, kernel: int, dilation: int) -> None:
    """Catches a wrong tap order, padding, tile edge or thread split. Random kernels are asymmetric, so a reversed one
    shows; frames from 1 to 50 meet every remainder of the register tile."""
    scale = 1 / math.sqrt(inputs * kernel)
    weight, bias = normal(outputs, inputs, kernel, scale=scale), normal(outputs, seed=1)
    x = normal(50, inputs, seed=2)
    for frames in (*range(1, 20), 31, 50):
        expected = causal_conv(x[:frames], weight, bias, dilation)
        shape = (frames, outputs)
        result = run_op("conv1d", [x[:frames], weight, bias], shape, [dilation])
        assert worst(result, expected) < rounding(expected, inputs * kernel)
        if frames in (1, 7, 50):
            for n in THREADS[1:]:
                other = run_op("conv1d", [x[:frames], weight, bias], shape, [dilation], threads=n)
                assert other.tobytes() == result.tobytes()


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "dilation"), CONVS)
def test_conv1d_in_chunks(inputs: int, outputs: int, kernel: int, dilation: int) -> None:
    """Catches a sum whose order depends on the chunk: with the history handed over, any split gives the same bytes."""
    weight, bias, x = normal(outputs, inputs, kernel), normal(outputs, seed=1), normal(40, inputs, seed=2)
    left = (kernel - 1) * dilation
    padded = np.concatenate([np.zeros((left, inputs), np.float32), x])
    whole = run_op("conv1d", [x, weight, bias], (40, outputs), [dilation])
    for begin, size in ((0, 40), (0, 1), (1, 1), (2, 3), (5, 7), (12, 28)):
        chunk = [x[begin : begin + size], weight, bias]
        if left:
            chunk.append(padded[begin : begin + left])
        part = run_op("conv1d", chunk, (size, outputs), [dilation])
        assert part.tobytes() == whole[begin : begin + size].tobytes()


def test_conv1d_over_several_time_tiles() -> None:
    """Catches a tile that forgets the columns before it: long inputs are packed piece by piece."""
    weight, bias, x = normal(20, 96, 7, scale=0.04), normal(20, seed=1), normal(1500, 96, seed=2)
    for dilation in (1, 9):
        expected = causal_conv(x, weight, bias, dilation)
        results = [run_op("conv1d", [x, weight, bias], (1500, 20), [dilation], threads=n) for n in THREADS]
        assert worst(results[0], expected) < rounding(expected, 96 * 7)
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "dilation"), CONVS)
def test_conv1d_half_weights(inputs: int, outputs: int, kernel: int, dilation: int) -> None:
    """Catches a wrong conversion of f16 panels: they must give the bytes of the same values stored as f32."""
    half = normal(outputs, inputs, kernel, scale=0.1).astype(np.float16)
    bias, x, shape = normal(outputs, seed=1), normal(17, inputs, seed=2), (17, outputs)
    single = run_op("conv1d", [x, half.astype(np.float32), bias], shape, [dilation])
    assert run_op("conv1d", [x, half, bias], shape, [dilation]).tobytes() == single.tobytes()


@pytest.mark.parametrize("stride", [2, 4, 5, 8])
@pytest.mark.parametrize("taps", [1, 2, 3])
@pytest.mark.parametrize(("inputs", "outputs"), [(12, 7), (7, 12), (40, 16)])
def test_conv_transpose1d(inputs: int, outputs: int, stride: int, taps: int) -> None:
    """Catches input and output channels swapped, phases or taps in the wrong order, and the wrong end trimmed."""
    weight = normal(inputs, outputs, taps * stride, scale=1 / math.sqrt(inputs * taps))
    bias, x = normal(outputs, seed=1), normal(13, inputs, seed=2)
    for frames in (1, 2, 13):
        expected = causal_conv_transpose(x[:frames], weight, bias, stride)
        for plain in (False, True):
            arrays, shape = [x[:frames], weight, bias], (frames * stride, outputs)
            result = run_op("conv_transpose1d", arrays, shape, [stride], plain=plain)
            assert worst(result, expected) < rounding(expected, inputs * taps)
    whole = run_op("conv_transpose1d", [x, weight, bias], (13 * stride, outputs), [stride])
    arrays = [x[5:], weight, bias] + ([x[5 - taps + 1 : 5]] if taps > 1 else [])
    part = run_op("conv_transpose1d", arrays, (8 * stride, outputs), [stride], threads=2)
    assert part.tobytes() == whole[5 * stride :].tobytes()


@pytest.mark.parametrize("channels", [1, 7, 64, 250])
@pytest.mark.parametrize("kernel", [1, 2, 7])
def test_depthwise(channels: int, kernel: int) -> None:
    """Catches a reversed kernel, channels mixed up, a wrong left edge, and sums that depend on the chunk."""
    weight, bias, x = normal(channels, kernel), normal(channels, seed=1), normal(21, channels, seed=2)
    padded = F.pad(wide(x).T[None], (kernel - 1, 0))
    expected = F.conv1d(padded, wide(weight)[:, None], wide(bias), groups=channels)[0].T
    results = [run_op("depthwise", [x, weight, bias], (21, channels), threads=n) for n in THREADS]
    assert worst(results[0], expected) < 4e-6
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    assert worst(run_op("depthwise", [x, weight, bias], (21, channels), plain=True), expected) < 4e-6
    history = [x[8 - kernel + 1 : 8]] if kernel > 1 else []
    part = run_op("depthwise", [x[8:], weight, bias, *history], (13, channels))
    assert part.tobytes() == results[0][8:].tobytes()


def test_snake() -> None:
    """Catches a range reduction or polynomial that loses accuracy: sin^2 within 2e-6 for arguments up to 8000."""
    channels = 67
    alpha = np.geomspace(0.05, 20, channels, dtype=np.float32)
    x = np.concatenate([np.linspace(-400, 400, 1201), np.linspace(-4, 4, 800)]).astype(np.float32)
    x = np.repeat(x[:, None], channels, axis=1)
    argument = wide(alpha * x)  # rounded to float32 as the operation rounds it
    exact = wide(x) + argument.sin().square() / (wide(alpha) + 1e-9)
    results = [run_op("snake", [x, alpha], x.shape, threads=n) for n in THREADS]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    # The sine's error is divided by alpha; the rest is the rounding of the result itself.
    limit = 2e-6 / wide(alpha) + exact.abs() * 2.0**-23
    for result in (results[0], run_op("snake", [x, alpha], x.shape, plain=True)):
        assert bool(((wide(result) - exact).abs() < limit).all())


def test_snake_stays_finite_far_out() -> None:
    """Catches a polynomial that runs away where the range reduction has no digits left."""
    x = np.array([[1e5, -1e7, 3e12, -1e30, 0.0]], np.float32).T
    result = run_op("snake", [x, np.ones(1, np.float32)], x.shape)
    assert np.isfinite(result).all()
    assert (np.abs(result - x) <= 1 + np.abs(x) * 2.0**-23).all()


@pytest.mark.parametrize("channels", [5, 64, 257])
def test_norms(channels: int) -> None:
    """Catches a missing weight or eps, and rows that depend on how many frames run together."""
    x, weight, bias = normal(9, channels, scale=3) + 1, normal(channels, seed=1), normal(channels, seed=2)
    for eps in (1e-6, 0.5):
        rms = F.rms_norm(wide(x), (channels,), wide(weight), eps)
        layer = F.layer_norm(wide(x), (channels,), wide(weight), wide(bias), eps)
        for name, expected, rest in (("rms_norm", rms, [weight]), ("layer_norm", layer, [weight, bias])):
            arrays = [*rest, np.array([eps], np.float32)]
            whole = run_op(name, [x, *arrays], x.shape)
            assert worst(whole, expected) < 5e-6
            assert run_op(name, [x[4:5], *arrays], (1, channels), threads=2).tobytes() == whole[4:5].tobytes()


def rotated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """x [T, heads, head_dim], table [T, head_dim] of cos, sin a pair."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    turn = torch.view_as_complex(table.reshape(len(table), -1, 2))
    return torch.view_as_real(pairs * turn[:, None]).flatten(-2)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim", "window"), [(4, 2, 8, 5), (3, 1, 6, 16), (2, 2, 64, 1)])
@pytest.mark.parametrize("plain", [False, True])
def test_window_attention(heads: int, kv_heads: int, head_dim: int, window: int, plain: bool) -> None:
    """Catches a window off by one, zero keys before the start, the wrong key head or rotation, and (own kernel) sums
    that depend on the chunk."""
    frames, q_width, kv_width = 23, heads * head_dim, kv_heads * head_dim
    qkv = normal(frames, q_width + 2 * kv_width)
    angles = np.arange(100, 100 + frames)[:, None] * 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim)
    table = np.stack([np.cos(angles), np.sin(angles)], -1).reshape(frames, head_dim).astype(np.float32)

    q, k, v = torch.split(wide(qkv), [q_width, kv_width, kv_width], 1)
    q = rotated(q.reshape(frames, heads, head_dim), wide(table)).transpose(0, 1)
    keys = rotated(k.reshape(frames, kv_heads, head_dim), wide(table))
    k, v = (t.transpose(0, 1).repeat_interleave(heads // kv_heads, 0) for t in (keys, v.reshape(keys.shape)))
    seen = torch.ones(frames, frames, dtype=torch.bool).tril().triu(1 - window)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(0, 1).flatten(1)

    options = [heads, kv_heads, head_dim, window]
    wholes = [
        run_op("window_attention", [qkv, table], (frames, q_width), options, plain=plain, threads=n) for n in (1, 3)
    ]
    assert worst(wholes[0], expected) < 2e-6
    stored = np.concatenate([keys.flatten(1).float().numpy(), qkv[:, q_width + kv_width :]], 1)
    for begin, end in itertools.pairwise((0, 1, 4, 5, 20, 23)):
        history = [stored[max(0, begin - window + 1) : begin]]
        arrays = [qkv[begin:end], table[begin:end], *(h for h in history if len(h))]
        part = run_op("window_attention", arrays, (end - begin, q_width), options, plain=plain)
        assert worst(part, expected[begin:end]) < 2e-6
    if not plain:
        assert wholes[0].tobytes() == wholes[1].tobytes()


def test_plain_conv_agrees() -> None:
    """Catches a plain twin that reads the wrong column or tap: it is what a GPU runs."""
    for inputs, outputs, kernel, dilation in CONVS:
        weight, bias = normal(outputs, inputs, kernel, scale=1 / math.sqrt(inputs * kernel)), normal(outputs, seed=1)
        x = normal(23, inputs, seed=2)
        plain = run_op("conv1d", [x, weight, bias], (23, outputs), [dilation], plain=True)
        expected = causal_conv(x, weight, bias, dilation)
        assert worst(plain, expected) < rounding(expected, inputs * kernel)


def test_bad_calls_are_refused() -> None:
    """Catches a shape that reaches a kernel unchecked, and a refusal that does not say what is valid."""
    x, weight, bias = normal(3, 4), normal(5, 4, 7), normal(5)
    with pytest.raises(EngineError, match=r"'convolve' is unknown; valid: .*conv1d"):
        run_op("convolve", [x], (1,))
    with pytest.raises(EngineError, match=r"x must have shape \[any, 4\]"):
        run_op("conv1d", [normal(3, 5), weight, bias], (3, 5), [1])
    with pytest.raises(EngineError, match=r"history must have shape \[18, 4\]"):
        run_op("conv1d", [x, weight, bias, normal(17, 4)], (3, 5), [3])
    with pytest.raises(EngineError, match="takes 1 options"):
        run_op("conv1d", [x, weight, bias], (3, 5))
    with pytest.raises(EngineError, match="takes 3 to 4 inputs"):
        run_op("conv1d", [x, weight], (3, 5), [1])
    with pytest.raises(EngineError, match="15 elements, out holds 14"):
        run_op("conv1d", [x, weight, bias], (14,), [1])
    with pytest.raises(EngineError, match="multiple of the stride"):
        run_op("conv_transpose1d", [x, normal(4, 5, 7), bias], (9, 5), [3])
    with pytest.raises(EngineError, match="must be f32"):
        run_op("snake", [x.astype(np.float16), normal(4)], (3, 4))
