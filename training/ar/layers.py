"""Building blocks of the dual AR in plain PyTorch. Parameter names are those of the checkpoint layout.

Slow blocks follow Falcon-H1 (attention and Mamba-2 side by side, NEOX rotary embedding, no multipliers); fast
blocks follow the published fast AR (fused qkv, interleaved rotary embedding). Mamba-2 is computed in its
quadratic form, which for utterances of about 100 positions is faster than a chunked scan.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NORM_EPS = 1e-5
ROPE_BASE = 10000.0
MASKED = -1e9
"""Score of a future position; finite, so that a masked gradient stays finite."""


class RmsNorm(nn.Module):
    """Root-mean-square norm over the last axis."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, NORM_EPS)


def rope_angles(positions: int, head_dim: int, device: torch.device) -> Tensor:
    """Rotation angles [positions, head_dim / 2]."""
    inverse = ROPE_BASE ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    return torch.arange(positions, device=device, dtype=torch.float32)[:, None] * inverse


def rotate_neox(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel i with channel i + d/2; x [..., positions, d]."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate_interleaved(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel 2i with channel 2i + 1; x [..., positions, d]."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


class Attention(nn.Module):
    """Causal grouped-query attention with NEOX rotary embedding."""

    def __init__(self, dim: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q_proj = nn.Linear(dim, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, dim] -> output [B, T, dim], and masked attention scores of head 0 [B, T, T] before softmax."""
        batch, length, _ = x.shape
        group = self.heads // self.kv_heads
        q = rotate_neox(self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2), angles)
        k = rotate_neox(self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2), angles)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        # Heads that share a key are stacked along the query axis: [B, KV, group * T, d].
        stacked = q.reshape(batch, self.kv_heads, group * length, self.head_dim)
        scores = (stacked @ k.transpose(2, 3)).float().view(batch, self.heads, length, length) * self.head_dim**-0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, MASKED)  # [B, H, T, T]
        weights = torch.softmax(scores, -1).view(batch, self.kv_heads, group * length, length)
        y = (weights @ v).view(batch, self.heads, length, self.head_dim)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1)), scores[:, 0]


class Mamba(nn.Module):
    """Mamba-2 mixer, one group, no gated norm, quadratic form."""

    def __init__(self, dim: int, inner: int, heads: int, state: int, kernel: int) -> None:
        super().__init__()
        self.inner, self.heads, self.state, self.kernel = inner, heads, state, kernel
        channels = inner + 2 * state
        self.in_proj = nn.Linear(dim, inner + channels + heads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, kernel, groups=channels)
        step = torch.exp(torch.rand(heads) * (math.log(0.3) - math.log(0.005)) + math.log(0.005))
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus(dt_bias) = step
        self.A_log = nn.Parameter(torch.log(torch.linspace(0.5, 8, heads)))
        self.D = nn.Parameter(torch.ones(heads))
        self.out_proj = nn.Linear(inner, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, dim] -> [B, T, dim]."""
        batch, length, _ = x.shape
        z, xbc, dt = torch.split(self.in_proj(x), [self.inner, self.inner + 2 * self.state, self.heads], -1)
        xbc = F.silu(self.conv1d(F.pad(xbc.transpose(1, 2), (self.kernel - 1, 0)))).transpose(1, 2)
        u, b, c = torch.split(xbc, [self.inner, self.state, self.state], -1)
        u = u.view(batch, length, self.heads, -1)  # [B, T, H, P]
        dt = F.softplus(dt + self.dt_bias)  # [B, T, H]
        decay = (dt * -torch.exp(self.A_log)).cumsum(1).transpose(1, 2)  # [B, H, T], never increasing
        # Future positions are masked before exp: there the difference is positive and would overflow.
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        reach = torch.exp((decay[..., :, None] - decay[..., None, :]).masked_fill(future, MASKED))  # [B, H, T, T]
        mix = (c @ b.transpose(1, 2))[:, None] * reach
        y = (mix @ (u * dt[..., None]).transpose(1, 2)).transpose(1, 2) + u * self.D[:, None]  # [B, T, H, P]
        out: Tensor = self.out_proj(y.reshape(batch, length, -1) * F.silu(z))
        return out


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class FastBlock(nn.Module):
    """Transformer block of the fast AR; its sequence is one frame, one position per codebook."""

    def __init__(self, dim: int, heads: int, kv_heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.attention_norm = RmsNorm(dim)
        self.wqkv = nn.Linear(dim, (heads + 2 * kv_heads) * head_dim, bias=False)
        self.wo = nn.Linear(heads * head_dim, dim, bias=False)
        self.ffn_norm = RmsNorm(dim)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """x [M, codebooks, dim] -> same shape."""
        frames, books, _ = x.shape
        widths = [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]
        q, k, v = (
            t.view(frames, books, -1, self.head_dim).transpose(1, 2)
            for t in torch.split(self.wqkv(self.attention_norm(x)), widths, -1)
        )
        group = self.heads // self.kv_heads
        q, k = rotate_interleaved(q, angles), rotate_interleaved(k, angles).repeat_interleave(group, 1)
        # Plain softmax: over four positions the fused kernel's set-up costs more than the mathematics.
        future = torch.full((books, books), MASKED, device=x.device).triu(1)
        weights = torch.softmax((q @ k.transpose(2, 3)) * self.head_dim**-0.5 + future, -1)
        y = weights @ v.repeat_interleave(group, 1)
        x = x + self.wo(y.transpose(1, 2).reshape(frames, books, -1))
        h = self.ffn_norm(x)
        out: Tensor = x + self.w2(F.silu(self.w1(h)) * self.w3(h))
        return out
