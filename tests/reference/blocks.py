"""Parts that the fast AR and the codec's window transformer share. All float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from .weights import StackConfig


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., dim]."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rope_table(positions: int, head_dim: int, base: float, bf16: bool) -> tuple[Tensor, Tensor]:
    """cos and sin [positions, head_dim / 2], computed in float32 as the published modules do, which keep them rounded
    to bfloat16: a table computed in double rounds a few entries the other way."""
    frequency = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.arange(positions).float()[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    if bf16:
        cos, sin = cos.bfloat16(), sin.bfloat16()
    return cos.float(), sin.float()


def rotate_pairs(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Interleaved rotation of x [T, heads, head_dim]: channels 2i and 2i + 1 turn together."""
    cos, sin = (t[: x.shape[0], None] for t in table)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def causal_mask(length: int, window: int | None = None) -> Tensor:
    """[T, T], true where query i sees key j: i - window < j <= i."""
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    return mask if window is None else mask & ~mask.tril(-window)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """q [T, heads, hd], k and v [T, kv_heads, hd] -> [T, heads * hd]. Query head j reads KV head j // group."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.einsum("hts,shd->thd", weights, v).flatten(1)


def block(
    x: Tensor, w: Mapping[str, Tensor], name: str, c: StackConfig, mask: Tensor, table: tuple[Tensor, Tensor]
) -> Tensor:
    """One pre-norm block on x [T, dim]; branches are scaled where the weights hold LayerScale vectors."""
    heads = [c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim]
    packed = rms_norm(x, w[f"{name}.attn_norm.weight"], c.norm_eps) @ w[f"{name}.attn.qkv.weight"].T
    q, k, v = (part.reshape(len(x), -1, c.head_dim) for part in torch.split(packed, heads, -1))
    mixed = attention(rotate_pairs(q, table), rotate_pairs(k, table), v, mask)
    x = x + mixed @ w[f"{name}.attn.o.weight"].T * w.get(f"{name}.attn_scale", torch.ones(()))
    g = rms_norm(x, w[f"{name}.ffn_norm.weight"], c.norm_eps)
    hidden = functional.silu(g @ w[f"{name}.ffn.gate.weight"].T) * (g @ w[f"{name}.ffn.up.weight"].T)
    return x + hidden @ w[f"{name}.ffn.down.weight"].T * w.get(f"{name}.ffn_scale", torch.ones(()))
