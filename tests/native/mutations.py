"""Porting mistakes, as changes to the reference: each is what an engine with that mistake would compute.

Most mistakes are equal to other weights or another configuration; the rest are small changes of behaviour. Numbers Tn
are those of the trap list in the model's description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional

from tests.reference import codec
from tests.reference.dims import Multipliers
from tests.reference.slow import SlowReference
from tests.reference.weights import SlowConfig, StackConfig, Weights

Stage = Literal["slow", "fast", "codec"]
Edit = Callable[[Weights], Weights]


def same(weights: Weights) -> Weights:
    return weights


@dataclass(frozen=True)
class Mutation:
    """`edit` changes weights or configuration, `tweak` the built slow reference, `patch` is active while it runs."""

    name: str
    stage: Stage
    edit: Edit = same
    tweak: Callable[[SlowReference], Any] = lambda reference: None
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext


def tensors(pattern: str, change: Callable[[Tensor], Tensor]) -> Edit:
    """Changes every tensor whose name matches."""

    def edit(weights: Weights) -> Weights:
        hits = {n: change(t).contiguous() for n, t in weights.tensors.items() if re.fullmatch(pattern, n)}
        assert hits, pattern
        return Weights(weights.config, weights.tensors | hits)

    return edit


def swapped(first: str, second: str) -> Edit:
    """Exchanges tensors: `first` is a pattern whose matches name their partner by replacing `second`'s two texts."""

    def edit(weights: Weights) -> Weights:
        a, b = second.split("|")
        hits = [n for n in weights.tensors if re.fullmatch(first, n)]
        assert hits, first
        new = {}
        for name in hits:
            partner = name.replace(a, b)
            new[name], new[partner] = weights.tensors[partner], weights.tensors[name]
        return Weights(weights.config, weights.tensors | new)

    return edit


def slow_config(**changes: Any) -> Edit:
    return lambda w: Weights(replace(w.config, slow=replace(w.config.slow, **changes)), w.tensors)


def fast_config(**changes: Any) -> Edit:
    return lambda w: Weights(replace(w.config, fast=replace(w.config.fast, **changes)), w.tensors)


def codec_config(**changes: Any) -> Edit:
    return lambda w: Weights(replace(w.config, codec=replace(w.config.codec, **changes)), w.tensors)


def post_config(**changes: Any) -> Edit:
    return lambda w: codec_config(post=replace(w.config.codec.post, **changes))(w)


def multiplier(**changes: Callable[[Any], Any]) -> Edit:
    def edit(w: Weights) -> Weights:
        m: Multipliers = w.config.slow.multipliers
        values: dict[str, Any] = {name: change(getattr(m, name)) for name, change in changes.items()}
        return slow_config(multipliers=replace(m, **values))(w)

    return edit


def reorder_heads(x: Tensor, axis: int, order: list[int], head_dim: int) -> Tensor:
    index = torch.cat([torch.arange(h * head_dim, (h + 1) * head_dim) for h in order])
    return x.index_select(axis, index)


def modulo_order(heads: int, kv_heads: int) -> list[int]:
    """Query heads sorted so that a right implementation gives head j the KV head j mod kv_heads."""
    return sorted(range(heads), key=lambda j: j % kv_heads)


def slow_modulo_heads(w: Weights) -> Weights:
    c: SlowConfig = w.config.slow
    order = modulo_order(c.heads, c.kv_heads)
    w = tensors(r"slow\.\d+\.attn\.q\.weight", lambda t: reorder_heads(t, 0, order, c.head_dim))(w)
    return tensors(r"slow\.\d+\.attn\.o\.weight", lambda t: reorder_heads(t, 1, order, c.head_dim))(w)


def stack_modulo_heads(prefix: str) -> Edit:
    def edit(w: Weights) -> Weights:
        c: StackConfig = w.config.fast if prefix == "fast" else w.config.codec.post
        order, width = modulo_order(c.heads, c.kv_heads), c.heads * c.head_dim

        def packed(t: Tensor) -> Tensor:
            return torch.cat([reorder_heads(t[:width], 0, order, c.head_dim), t[width:]])

        w = tensors(rf"{prefix}\.\d+\.attn\.qkv\.weight", packed)(w)
        return tensors(rf"{prefix}\.\d+\.attn\.o\.weight", lambda t: reorder_heads(t, 1, order, c.head_dim))(w)

    return edit


def to_halves(t: Tensor, head_dim: int) -> Tensor:
    """Rows of each head so that rotating halves turns the pairs that rotating neighbours would have turned."""
    index = torch.cat([torch.arange(0, head_dim, 2), torch.arange(1, head_dim, 2)])
    return t.reshape(-1, head_dim, t.shape[1])[:, index].flatten(0, 1)


def to_pairs(t: Tensor, head_dim: int) -> Tensor:
    index = torch.arange(head_dim).reshape(2, -1).T.flatten()
    return t.reshape(-1, head_dim, t.shape[1])[:, index].flatten(0, 1)


def slow_pair_rotation(w: Weights) -> Weights:
    return tensors(r"slow\.\d+\.attn\.[qk]\.weight", lambda t: to_halves(t, w.config.slow.head_dim))(w)


def stack_half_rotation(prefix: str) -> Edit:
    def edit(w: Weights) -> Weights:
        c: StackConfig = w.config.fast if prefix == "fast" else w.config.codec.post
        rows = (c.heads + c.kv_heads) * c.head_dim
        return tensors(
            rf"{prefix}\.\d+\.attn\.qkv\.weight", lambda t: torch.cat([to_pairs(t[:rows], c.head_dim), t[rows:]])
        )(w)

    return edit


def exchange(first: Callable[[SlowConfig], tuple[int, int]], second: Callable[[SlowConfig], tuple[int, int]]) -> Edit:
    """Exchanges two equally long segments of the in_proj output, convolution included where they pass through it.
    Segments are (offset, length) within z | x | B | C | dt."""

    def edit(w: Weights) -> Weights:
        c = w.config.slow
        (a, n), (b, m) = first(c), second(c)
        assert n == m
        inner = c.ssm_heads * c.ssm_head_dim

        def swap(base: int) -> Callable[[Tensor], Tensor]:
            def change(t: Tensor) -> Tensor:
                out = t.clone()
                out[a - base : a - base + n], out[b - base : b - base + n] = t[b - base :][:n], t[a - base :][:n]
                return out

            return change

        w = tensors(r"slow\.\d+\.mamba\.in_proj\.weight", swap(0))(w)
        return tensors(r"slow\.\d+\.mamba\.conv\.(weight|bias)", swap(inner))(w) if a >= inner else w

    return edit


def inner_of(c: SlowConfig) -> int:
    return c.ssm_heads * c.ssm_head_dim


def mixers(reference: SlowReference) -> list[Any]:
    """The Mamba-2 modules of all layers."""
    layers: Any = reference.model.layers
    return [layer.mamba for layer in layers]


def without_gate(reference: SlowReference) -> None:
    """Divides the gate out again before out_proj."""
    factor = reference.weights.config.slow.multipliers.ssm[0]
    for mixer in mixers(reference):
        ungate = Ungate(mixer.intermediate_size, factor)
        mixer.in_proj.register_forward_hook(ungate.keep)
        mixer.out_proj.register_forward_pre_hook(ungate.divide)


class Ungate:
    """Hooks around one mixer."""

    def __init__(self, width: int, factor: float) -> None:
        self._width, self._factor = width, factor

    def keep(self, _module: Any, _inputs: Any, projected: Tensor) -> None:
        self._gate = functional.silu(projected[..., : self._width] * self._factor)

    def divide(self, _module: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (inputs[0] / self._gate,)


def with_norm(reference: SlowReference) -> None:
    """Adds the RMS norm that other Mamba-2 models have before out_proj."""
    for mixer in mixers(reference):
        mixer.out_proj.register_forward_pre_hook(lambda _m, i: (functional.rms_norm(i[0], i[0].shape[-1:]),))


def clamp_steps(reference: SlowReference) -> None:
    for mixer in mixers(reference):
        mixer.time_step_limit = (0.001, 0.1)


def append_with_wrong_stride(reference: SlowReference) -> None:
    """Keeps K and V with a head stride of the current length, and appends without moving the other heads."""

    def update(key: Tensor, value: Tensor, layer: int, _kwargs: Any = None) -> tuple[Tensor, Tensor]:
        cache = reference.cache
        if len(cache.key_cache) <= layer:
            cache.key_cache.append(key)
            cache.value_cache.append(value)
        else:
            cache.key_cache[layer] = append(cache.key_cache[layer], key)
            cache.value_cache[layer] = append(cache.value_cache[layer], value)
        return cache.key_cache[layer], cache.value_cache[layer]

    def append(old: Tensor, fresh: Tensor) -> Tensor:
        _, heads, length, dim = old.shape
        flat = torch.zeros(heads * (length + 1), dim)
        flat[: heads * length] = old[0].reshape(-1, dim)
        grown = flat.reshape(1, heads, length + 1, dim)
        grown[:, :, -1:] = fresh
        return grown

    reference.cache.update = update


@contextmanager
def double_softplus() -> Iterator[None]:
    once = functional.softplus
    with mock.patch.object(functional, "softplus", lambda x: once(once(x))):
        yield


@contextmanager
def tanh_gelu() -> Iterator[None]:
    exact = functional.gelu
    with mock.patch.object(functional, "gelu", lambda x: exact(x, approximate="tanh")):
        yield


@contextmanager
def trimmed_on_the_left() -> Iterator[None]:
    def transposed(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
        return functional.conv_transpose1d(x[None], weight, bias, stride=stride)[0, :, weight.shape[2] - stride :]

    with mock.patch.object(codec, "causal_transposed", transposed):
        yield


@contextmanager
def centred_convolutions() -> Iterator[None]:
    def centred(x: Tensor, weight: Tensor, bias: Tensor, dilation: int = 1, groups: int = 1) -> Tensor:
        width = (weight.shape[-1] - 1) * dilation
        padded = functional.pad(x, (width // 2, width - width // 2))
        return functional.conv1d(padded[None], weight, bias, dilation=dilation, groups=groups)[0]

    with mock.patch.object(codec, "causal_conv", centred):
        yield
