"""Converts one checkpoint folder of the published Audio8 0.1B layout to one model file (docs/model-format.md)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import gguf
import numpy as np

from . import dimensions
from .configuration import Configuration
from .errors import ConvertError
from .keys import Key, keys
from .names import Row, codec_rows, language_model_rows
from .safetensors_file import SafetensorsFile
from .storage import Types, encode, n_bytes, storage_type
from .tensors import TensorFile
from .torch_file import TorchFile
from .weight_norm import FoldedFile

Progress = Callable[[int, int, str], None]
Plan = list[tuple[Row, TensorFile]]


def convert_checkpoint(source: Path, target: Path, *, types: Types, progress: Progress | None = None) -> None:
    """Writes `target` from the checkpoint folder `source`.

    progress(done, total, name) is called before each tensor and once at the end. The file appears under its name only
    when it is complete. Raises ConvertError naming the file, key or tensor that is missing or wrong.
    """
    if not source.is_dir():
        raise ConvertError(f"{source} is not a folder; expected one with config.json, model.safetensors and codec.pth")
    config = Configuration.read(source / "config.json")
    generation = Configuration.read(source / "generation_config.json", required=False)
    tokenizer = _tokenizer(source / "tokenizer.json")
    model = dimensions.language_model(config)
    weights = SafetensorsFile(source / "model.safetensors")
    codec_name = config.text("codec_filename", "codec.pth")
    if Path(codec_name).name != codec_name:
        raise ConvertError(f"config.json: key 'codec_filename' is {codec_name!r}; expected a plain file name")
    codec_weights = FoldedFile(TorchFile(source / codec_name))
    codec = dimensions.codec(config, codec_weights, model.codebooks)

    plan: Plan = [(row, weights) for row in language_model_rows(model)]
    plan += [(row, codec_weights) for row in codec_rows(codec)]
    _check(plan)
    _write(
        target,
        plan,
        keys(source.resolve().name, config, generation, model, codec, tokenizer),
        types,
        progress,
    )


def _tokenizer(path: Path) -> str:
    """The tokenizer's text as it stands: splitting rules and special pieces are its own business."""
    try:
        text = path.read_text(encoding="utf-8")
        json.loads(text)
    except FileNotFoundError as error:
        raise ConvertError(f"{path.name} is missing from {path.parent}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ConvertError(f"{path.name} cannot be read as JSON: {error}") from error
    return text


def _check(plan: Plan) -> None:
    """All tensors are there and have their shapes, so that a long conversion does not fail half-way."""
    known = {id(file): set(file.names()) for _, file in plan}
    for row, file in plan:
        if row.source not in known[id(file)]:
            raise ConvertError(f"tensor {row.source!r} is missing; expected shape {list(row.shape)}")
        if file.shape(row.source) != row.shape:
            found = list(file.shape(row.source))
            raise ConvertError(f"tensor {row.source!r} has shape {found}; expected {list(row.shape)}")


def _write(
    target: Path,
    plan: Plan,
    metadata: Iterable[Key],
    types: Types,
    progress: Progress | None,
) -> None:
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise ConvertError(f"cannot write to {target.parent}: {error}") from error
    os.close(handle)
    partial = Path(name)
    writer = gguf.GGUFWriter(partial, "dualar")
    try:
        for key, value, kind, element in metadata:
            writer.add_key_value(key, value, kind, element)
        stored = [storage_type(row.kind, row.target_shape, types) for row, _ in plan]
        for (row, _), storage in zip(plan, stored, strict=True):
            size = n_bytes(row.target_shape, storage)
            writer.add_tensor_info(
                row.target,
                row.target_shape,
                np.dtype(np.float32),
                size,
                raw_dtype=storage,
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        # One tensor in memory at a time: a full-size checkpoint converts in a few hundred MB.
        for done, ((row, file), storage) in enumerate(zip(plan, stored, strict=True)):
            if progress:
                progress(done, len(plan), row.target)
            values = file.read(row.source).reshape(row.target_shape)
            writer.write_tensor_data(encode(row.source, values, storage))
        writer.close()
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except OSError as error:
        raise ConvertError(f"cannot write {target}: {error}") from error
    finally:
        writer.close()
        partial.unlink(missing_ok=True)
    if progress:
        progress(len(plan), len(plan), target.name)
