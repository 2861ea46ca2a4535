"""Writes the first voice's training checkpoints as one model file (docs/model-format.md).

    python training/voice_v0/convert.py --ar ar2_f16.pt --decoder codec2_decoder_f16.pt --tables melcodec2_f16.pt \\
        --vocab vocab.json --codes codes2.pkl.xz --lexicon lexicon.tsv.xz --out kestrel/voices/default.gguf

The AR checkpoint holds the slow and the fast AR; `--decoder` holds the codec's window transformer, upsampling stage and
wave decoder; `--tables` holds the code tables and their output projections (its encoder is not needed to speak).
The checkpoints store float16, so writing linears, embeddings and convolutions as f16 loses nothing.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float32]

CODEBOOK_SIZES = (1024, 256, 256, 256)
STRIDES = (8, 5, 4, 2)
DILATIONS = (1, 3, 9)
LAYERS, FAST_LAYERS, POST_LAYERS = 4, 2, 3
BOS, END, MARKER, FIRST_PHONEME = 1, 2, 3, 4
SHAPES: dict[str, dict[str, int]] = {
    "slow": {
        "dim": 192,
        "layers": LAYERS,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 48,
        "ffn": 512,
        "max_positions": 1024,
    },
    "slow.ssm": {"inner": 384, "heads": 6, "head_dim": 64, "state": 32, "groups": 1, "conv": 4},
    "fast": {"dim": 192, "layers": FAST_LAYERS, "heads": 4, "kv_heads": 2, "head_dim": 48, "ffn": 512},
    "codec.post": {"layers": POST_LAYERS, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 384},
}
# Training lines had at most this many characters; the voice degrades on longer ones, so callers should split there.
MAX_CHARACTERS = 95
# The trainer's Snake computes with max(alpha, 0.05); a file that kept smaller values would sound different.
SNAKE_FLOOR = 0.05


def load(path: Path) -> dict[str, Array]:
    """State dict of `path` as float32 arrays."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = state.get("model", state)
    return {name: value.float().numpy() for name, value in state.items() if value.is_floating_point()}


def slow_and_fast_tensors(ar: Mapping[str, Array]) -> dict[str, Array]:
    """AR tensors under the model file's names."""
    out = {
        # Text ids first, then the semantic codes: semantic_begin = rows of the text table.
        "embed_tokens.weight": np.concatenate([ar["text.weight"], ar["sem.weight"]]),
        "codebook_embeddings.weight": ar["cb.weight"],
        "slow.norm.weight": ar["norm.weight"],
        "semantic_output.weight": ar["head.weight"],
        "fast_embeddings.weight": ar["fe.weight"],
        "fast.norm.weight": ar["fnorm.weight"],
        "fast_output.weight": ar["fout.weight"],
    }
    slow_names = {
        "input_norm.weight": "input_layernorm.weight",
        "ffn_norm.weight": "pre_ff_layernorm.weight",
        "mamba.in_proj.weight": "mamba.in_proj.weight",
        "mamba.conv.bias": "mamba.conv1d.bias",
        "mamba.dt_bias": "mamba.dt_bias",
        "mamba.A_log": "mamba.A_log",
        "mamba.D": "mamba.D",
        "mamba.out_proj.weight": "mamba.out_proj.weight",
        **{f"attn.{p}.weight": f"self_attn.{p}_proj.weight" for p in "qkvo"},
        **{f"ffn.{p}.weight": f"feed_forward.{p}_proj.weight" for p in ("gate", "up", "down")},
    }
    for layer in range(LAYERS):
        for name, source in slow_names.items():
            out[f"slow.{layer}.{name}"] = ar[f"layers.{layer}.{source}"]
        out[f"slow.{layer}.mamba.conv.weight"] = ar[f"layers.{layer}.mamba.conv1d.weight"][:, 0]  # [channels, 4]
    for layer in range(FAST_LAYERS):
        for name, source in block_names().items():
            out[f"fast.{layer}.{name}"] = ar[f"fl.{layer}.{source}"]
    return out


def block_names() -> dict[str, str]:
    """Names shared by the fast AR's and the codec's transformer blocks. w1 is the gate, w3 the up projection."""
    return {
        "attn_norm.weight": "attention_norm.weight",
        "ffn_norm.weight": "ffn_norm.weight",
        "attn.qkv.weight": "wqkv.weight",
        "attn.o.weight": "wo.weight",
        "ffn.gate.weight": "w1.weight",
        "ffn.up.weight": "w3.weight",
        "ffn.down.weight": "w2.weight",
    }


def codec_tensors(decoder: Mapping[str, Array], tables: Mapping[str, Array]) -> dict[str, Array]:
    """Codec tensors under the model file's names."""
    out: dict[str, Array] = {}
    for book in range(len(CODEBOOK_SIZES)):
        out[f"codec.vq.{book}.codebook"] = tables[f"rvq.q.{book}.cb"]
        out[f"codec.vq.{book}.out.weight"] = tables[f"rvq.q.{book}.out.weight"]
        out[f"codec.vq.{book}.out.bias"] = tables[f"rvq.q.{book}.out.bias"]
    names = {**block_names(), "attn_scale": "ga", "ffn_scale": "gf"}
    for layer in range(POST_LAYERS):
        for name, source in names.items():
            out[f"codec.post.{layer}.{name}"] = decoder[f"trunk.post_module.{layer}.{source}"]
    out["codec.post.norm.weight"] = decoder["trunk.norm.weight"]

    out["codec.up.0.conv.weight"] = decoder["trunk.up.weight"]  # [in, out, 2]
    out["codec.up.0.conv.bias"] = decoder["trunk.up.bias"]
    out["codec.up.0.dw.weight"] = decoder["trunk.cnx.dw.weight"][:, 0]  # [dim, 7]
    out["codec.up.0.dw.bias"] = decoder["trunk.cnx.dw.bias"]
    for name, source in (("norm", "norm"), ("pw1", "p1"), ("pw2", "p2")):
        for kind in ("weight", "bias"):
            out[f"codec.up.0.{name}.{kind}"] = decoder[f"trunk.cnx.{source}.{kind}"]
    out["codec.up.0.scale"] = decoder["trunk.cnx.g"]

    def conv(name: str, source: str) -> None:
        out[f"{name}.weight"], out[f"{name}.bias"] = decoder[f"{source}.weight"], decoder[f"{source}.bias"]

    def snake(name: str, source: str) -> None:
        out[name] = np.maximum(decoder[f"{source}.alpha"].reshape(-1), np.float32(SNAKE_FLOOR))

    conv("codec.dec.stem", "dec.c0")
    for block in range(len(STRIDES)):
        # The trainer's flat sequence: snake, transposed convolution, three residual units a block.
        base = block * (2 + len(DILATIONS))
        snake(f"codec.dec.{block}.snake", f"dec.net.{base}")
        conv(f"codec.dec.{block}.up", f"dec.net.{base + 1}.t")
        for unit in range(len(DILATIONS)):
            name, source = f"codec.dec.{block}.res.{unit}", f"dec.net.{base + 2 + unit}"
            snake(f"{name}.snake1", f"{source}.a1")
            conv(f"{name}.conv1", f"{source}.c1")
            snake(f"{name}.snake2", f"{source}.a2")
            conv(f"{name}.conv2", f"{source}.c2")
    snake("codec.dec.tail.snake", "dec.af")
    conv("codec.dec.tail", "dec.cf")
    return out


def is_half(name: str, value: Array) -> bool:
    """True for the kinds the format allows in f16: linears, embeddings and full convolutions."""
    if name.startswith("codec.vq.") or name.endswith((".dw.weight", "mamba.conv.weight")):
        return False
    return value.ndim >= 2


def phoneme_ids(vocab: Path, codes: Path) -> dict[str, int]:
    """Text id of every symbol the voice has heard.

    The trainer numbered the teacher's symbols in sorted order from 1, after four control ids. Symbols that no training
    line holds have embeddings that were never trained, so they are left out.
    """
    symbols = sorted(json.loads(vocab.read_text(encoding="utf-8")))
    with lzma.open(codes) as stream:
        _, train = pickle.load(stream)
    heard = set().union(*(line[1] for line in train)) - {" "}
    return {symbol: FIRST_PHONEME + 1 + i for i, symbol in enumerate(symbols) if symbol in heard}


def write_keys(writer: gguf.GGUFWriter, phonemes: dict[str, int], lexicon: bytes, text_rows: int, version: str) -> None:
    """Hyper-parameters, front end and sampling defaults of this voice."""
    writer.add_string("general.name", "Kestrel default voice")
    writer.add_string("general.version", version)
    writer.add_string("general.license", "Apache-2.0")
    writer.add_uint32("kestrel.format", 1)
    for key, text in {
        "kestrel.text_mode": "interleaved",
        "kestrel.frontend": "phoneme-words",
        "kestrel.phonemes": json.dumps(
            {"ids": phonemes, "bos": BOS, "end": END, "marker": MARKER, "max_characters": MAX_CHARACTERS},
            ensure_ascii=False,
            sort_keys=True,
        ),
        "slow.backbone": "falcon_h1",
    }.items():
        writer.add_string(key, text)
    writer.add_array("kestrel.lexicon", lexicon)
    writer.add_array("kestrel.languages", ["en"])
    writer.add_array("kestrel.voices", ["default"])
    unsigned = {
        "kestrel.eos_id": END,
        "sampling.top_k": 20,
        "sampling.ras_window": 0,
        "sampling.max_segment_frames": 40,
        "lm.vocab": text_rows + CODEBOOK_SIZES[0],
        "lm.semantic_begin": text_rows,
        "lm.semantic_size": CODEBOOK_SIZES[0],
        "lm.residual_size": 256,
        **{f"{part}.{key}": value for part, shape in SHAPES.items() for key, value in shape.items()},
        "fast.embeddings": 1024,
        "codec.sample_rate": 16000,
        "codec.frame_size": 640,
        "codec.code_dim": 8,
        "codec.dim": 256,
        "codec.post.window": 16,
        "codec.upsample.ffn": 1024,
        "codec.upsample.kernel": 7,
        "codec.decoder.kernel": 7,
    }
    for key, number in unsigned.items():
        writer.add_uint32(key, number)
    for key, real in {
        "sampling.temperature": 0.25,
        "sampling.fast_temperature": 0.02,
        "sampling.top_p": 1.0,
        "sampling.ras_temperature": 1.0,
        "sampling.ras_top_p": 0.9,
        "slow.rope_base": 1e4,
        "slow.norm_eps": 1e-5,
        "fast.rope_base": 1e4,
        "fast.norm_eps": 1e-5,
        "codec.post.rope_base": 1e4,
        "codec.post.norm_eps": 1e-5,
        "codec.upsample.norm_eps": 1e-6,
        **{f"slow.mult.{k}": 1.0 for k in ("embedding", "attention_in", "attention_out", "key", "ssm_in", "ssm_out")},
        **{f"slow.mult.{k}": 1.0 for k in ("mlp_gate", "mlp_down")},
    }.items():
        writer.add_float32(key, real)
    writer.add_bool("lm.has_next", True)
    writer.add_bool("fast.rope_bf16", False)
    writer.add_bool("codec.post.rope_bf16", False)
    writer.add_array("slow.mult.ssm", [1.0] * 5)
    for key, sizes in {
        "lm.codebook_sizes": CODEBOOK_SIZES,
        "codec.codebook_sizes": CODEBOOK_SIZES,
        "codec.upsample.strides": (2,),
        "codec.decoder.channels": (256, 128, 64, 32, 16),
        "codec.decoder.strides": STRIDES,
        "codec.decoder.dilations": DILATIONS,
    }.items():
        add_u32_array(writer, key, sizes)


def add_u32_array(writer: gguf.GGUFWriter, key: str, values: tuple[int, ...]) -> None:
    """`add_array` would pick a signed type for Python ints; the format says u32."""
    writer.add_key_value(key, list(values), gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.UINT32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ar", "decoder", "tables", "vocab", "codes", "lexicon", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--version", default="0.1")
    args = parser.parse_args()

    ar = load(args.ar)
    tensors = {**slow_and_fast_tensors(ar), **codec_tensors(load(args.decoder), load(args.tables))}
    # A running engine may have the old file mapped: write beside it, then swap.
    partial = args.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "dualar")
    phonemes = phoneme_ids(args.vocab, args.codes)
    write_keys(writer, phonemes, args.lexicon.read_bytes(), len(ar["text.weight"]), args.version)
    for name, value in tensors.items():
        kind = np.float16 if is_half(name, value) else np.float32
        writer.add_tensor(name, np.ascontiguousarray(value.astype(kind)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(args.out)
    count = sum(value.size for value in tensors.values())
    print(f"{args.out}: {len(tensors)} tensors, {count:,} parameters, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
