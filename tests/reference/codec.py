"""Codec decoder: codes to samples, the whole sequence at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .blocks import block, causal_mask, rms_norm, rope_table
from .weights import Weights


@dataclass(frozen=True)
class CodecOutput:
    """latent and post [T, dim], upsampled [T * upsampling, dim], samples [T * frame_size]."""

    latent: Tensor
    post: Tensor
    upsampled: Tensor
    samples: Tensor


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor, dilation: int = 1, groups: int = 1) -> Tensor:
    """x [channels, T]; left padding only."""
    padded = functional.pad(x, ((weight.shape[-1] - 1) * dilation, 0))
    return functional.conv1d(padded[None], weight, bias, dilation=dilation, groups=groups)[0]


def causal_transposed(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """x [in, T] -> [out, T * stride]: the last kernel - stride samples belong to the future."""
    return functional.conv_transpose1d(x[None], weight, bias, stride=stride)[0, :, : x.shape[1] * stride]


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    a = alpha[:, None]
    return x + (a * x).sin().square() / (a + 1e-9)


def convnext(x: Tensor, w: Mapping[str, Tensor], name: str, eps: float) -> Tensor:
    """x [dim, T]."""
    y = causal_conv(x, w[f"{name}.dw.weight"][:, None], w[f"{name}.dw.bias"], groups=x.shape[0]).T
    y = functional.layer_norm(y, y.shape[-1:], w[f"{name}.norm.weight"], w[f"{name}.norm.bias"], eps)
    y = functional.gelu(functional.linear(y, w[f"{name}.pw1.weight"], w[f"{name}.pw1.bias"]))
    y = functional.linear(y, w[f"{name}.pw2.weight"], w[f"{name}.pw2.bias"])
    return x + (y * w[f"{name}.scale"]).T


def residual_unit(x: Tensor, w: Mapping[str, Tensor], name: str, dilation: int) -> Tensor:
    y = causal_conv(snake(x, w[f"{name}.snake1"]), w[f"{name}.conv1.weight"], w[f"{name}.conv1.bias"], dilation)
    return x + causal_conv(snake(y, w[f"{name}.snake2"]), w[f"{name}.conv2.weight"], w[f"{name}.conv2.bias"])


@torch.no_grad()
def decode(weights: Weights, codes: Tensor) -> CodecOutput:
    """codes [codebooks, T]; each is clamped into its codebook."""
    w, c = weights.tensors, weights.config.codec
    length = codes.shape[1]
    latent = torch.zeros(length, c.dim)
    for q, size in enumerate(c.codebook_sizes):
        rows = w[f"codec.vq.{q}.codebook"][codes[q].long().clamp(0, size - 1)]
        latent = latent + functional.linear(rows, w[f"codec.vq.{q}.out.weight"], w[f"codec.vq.{q}.out.bias"])
    x, mask = latent, causal_mask(length, c.window)
    table = rope_table(length, c.post.head_dim, c.post.rope_base, c.post.rope_bf16)
    for i in range(c.post.layers):
        x = block(x, w, f"codec.post.{i}", c.post, mask, table)
    post = rms_norm(x, w["codec.post.norm.weight"], c.post.norm_eps)
    x = post.T
    for i, stride in enumerate(c.upsample):
        x = causal_transposed(x, w[f"codec.up.{i}.conv.weight"], w[f"codec.up.{i}.conv.bias"], stride)
        x = convnext(x, w, f"codec.up.{i}", c.layer_norm_eps)
    upsampled = x.T
    x = causal_conv(x, w["codec.dec.stem.weight"], w["codec.dec.stem.bias"])
    for i, stride in enumerate(c.strides):
        name = f"codec.dec.{i}"
        x = causal_transposed(snake(x, w[f"{name}.snake"]), w[f"{name}.up.weight"], w[f"{name}.up.bias"], stride)
        for r, dilation in enumerate(c.dilations):
            x = residual_unit(x, w, f"{name}.res.{r}", dilation)
    x = causal_conv(snake(x, w["codec.dec.tail.snake"]), w["codec.dec.tail.weight"], w["codec.dec.tail.bias"])
    return CodecOutput(latent, post, upsampled, x[0].tanh())
