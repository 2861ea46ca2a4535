"""The dual AR as it is trained: whole utterances, teacher forcing, supervised alignment heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from training.ar.config import ModelConfig
from training.ar.layers import Attention, FastBlock, FeedForward, Mamba, RmsNorm, rope_angles
from training.ar.vocabulary import TEXT_ROWS


class SlowBlock(nn.Module):
    """Falcon-H1 layer: norm, (attention + Mamba-2), norm, gated feed-forward."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(c.dim)
        self.self_attn = Attention(c.dim, c.heads, c.kv_heads, c.head_dim)
        self.mamba = Mamba(c.dim, c.ssm_inner, c.ssm_heads, c.ssm_state, c.ssm_conv)
        self.pre_ff_layernorm = RmsNorm(c.dim)
        self.feed_forward = FeedForward(c.dim, c.ffn)

    def forward(self, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, dim] -> output, and attention scores of head 0 [B, T, T]."""
        h = self.input_layernorm(x)
        attended, scores = self.self_attn(h, angles)
        x = x + attended + self.mamba(h)
        return x + self.feed_forward(self.pre_ff_layernorm(x)), scores


class DualAr(nn.Module):
    """Slow Falcon-H1 model over text and frames, fast transformer over the codes of one frame.

    Compact head rows: semantic codes, then EOS, then NEXT ("give me the next word").
    """

    starts: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        c = self.config = config
        semantic, residual = c.codebook_sizes[0], c.codebook_sizes[1]
        self.eos, self.next = semantic, semantic + 1
        self.text = nn.Embedding(TEXT_ROWS, c.dim)
        self.sem = nn.Embedding(semantic, c.dim)
        self.cb = nn.Embedding(sum(c.codebook_sizes), c.dim)
        self.layers = nn.ModuleList(SlowBlock(c) for _ in range(c.layers))
        self.norm = RmsNorm(c.dim)
        self.head = nn.Linear(c.dim, semantic + 2, bias=False)
        self.fe = nn.Embedding(semantic, c.dim)
        self.fl = nn.ModuleList(
            FastBlock(c.dim, c.fast_heads, c.fast_kv_heads, c.fast_head_dim, c.fast_ffn) for _ in range(c.fast_layers)
        )
        self.fnorm = RmsNorm(c.dim)
        self.fout = nn.Linear(c.dim, residual, bias=False)
        starts = torch.tensor([0, *c.codebook_sizes[:-1]]).cumsum(0)
        self.register_buffer("starts", starts, persistent=False)  # first row of each codebook in `cb`
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.7 / math.sqrt(module.weight.shape[1]))
        for table, std in ((self.text, 0.3), (self.sem, 0.2), (self.cb, 0.1), (self.fe, 0.3)):
            nn.init.normal_(table.weight, std=std)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """codes [..., codebooks] -> input embedding [..., dim]."""
        summed: Tensor = self.cb(codes + self.starts).sum(-2) + self.sem(codes[..., 0])
        return summed

    def slow(self, x: Tensor, rows: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """x [B, T, dim] -> normed hidden [B, T, dim] and, per aligned layer, log attention [R, T] of head 0.

        `rows` holds the (utterance, position) pairs, R each, whose attention is wanted.
        """
        angles = rope_angles(x.shape[1], self.config.head_dim, x.device)
        aligned = []
        for index, layer in enumerate(self.layers):
            x, scores = layer(x, angles)
            if index in self.config.aligned_layers:
                aligned.append(torch.log_softmax(scores[rows], -1))  # [R, T]
        return self.norm(x), aligned

    def fast(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """hidden [M, dim], codes [M, codebooks] -> logits of codebooks 1 and up, [M, codebooks - 1, residual]."""
        x = torch.cat([hidden[:, None], self.fe(codes[:, :-1])], 1)  # [M, codebooks, dim]
        angles = rope_angles(codes.shape[1], self.config.fast_head_dim, x.device)
        for layer in self.fl:
            x = layer(x, angles)
        logits: Tensor = self.fout(self.fnorm(x[:, 1:]))
        return logits

    def layer_matrices(self) -> list[nn.Parameter]:
        """The 2-D weights inside slow and fast blocks: those that Muon trains."""
        return [p for n, p in self.named_parameters() if p.ndim == 2 and n.startswith(("layers.", "fl."))]
