"""The converter: nothing is lost or reordered, and errors name their cause."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kestrel.engine.convert import ConvertError, Types, convert_checkpoint
from kestrel.engine.convert.weight_norm import FoldedFile
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import TINY, TINY_MULTIPLIERS, CodecDims
from tests.reference.published import from_checkpoint
from tests.reference.weights import from_gguf

F32 = Types("f32", "f32", "f32")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "checkpoint", TINY)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_round_trip_equals_source(tmp_path: Path, wrapped: bool, dtype: torch.dtype) -> None:
    """Catches a tensor under the wrong name, a transposed or squeezed axis too many, weight norm folded over the wrong
    axis (in != out in every transposed convolution) and BF16 read wrongly: torch's own loading and folding of the same
    checkpoint is the measure."""
    source = write_checkpoint(tmp_path / "c", TINY_MULTIPLIERS, dtype=dtype, wrapped=wrapped)
    convert_checkpoint(source, tmp_path / "m.gguf", types=F32)
    expected, actual = from_checkpoint(source), from_gguf(tmp_path / "m.gguf")
    assert actual.config == expected.config
    assert actual.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert actual.tensors[name].shape == tensor.shape, name
        torch.testing.assert_close(actual.tensors[name], tensor, rtol=3e-7, atol=0, msg=name)


def test_metadata_and_tokenizer(checkpoint: Path, tmp_path: Path) -> None:
    """Catches a tokenizer rewritten on the way, and keys of the wrong GGUF type, which the engine refuses."""
    convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    assert fields["kestrel.tokenizer"].contents() == (checkpoint / "tokenizer.json").read_text(encoding="utf-8")
    assert fields["lm.codebook_sizes"].types == [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT32]
    assert fields["slow.mult.ssm"].types == [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.FLOAT32]
    assert fields["kestrel.eos_id"].contents() == 228
    assert fields["sampling.top_k"].contents() == 50
    assert fields["codec.post.kv_heads"].contents() == 2
    assert fields["codec.frame_size"].contents() == 2048


def test_other_codec_revision_by_shapes(tmp_path: Path) -> None:
    """The older codec revision has as many KV heads as heads and a wider FFN. Catches sizes taken from defaults."""
    dims = replace(TINY, codec=replace(CodecDims(), post_kv_heads=4, post_ffn=64))
    source = write_checkpoint(tmp_path / "c", dims)
    config = json.loads((source / "config.json").read_text())
    for key in ("codec_post_n_layer", "codec_post_n_local_heads", "codec_post_intermediate_size"):
        del config[key]
    (source / "config.json").write_text(json.dumps(config))
    convert_checkpoint(source, tmp_path / "m.gguf", types=F32)
    loaded = from_gguf(tmp_path / "m.gguf").config.codec.post
    assert (loaded.layers, loaded.kv_heads, loaded.ffn) == (3, 4, 64)


def test_types_follow_their_groups(checkpoint: Path, tmp_path: Path) -> None:
    """Catches a group written in another type, and a row that cannot hold q8_0 blocks squeezed into them; the values
    must stay within half a quantisation step."""
    convert_checkpoint(checkpoint, tmp_path / "q.gguf", types=Types("q8_0", "bf16", "f16"))
    convert_checkpoint(checkpoint, tmp_path / "f.gguf", types=F32)
    stored = {t.name: t for t in gguf.GGUFReader(tmp_path / "q.gguf").tensors}
    exact = from_gguf(tmp_path / "f.gguf").tensors
    kinds = gguf.GGMLQuantizationType
    expected = {
        "embed_tokens.weight": kinds.BF16,
        "codec.dec.0.up.weight": kinds.F16,
        "codec.vq.0.out.weight": kinds.F32,
        "slow.0.mamba.A_log": kinds.F32,
        "slow.0.mamba.in_proj.weight": kinds.Q8_0,
        "codec.up.0.pw2.weight": kinds.Q8_0,
        "codec.post.0.ffn.down.weight": kinds.F16,  # 48 columns: no whole number of blocks
    }
    assert {name: stored[name].tensor_type for name in expected} == expected
    for name, tensor in stored.items():
        if tensor.tensor_type is kinds.Q8_0:
            rows = exact[name].numpy().reshape(-1, 32)
            got = gguf.quants.dequantize(tensor.data, kinds.Q8_0).reshape(-1, 32)
            step = np.abs(rows).max(axis=1, keepdims=True) / 127
            assert (np.abs(got - rows) <= 0.5 * step + 127 * step * 2.0**-11).all(), name  # the step itself is an f16


def test_unknown_type_is_refused() -> None:
    """Catches a typing mistake that would silently fall back to another type."""
    with pytest.raises(ValueError, match="codec_convs must be one of f32, f16"):
        Types(codec_convs="q8_0")  # type: ignore[arg-type]


def edit_model(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")


def edit_codec(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    state = torch.load(folder / "codec.pth", weights_only=True)
    change(state)
    torch.save(state, folder / "codec.pth")


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))


def truncate(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


POST = "quantizer.post_module.layers.1"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "lm tensor missing": (
        lambda f: edit_model(f, lambda t: t.pop("slow.layers.2.mamba.A_log")),
        r"'slow\.layers\.2\.mamba\.A_log' is missing; expected shape \[6\]",
    ),
    "lm tensor transposed": (
        lambda f: edit_model(f, lambda t: t.update({"fast_output.weight": t["fast_output.weight"].T})),
        r"'fast_output\.weight' has shape \[64, 32\]; expected \[32, 64\]",
    ),
    "lm tensor not finite": (
        lambda f: edit_model(f, lambda t: t["slow.final_layernorm.weight"].fill_(torch.nan)),
        r"'slow\.final_layernorm\.weight' holds a value that is not finite",
    ),
    "codec tensor missing": (
        lambda f: edit_codec(f, lambda t: t.pop(f"{POST}.ffn_norm.weight")),
        r"layers\.1\.ffn_norm\.weight' is missing; expected shape \[32\]",
    ),
    "codec tensor misshaped": (
        lambda f: edit_codec(f, lambda t: t.update({f"{POST}.feed_forward.w1.weight": torch.zeros(47, 32)})),
        r"layers\.1\.feed_forward\.w1\.weight' has shape \[47, 32\]; expected \[48, 32\]",
    ),
    "weight-norm gain missing": (
        lambda f: edit_codec(f, lambda t: t.pop("decoder.model.0.conv.parametrizations.weight.original0")),
        r"'decoder\.model\.0\.conv\.parametrizations\.weight\.original0' is missing",
    ),
    "weight-norm gain per output channel": (
        lambda f: edit_codec(
            f,
            lambda t: t.update(
                {"decoder.model.1.block.1.conv.parametrizations.weight.original0": torch.ones(1, 24, 1)}
            ),
        ),
        r"original0' has shape \[1, 24, 1\]; expected \[48, 1, 1\]",
    ),
    "weight-norm direction zero": (
        lambda f: edit_codec(f, lambda t: t["quantizer.quantizer.quantizers.1.out_proj.weight_v"].zero_()),
        r"quantizers\.1\.out_proj\.weight_v': a slice of the direction is all zero",
    ),
    "codec tensor of integers": (
        lambda f: edit_codec(f, lambda t: t.update({f"{POST}.ffn_norm.weight": torch.ones(32, dtype=torch.int64)})),
        r"layers\.1\.ffn_norm\.weight' is a LongStorage; expected one of FloatStorage",
    ),
    "config key missing": (lambda f: edit_config(f, mamba_d_state=...), "key 'mamba_d_state' is missing"),
    "config key of another type": (lambda f: edit_config(f, n_layer="3"), "key 'n_layer' is '3'; expected a whole"),
    "config number infinite": (lambda f: edit_config(f, norm_eps=float("inf")), "'norm_eps' is inf; expected a finite"),
    "other backbone": (
        lambda f: edit_config(f, slow_backbone="qwen"),
        "'slow_backbone' is 'qwen'; expected 'falcon_h1'",
    ),
    "gated Mamba norm": (lambda f: edit_config(f, mamba_rms_norm=True), "'mamba_rms_norm' is True; expected False"),
    "frame size": (lambda f: edit_config(f, codec_frame_size=1024), "'codec_frame_size' is 1024; expected 2048"),
    "odd head count": (lambda f: edit_config(f, codec_post_n_head=5), "which do not split into 5 query heads"),
    "multipliers short": (lambda f: edit_config(f, ssm_multipliers=[1, 1]), "'ssm_multipliers' is .*a list of 5"),
    "codec path": (lambda f: edit_config(f, codec_filename="../codec.pth"), "expected a plain file name"),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "config no JSON": (lambda f: (f / "config.json").write_bytes(b"\xff{"), "config.json cannot be read as JSON"),
    "model truncated": (lambda f: truncate(f / "model.safetensors", 0.9), "lies outside the file"),
    "model header cut": (lambda f: truncate(f / "model.safetensors", 0.001), "header length"),
    "model empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors: cannot be read"),
    "codec truncated": (lambda f: truncate(f / "codec.pth", 0.9), "codec.pth: not a checkpoint"),
    "codec absent": (lambda f: (f / "codec.pth").unlink(), "codec.pth: not a checkpoint"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(checkpoint: Path, tmp_path: Path, name: str) -> None:
    """Catches an error that does not say which key, tensor or file is wrong, and a target left behind half-written."""
    damage, message = DAMAGE[name]
    damage(checkpoint)
    with pytest.raises(ConvertError, match=message):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_folding_agrees_with_torch() -> None:
    """Catches the norm taken per output channel of a transposed convolution, whose axis 0 is the input channel."""
    torch.manual_seed(0)
    conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.ConvTranspose1d(6, 4, 5), dim=0)
    direction, gain = torch.randn(6, 4, 5), torch.rand(6, 1, 1) + 0.5
    with torch.no_grad():
        conv.parametrizations.weight.original0.copy_(gain)
        conv.parametrizations.weight.original1.copy_(direction)
    values = {"c.weight_g": gain.numpy(), "c.weight_v": direction.numpy()}

    class Memory:
        def names(self) -> Any:
            return values

        def shape(self, name: str) -> tuple[int, ...]:
            return tuple(values[name].shape)

        def read(self, name: str) -> Any:
            return values[name]

    np.testing.assert_allclose(FoldedFile(Memory()).read("c.weight"), conv.weight.detach().numpy(), rtol=1e-6)


def test_progress_and_overwrite(checkpoint: Path, tmp_path: Path) -> None:
    """Catches progress that never ends, and a target that cannot be replaced by a second conversion."""
    seen: list[tuple[int, int]] = []
    target = tmp_path / "m.gguf"
    target.write_bytes(b"old")
    convert_checkpoint(checkpoint, target, types=F32, progress=lambda done, total, _: seen.append((done, total)))
    total = seen[0][1]
    assert seen == [(i, total) for i in range(total + 1)]
    assert target.read_bytes()[:4] == b"GGUF"
    assert total == len(gguf.GGUFReader(target).tensors)


def test_target_folder_missing(checkpoint: Path, tmp_path: Path) -> None:
    """Catches a raw OSError, or a partial file somewhere else."""
    with pytest.raises(ConvertError, match="cannot write to"):
        convert_checkpoint(checkpoint, tmp_path / "absent" / "m.gguf", types=F32)
    shutil.rmtree(checkpoint)
    with pytest.raises(ConvertError, match="is not a folder"):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)
