"""Loads the published checkpoint layout through torch, never through the converter, which is thereby tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from .dims import Multipliers
from .weights import CodecConfig, Config, SlowConfig, StackConfig, Weights, single


def from_checkpoint(folder: Path, *, transposed_norm_axis: int = 0) -> Weights:
    """Loads the published layout. transposed_norm_axis: the axis whose slices weight norm keeps apart in transposed
    convolutions; anything but 0 is a mistake that tests make on purpose."""
    c = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lm = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    raw = torch.load(folder / c["codec_filename"], weights_only=True)
    raw = {name.removeprefix("generator."): tensor for name, tensor in raw.get("state_dict", raw).items()}
    codec = _folded(raw, transposed_norm_axis)
    tensors = _language_model_tensors(lm, c) | _codec_tensors(codec, c["num_codebooks"])
    return Weights(_config(c, tensors), {name: tensor.contiguous() for name, tensor in tensors.items()})


def _folded(raw: dict[str, Tensor], transposed_axis: int) -> dict[str, Tensor]:
    out = {}
    for name, tensor in raw.items():
        if name.endswith(("weight_g", "original0")):
            continue
        if name.endswith("weight_v"):
            owner, gain = name.removesuffix("_v"), raw[name[:-1] + "g"]
        elif name.endswith(".parametrizations.weight.original1"):
            owner, gain = name.replace(".parametrizations.weight.original1", ".weight"), raw[name[:-1] + "0"]
        else:
            out[name] = tensor
            continue
        transposed = ".block.1.conv." in owner and owner.startswith("decoder.model.") and owner.count("block") == 1
        axis = transposed_axis if transposed else 0
        others = tuple(i for i in range(tensor.ndim) if i != axis)
        out[owner] = gain * tensor / tensor.norm(dim=others, keepdim=True)
    return out


def _language_model_tensors(lm: dict[str, Tensor], c: dict[str, Any]) -> dict[str, Tensor]:
    out = {"embed_tokens.weight": lm["slow.embed_tokens.weight"], "slow.norm.weight": lm["slow.final_layernorm.weight"]}
    for name in ("codebook_embeddings", "semantic_output", "fast_embeddings", "fast_output"):
        out[f"{name}.weight"] = lm[f"{name}.weight"]
    out["fast.norm.weight"] = lm["fast_norm.weight"]
    for i in range(c["n_layer"]):
        s, t = f"slow.layers.{i}", f"slow.{i}"
        out[f"{t}.input_norm.weight"] = lm[f"{s}.input_layernorm.weight"]
        out[f"{t}.ffn_norm.weight"] = lm[f"{s}.pre_ff_layernorm.weight"]
        out[f"{t}.mamba.conv.weight"] = lm[f"{s}.mamba.conv1d.weight"][:, 0]
        out[f"{t}.mamba.conv.bias"] = lm[f"{s}.mamba.conv1d.bias"]
        for name in ("in_proj.weight", "dt_bias", "A_log", "D", "out_proj.weight"):
            out[f"{t}.mamba.{name}"] = lm[f"{s}.mamba.{name}"]
        for name in "qkvo":
            out[f"{t}.attn.{name}.weight"] = lm[f"{s}.self_attn.{name}_proj.weight"]
        for name in ("gate", "up", "down"):
            out[f"{t}.ffn.{name}.weight"] = lm[f"{s}.feed_forward.{name}_proj.weight"]
    for i in range(c["n_fast_layer"]):
        out |= _block_tensors(lm, f"fast_layers.{i}", f"fast.{i}")
    return out


BLOCK = {
    "attention_norm.weight": "attn_norm.weight",
    "attention.wqkv.weight": "attn.qkv.weight",
    "attention.wo.weight": "attn.o.weight",
    "ffn_norm.weight": "ffn_norm.weight",
    "feed_forward.w1.weight": "ffn.gate.weight",
    "feed_forward.w3.weight": "ffn.up.weight",
    "feed_forward.w2.weight": "ffn.down.weight",
    "attention_layer_scale.gamma": "attn_scale",
    "ffn_layer_scale.gamma": "ffn_scale",
}
CONVNEXT = {
    "norm.weight": "norm.weight",
    "norm.bias": "norm.bias",
    "pwconv1.weight": "pw1.weight",
    "pwconv1.bias": "pw1.bias",
    "pwconv2.weight": "pw2.weight",
    "pwconv2.bias": "pw2.bias",
    "gamma": "scale",
    "dwconv.conv.bias": "dw.bias",
}


def _block_tensors(source: dict[str, Tensor], s: str, t: str) -> dict[str, Tensor]:
    return {f"{t}.{b}": source[f"{s}.{a}"] for a, b in BLOCK.items() if f"{s}.{a}" in source}


def _codec_tensors(raw: dict[str, Tensor], codebooks: int) -> dict[str, Tensor]:
    out = {}
    for q in range(codebooks):
        s = f"quantizer.quantizer.quantizers.{q - 1}" if q else "quantizer.semantic_quantizer.quantizers.0"
        out[f"codec.vq.{q}.codebook"] = raw[f"{s}.codebook.weight"]
        out[f"codec.vq.{q}.out.weight"] = raw[f"{s}.out_proj.weight"][:, :, 0]
        out[f"codec.vq.{q}.out.bias"] = raw[f"{s}.out_proj.bias"]
    layers = {int(n.split(".")[3]) for n in raw if n.startswith("quantizer.post_module.layers.")}
    for i in layers:
        out |= _block_tensors(raw, f"quantizer.post_module.layers.{i}", f"codec.post.{i}")
    out["codec.post.norm.weight"] = raw["quantizer.post_module.norm.weight"]
    for i in {int(n.split(".")[2]) for n in raw if n.startswith("quantizer.upsample.")}:
        s, t = f"quantizer.upsample.{i}", f"codec.up.{i}"
        out[f"{t}.conv.weight"], out[f"{t}.conv.bias"] = raw[f"{s}.0.conv.weight"], raw[f"{s}.0.conv.bias"]
        out |= {f"{t}.{b}": raw[f"{s}.1.{a}"] for a, b in CONVNEXT.items()}
        out[f"{t}.dw.weight"] = raw[f"{s}.1.dwconv.conv.weight"][:, 0]
    return out | _decoder_tensors(raw)


def _decoder_tensors(raw: dict[str, Tensor]) -> dict[str, Tensor]:
    last = max(int(n.split(".")[2]) for n in raw if n.startswith("decoder.model."))
    out = {"codec.dec.tail.snake": raw[f"decoder.model.{last - 1}.alpha"].flatten()}
    for part in ("weight", "bias"):
        out[f"codec.dec.stem.{part}"] = raw[f"decoder.model.0.conv.{part}"]
        out[f"codec.dec.tail.{part}"] = raw[f"decoder.model.{last}.conv.{part}"]
    for b in range(last - 2):
        s, t = f"decoder.model.{b + 1}.block", f"codec.dec.{b}"
        out[f"{t}.snake"] = raw[f"{s}.0.alpha"].flatten()
        for part in ("weight", "bias"):
            out[f"{t}.up.{part}"] = raw[f"{s}.1.conv.{part}"]
        for r in range(3):
            unit = f"{s}.{r + 2}.block"
            for n, a in ((1, 0), (2, 2)):
                out[f"{t}.res.{r}.snake{n}"] = raw[f"{unit}.{a}.alpha"].flatten()
                for part in ("weight", "bias"):
                    out[f"{t}.res.{r}.conv{n}.{part}"] = raw[f"{unit}.{a + 1}.conv.{part}"]
    return out


SLOW_KEYS = {
    "dim": "dim",
    "layers": "n_layer",
    "heads": "n_head",
    "kv_heads": "n_local_heads",
    "head_dim": "head_dim",
    "ffn": "intermediate_size",
    "max_positions": "max_seq_len",
    "ssm_heads": "mamba_n_heads",
    "ssm_head_dim": "mamba_d_head",
    "ssm_state": "mamba_d_state",
    "ssm_groups": "mamba_n_groups",
    "ssm_conv": "mamba_d_conv",
}
FAST_KEYS = {
    "dim": "fast_dim",
    "layers": "n_fast_layer",
    "heads": "fast_n_head",
    "kv_heads": "fast_n_local_heads",
    "head_dim": "fast_head_dim",
    "ffn": "fast_intermediate_size",
}


def _config(c: dict[str, Any], t: dict[str, Tensor]) -> Config:
    """Configuration of the published layout; the codec's from the shapes of its tensors."""
    single_names = ("embedding", "attention_in", "attention_out", "key", "ssm_in", "ssm_out")
    gate, down = c["mlp_multipliers"]
    m: dict[str, Any] = {name: single(c[f"{name}_multiplier"]) for name in single_names}
    m |= {"mlp_gate": single(gate), "mlp_down": single(down), "ssm": tuple(map(single, c["ssm_multipliers"]))}
    base, eps = single(c["rope_base"]), single(c["norm_eps"])
    slow: dict[str, Any] = {field: c[key] for field, key in SLOW_KEYS.items()}
    fast: dict[str, Any] = {field: c[key] for field, key in FAST_KEYS.items()}
    heads, dim = c["codec_post_n_head"], t["codec.post.norm.weight"].shape[0]
    rows, width = t["codec.post.0.attn.qkv.weight"].shape[0], t["codec.post.0.attn.o.weight"].shape[1]
    head_dim, layers = width // heads, sum(n.endswith("attn_scale") for n in t)
    kv_heads, ffn = (rows - width) // (2 * head_dim), t["codec.post.0.ffn.gate.weight"].shape[0]
    ups = sorted(n for n in t if n.startswith("codec.up.") and n.endswith(".conv.weight"))
    blocks = sorted(n for n in t if n.startswith("codec.dec.") and n.endswith(".up.weight"))
    return Config(
        vocab=c["vocab_size"],
        semantic_begin=c["semantic_begin_id"],
        semantic_size=c["semantic_end_id"] - c["semantic_begin_id"] + 1,
        eos_id=c["eos_token_id"],
        has_next=False,
        codebook_sizes=(c["codebook_size"],) * c["num_codebooks"],
        slow=SlowConfig(**slow, rope_base=base, norm_eps=eps, multipliers=Multipliers(**m)),
        fast=StackConfig(**fast, rope_base=base, norm_eps=eps, rope_bf16=True),
        codec=CodecConfig(
            codebook_sizes=tuple(t[f"codec.vq.{q}.codebook"].shape[0] for q in range(c["num_codebooks"])),
            dim=dim,
            post=StackConfig(dim, layers, heads, kv_heads, head_dim, ffn, 1e4, single(1e-5), True),
            window=c.get("codec_post_window_size", 128),
            upsample=tuple(t[n].shape[2] for n in ups),
            layer_norm_eps=single(1e-6),
            strides=tuple(t[n].shape[2] // 2 for n in blocks),
            dilations=(1, 3, 9),
            sample_rate=c["codec_sample_rate"],
        ),
    )
