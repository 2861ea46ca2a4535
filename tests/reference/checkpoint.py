"""Writes random-weight checkpoints in the published Audio8 0.1B layout.

A checkpoint is a folder with `config.json`, `generation_config.json`, `model.safetensors`, `codec.pth` and
`tokenizer.json`. From the command line: `python -m tests.reference.checkpoint FOLDER [--preset tiny] [--seed 0]`.
"""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from .dims import FULL, PRESETS, TINY, Dims
from .layout import Tensor, codec_decoder, codec_encoder, language_model
from .tokenizer import tokenizer_json


def write_checkpoint(
    folder: Path,
    dims: Dims = TINY,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    encoder: bool = True,
    wrapped: bool = False,
) -> Path:
    """Writes one checkpoint and returns its folder.

    dtype: of the language model (the codec is always F32, as published). encoder: also write what only encoding
    needs. wrapped: put the codec's tensors below a `state_dict` key with a `generator.` prefix, the other spelling
    that loaders must take.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    (folder / "config.json").write_text(json.dumps(config(dims), indent=2), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps(generation_config(dims), indent=2), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(dims.text_vocab, dims.eos_id), encoding="utf-8")
    model = {t.name: _draw(t, generator).to(dtype) for t in language_model(dims)}
    model["semantic_output.weight"][-1] *= dims.eos_gain
    save_file(model, folder / "model.safetensors", metadata={"format": "pt"})
    del model
    tensors = list(codec_decoder(dims)) + (list(codec_encoder(dims)) if encoder else [])
    torch.save(_codec_state(tensors, generator, wrapped), folder / "codec.pth")
    return folder


def _draw(tensor: Tensor, generator: torch.Generator) -> torch.Tensor:
    out = torch.empty(tensor.shape, dtype=torch.float32)
    if tensor.kind == "normal":
        return out.normal_(tensor.first, tensor.second, generator=generator)
    out.uniform_(tensor.first, tensor.second, generator=generator)
    return out.log_() if tensor.kind == "log_uniform" else out


def _codec_state(tensors: Iterable[Tensor], generator: torch.Generator, wrapped: bool) -> dict[str, Any]:
    """The codec's state dict with weight-normed tensors in their two published spellings, plus cached tables."""
    prefix = "generator." if wrapped else ""
    state: OrderedDict[str, Any] = OrderedDict()
    for tensor in tensors:
        direction = _draw(tensor, generator)
        if not tensor.norm_gain:
            state[prefix + tensor.name] = direction
            continue
        gain = torch.empty((tensor.shape[0], 1, 1)).uniform_(0.6, 1.4, generator=generator) * tensor.norm_gain
        owner = prefix + tensor.name.removesuffix(".weight")
        if tensor.legacy:
            state[f"{owner}.weight_g"], state[f"{owner}.weight_v"] = gain, direction
        else:
            state[f"{owner}.parametrizations.weight.original0"] = gain
            state[f"{owner}.parametrizations.weight.original1"] = direction
    # Tables that the published module registers as buffers; a loader drops them.
    state[f"{prefix}quantizer.post_module.freqs_cis"] = torch.zeros((8, 4, 2), dtype=torch.bfloat16)
    state[f"{prefix}quantizer.post_module.causal_mask"] = torch.ones((8, 8), dtype=torch.bool).tril()
    state._metadata = OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    return {"state_dict": state} if wrapped else state


def config(d: Dims) -> dict[str, Any]:
    """`config.json` with the published key names."""
    m, c = d.multipliers, d.codec
    return {
        "architectures": ["ArkttsModel"],
        "model_type": "arktts",
        "slow_backbone": "falcon_h1",
        "vocab_size": d.vocab,
        "dim": d.dim,
        "n_layer": d.layers,
        "n_head": d.heads,
        "n_local_heads": d.kv_heads,
        "head_dim": d.head_dim,
        "intermediate_size": d.ffn,
        "max_seq_len": d.max_positions,
        "rope_base": d.rope_base,
        "norm_eps": d.norm_eps,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_qkv_bias": False,
        "attention_qk_norm": False,
        "attention_o_bias": False,
        "mamba_d_ssm": d.ssm_inner,
        "mamba_n_heads": d.ssm_heads,
        "mamba_d_head": d.ssm_head_dim,
        "mamba_d_state": d.ssm_state,
        "mamba_n_groups": d.ssm_groups,
        "mamba_d_conv": d.ssm_conv,
        "mamba_expand": 2,
        "mamba_chunk_size": 128,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "projectors_bias": False,
        "mlp_bias": False,
        "mamba_rms_norm": False,
        "mamba_norm_before_gate": False,
        "mamba_use_mlp": True,
        "time_step_min": 0.001,
        "time_step_max": 0.1,
        "embedding_multiplier": m.embedding,
        "lm_head_multiplier": 0.078125,
        "attention_in_multiplier": m.attention_in,
        "attention_out_multiplier": m.attention_out,
        "key_multiplier": m.key,
        "ssm_in_multiplier": m.ssm_in,
        "ssm_out_multiplier": m.ssm_out,
        "mlp_multipliers": [m.mlp_gate, m.mlp_down],
        "ssm_multipliers": list(m.ssm),
        "eos_token_id": d.eos_id,
        "pad_token_id": 0,
        "semantic_begin_id": d.text_vocab,
        "semantic_end_id": d.vocab - 1,
        "num_codebooks": d.codebooks,
        "codebook_size": d.semantic_size,
        "n_fast_layer": d.fast_layers,
        "fast_dim": d.dim,
        "fast_n_head": d.fast_heads,
        "fast_n_local_heads": d.fast_kv_heads,
        "fast_head_dim": d.fast_head_dim,
        "fast_intermediate_size": d.fast_ffn,
        "fast_attention_qkv_bias": False,
        "fast_attention_qk_norm": False,
        "fast_attention_o_bias": False,
        "norm_fastlayer_input": True,
        "codec_filename": "codec.pth",
        "codec_sample_rate": c.sample_rate,
        "codec_frame_size": c.frame_size,
        "codec_post_n_layer": c.post_layers,
        "codec_post_n_head": c.post_heads,
        "codec_post_n_local_heads": c.post_kv_heads,
        "codec_post_intermediate_size": c.post_ffn,
        "codec_post_window_size": c.post_window,
        "ras_window_size": 10,
        "ras_temperature": 1.0,
        "ras_top_p": 0.9,
    }


def generation_config(d: Dims) -> dict[str, Any]:
    """`generation_config.json`."""
    return {
        "do_sample": True,
        "temperature": d.temperature,
        "top_p": d.top_p,
        "top_k": d.top_k,
        "max_new_tokens": 512,
        "eos_token_id": d.eos_id,
        "pad_token_id": 0,
    }


def main() -> None:
    presets = PRESETS | {"full": FULL}
    parser = argparse.ArgumentParser(description="Write a random-weight checkpoint in the published layout.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(presets), default="tiny")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true", help="language model in BF16, as published")
    parser.add_argument(
        "--no-encoder",
        action="store_true",
        help="leave out what only voice cloning needs",
    )
    a = parser.parse_args()
    dtype = torch.bfloat16 if a.bf16 else torch.float32
    write_checkpoint(a.folder, presets[a.preset], seed=a.seed, dtype=dtype, encoder=not a.no_encoder)


if __name__ == "__main__":
    main()
