"""Metadata keys of the model file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gguf import GGUFValueType as Value

from .configuration import Configuration
from .dimensions import DILATIONS, Attention, Codec, LanguageModel

Key = tuple[str, Any, Value, Value | None]

FORMAT = 1
LANGUAGES = ("zh", "en", "de", "es", "fr", "it", "ja", "ko")
VOICES = ("default",)
LICENSE = "audio8-community-license-v1.0"
CODEC_ROPE_BASE, CODEC_NORM_EPS, CODEC_LAYER_NORM_EPS = (
    1e4,
    1e-5,
    1e-6,
)  # fixed in the published codec's code


def _text(key: str, value: str) -> Key:
    return key, value, Value.STRING, None


def _integer(key: str, value: int) -> Key:
    return key, value, Value.UINT32, None


def _float(key: str, value: float) -> Key:
    return key, value, Value.FLOAT32, None


def _flag(key: str, value: bool) -> Key:
    return key, value, Value.BOOL, None


def _array(key: str, values: tuple[Any, ...], of: Value) -> Key:
    return key, list(values), Value.ARRAY, of


def keys(
    name: str,
    config: Configuration,
    generation: Configuration,
    model: LanguageModel,
    codec: Codec,
    tokenizer: str,
) -> Iterator[Key]:
    """All keys of a converted checkpoint: (key, value, type, element type of arrays)."""
    yield _text("general.name", name)
    yield _text("general.version", config.text("version", "1"))
    yield _text("general.license", config.text("license", LICENSE))
    yield _integer("kestrel.format", FORMAT)
    yield _text("kestrel.text_mode", "prompt")
    yield _text("kestrel.frontend", "audio8")
    yield _text("kestrel.tokenizer", tokenizer)
    yield _array("kestrel.languages", LANGUAGES, Value.STRING)
    yield _array("kestrel.voices", VOICES, Value.STRING)
    yield _integer("kestrel.eos_id", config.integer("eos_token_id", least=0))
    temperature = generation.positive("temperature", 0.7)
    yield _float("sampling.temperature", temperature)
    yield _float("sampling.fast_temperature", temperature)
    yield _float("sampling.top_p", generation.positive("top_p", 0.9))
    yield _integer("sampling.top_k", generation.integer("top_k", 50, least=0))
    yield _integer("sampling.ras_window", config.integer("ras_window_size", 10, least=0))
    yield _float("sampling.ras_temperature", config.positive("ras_temperature", 1.0))
    yield _float("sampling.ras_top_p", config.positive("ras_top_p", 0.9))
    yield _integer("sampling.max_segment_frames", 0)
    yield from _language_model(config, model)
    yield from _codec(config, codec)


def _attention(prefix: str, a: Attention) -> Iterator[Key]:
    for field in ("layers", "heads", "kv_heads", "head_dim", "ffn"):
        yield _integer(f"{prefix}.{field}", getattr(a, field))


def _language_model(c: Configuration, m: LanguageModel) -> Iterator[Key]:
    yield _integer("lm.vocab", m.vocab)
    yield _integer("lm.semantic_begin", m.semantic_begin)
    yield _integer("lm.semantic_size", m.semantic_size)
    yield _flag("lm.has_next", False)
    yield _array("lm.codebook_sizes", (m.codebook_size,) * m.codebooks, Value.UINT32)
    yield _integer("lm.residual_size", m.codebook_size)
    yield _text("slow.backbone", "falcon_h1")
    yield _integer("slow.dim", m.slow.dim)
    yield from _attention("slow", m.slow)
    yield _integer("slow.max_positions", c.integer("max_seq_len"))
    yield _float("slow.rope_base", c.positive("rope_base"))
    yield _float("slow.norm_eps", c.positive("norm_eps"))
    yield _integer("slow.ssm.inner", m.ssm_inner)
    for field in ("heads", "head_dim", "state", "groups", "conv"):
        yield _integer(f"slow.ssm.{field}", getattr(m, f"ssm_{field}"))
    for field in (
        "embedding",
        "attention_in",
        "attention_out",
        "key",
        "ssm_in",
        "ssm_out",
    ):
        yield _float(f"slow.mult.{field}", c.number(f"{field}_multiplier", 1.0))
    gate, down = c.numbers("mlp_multipliers", 2)
    yield _float("slow.mult.mlp_gate", gate)
    yield _float("slow.mult.mlp_down", down)
    yield _array("slow.mult.ssm", c.numbers("ssm_multipliers", 5), Value.FLOAT32)
    yield _integer("fast.dim", m.fast.dim)
    yield from _attention("fast", m.fast)
    yield _integer("fast.embeddings", m.codebook_size)
    yield _float("fast.rope_base", c.positive("rope_base"))
    yield _float("fast.norm_eps", c.positive("norm_eps"))
    yield _flag("fast.rope_bf16", True)


def _codec(c: Configuration, d: Codec) -> Iterator[Key]:
    yield _integer("codec.sample_rate", c.integer("codec_sample_rate", 44100))
    yield _integer("codec.frame_size", d.frame_size)
    yield _array("codec.codebook_sizes", d.codebook_sizes, Value.UINT32)
    yield _integer("codec.code_dim", d.code_dim)
    yield _integer("codec.dim", d.post.dim)
    yield from _attention("codec.post", d.post)
    yield _integer("codec.post.window", d.window)
    yield _float("codec.post.rope_base", CODEC_ROPE_BASE)
    yield _float("codec.post.norm_eps", CODEC_NORM_EPS)
    yield _flag("codec.post.rope_bf16", True)
    yield _array("codec.upsample.strides", d.upsample, Value.UINT32)
    yield _integer("codec.upsample.ffn", d.upsample_ffn)
    yield _integer("codec.upsample.kernel", d.upsample_kernel)
    yield _float("codec.upsample.norm_eps", CODEC_LAYER_NORM_EPS)
    yield _array("codec.decoder.channels", d.channels, Value.UINT32)
    yield _array("codec.decoder.strides", d.strides, Value.UINT32)
    yield _array("codec.decoder.dilations", DILATIONS, Value.UINT32)
    yield _integer("codec.decoder.kernel", d.kernel)
