"""Slow AR: transformers' FalconH1Model, fed with composite embeddings, and the compact semantic head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import FalconH1Config, FalconH1Model
from transformers.models.falcon_h1.modeling_falcon_h1 import FalconHybridMambaAttentionDynamicCache

from .weights import Weights

HF_NAMES = {
    "input_norm": "input_layernorm",
    "mamba.in_proj": "mamba.in_proj",
    "mamba.out_proj": "mamba.out_proj",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.o_proj",
    "ffn_norm": "pre_ff_layernorm",
    "ffn.gate": "feed_forward.gate_proj",
    "ffn.up": "feed_forward.up_proj",
    "ffn.down": "feed_forward.down_proj",
}


@dataclass(frozen=True)
class SlowOutput:
    """layers: [layers][T, dim], each layer's output; hidden [T, dim] after the final norm; logits [T, classes]."""

    layers: list[Tensor]
    hidden: Tensor
    logits: Tensor


@dataclass(frozen=True)
class SlowState:
    """State of one layer: conv [channels, conv - 1] oldest first, ssm [heads, head_dim, state], key and value
    [positions, kv_heads, head_dim]."""

    conv: Tensor
    ssm: Tensor
    key: Tensor
    value: Tensor


class SlowReference:
    """One sequence. `run` appends columns; `reset` starts over."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        c = weights.config.slow
        m = c.multipliers
        self._hf_config = FalconH1Config(  # type: ignore[no-untyped-call]
            vocab_size=8,
            hidden_size=c.dim,
            intermediate_size=c.ffn,
            num_hidden_layers=c.layers,
            num_attention_heads=c.heads,
            num_key_value_heads=c.kv_heads,
            head_dim=c.head_dim,
            max_position_embeddings=c.max_positions,
            rope_theta=c.rope_base,
            rms_norm_eps=c.norm_eps,
            mamba_d_ssm=c.ssm_heads * c.ssm_head_dim,
            mamba_n_heads=c.ssm_heads,
            mamba_d_head=c.ssm_head_dim,
            mamba_d_state=c.ssm_state,
            mamba_n_groups=c.ssm_groups,
            mamba_d_conv=c.ssm_conv,
            mamba_chunk_size=128,
            mamba_rms_norm=False,
            mamba_proj_bias=False,
            projectors_bias=False,
            mlp_bias=False,
            attention_bias=False,
            embedding_multiplier=m.embedding,
            attention_in_multiplier=m.attention_in,
            attention_out_multiplier=m.attention_out,
            key_multiplier=m.key,
            ssm_in_multiplier=m.ssm_in,
            ssm_out_multiplier=m.ssm_out,
            mlp_multipliers=[m.mlp_gate, m.mlp_down],
            ssm_multipliers=list(m.ssm),
            attn_implementation="eager",
        )
        self.model = FalconH1Model(self._hf_config)
        self.model.train(False)
        self.model.load_state_dict(self._state_dict(), strict=True)
        self.reset()

    def _state_dict(self) -> dict[str, Tensor]:
        w, c = self.weights.tensors, self.weights.config.slow
        out = {"embed_tokens.weight": torch.zeros(8, c.dim), "final_layernorm.weight": w["slow.norm.weight"]}
        for i in range(c.layers):
            s, t = f"slow.{i}", f"layers.{i}"
            for ours, theirs in HF_NAMES.items():
                out[f"{t}.{theirs}.weight"] = w[f"{s}.{ours}.weight"]
            for name in ("dt_bias", "A_log", "D"):
                out[f"{t}.mamba.{name}"] = w[f"{s}.mamba.{name}"]
            out[f"{t}.mamba.conv1d.weight"] = w[f"{s}.mamba.conv.weight"][:, None]
            out[f"{t}.mamba.conv1d.bias"] = w[f"{s}.mamba.conv.bias"]
        return out

    def reset(self) -> None:
        layers = self.weights.config.slow.layers
        self.positions = 0
        self.cache: Any = FalconHybridMambaAttentionDynamicCache(
            self._hf_config, batch_size=1, dtype=torch.float32, devices=["cpu"] * layers
        )

    def embed(self, columns: Tensor) -> Tensor:
        """columns [1 + codebooks, T] -> [T, dim]: text row plus, at semantic positions, one row a codebook; the
        multiplier applies to the sum, because FalconH1Model leaves embeddings handed in as they are."""
        w, c = self.weights.tensors, self.weights.config
        ids = columns[0].long()
        out = w["embed_tokens.weight"][ids]
        semantic = (ids >= c.semantic_begin) & (ids < c.semantic_begin + c.semantic_size)
        offset = 0
        for codes, size in zip(columns[1:].long(), c.codebook_sizes, strict=True):
            rows = w["codebook_embeddings.weight"][offset + torch.where(semantic, codes, 0)]
            out = out + rows * semantic[:, None]
            offset += size
        return out * c.slow.multipliers.embedding

    @torch.no_grad()
    def run(self, columns: Tensor) -> SlowOutput:
        """Appends columns [1 + codebooks, T]: all at once into an empty sequence, one by one after that."""
        step = columns.shape[1] if self.positions == 0 else 1
        parts = [self._forward(self.embed(part)) for part in torch.split(columns, step, 1)]
        layers = [torch.cat([p.layers[i] for p in parts]) for i in range(len(parts[0].layers))]
        return SlowOutput(layers, torch.cat([p.hidden for p in parts]), torch.cat([p.logits for p in parts]))

    def _forward(self, embedded: Tensor) -> SlowOutput:
        layers: list[Tensor] = []
        hooks = [
            layer.register_forward_hook(
                lambda _m, _i, out: layers.append((out[0] if isinstance(out, tuple) else out)[0])
            )
            for layer in self.model.layers
        ]
        position = torch.arange(self.positions, self.positions + embedded.shape[0])
        out = self.model(
            inputs_embeds=embedded[None], past_key_values=self.cache, use_cache=True, cache_position=position
        )
        for hook in hooks:
            hook.remove()
        self.positions += embedded.shape[0]
        hidden = out.last_hidden_state[0]
        return SlowOutput(layers, hidden, hidden @ self.weights.tensors["semantic_output.weight"].T)

    def state(self, layer: int) -> SlowState:
        """State after the last position; transformers keeps one convolution column more, the newest."""
        conv = self.cache.conv_states[layer][0, :, 1:]
        key, value = (c[layer][0].transpose(0, 1) for c in (self.cache.key_cache, self.cache.value_cache))
        return SlowState(conv, self.cache.ssm_states[layer][0], key, value)
