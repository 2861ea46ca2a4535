"""Tables of `kestrel info`, `models` and `voices`. Models are read, not loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, ReaderField, ReaderTensor
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kestrel.engine import ModelEntry, ModelFileError
from kestrel.engine.metadata import read_metadata

_SHOWN_VALUE = 100
_SHOWN_ITEMS = 16


def print_model(path: Path, console: Console, *, every_tensor: bool) -> None:
    """Prints keys, tensors by type and by part, and with `every_tensor` each of them. Raises ModelFileError."""
    read_metadata(path)  # refuses what is not GGUF with a clear message, before the reader below trips over it
    try:
        reader = _Reader(path)
    except Exception as error:
        raise ModelFileError(f"{path}: the tensor section cannot be read: {error}") from error
    console.print(_keys_table(path, reader.fields.values()))
    console.print(_groups_table("Tensors by type", "Type", reader.tensors, lambda tensor: tensor.tensor_type.name))
    console.print(_groups_table("Tensors by part", "Part", reader.tensors, _part))
    if every_tensor:
        console.print(_tensors_table(reader.tensors))


class _Reader(GGUFReader):
    """Takes a byte array as one part. The base class makes an object of every byte: seconds for a lexicon."""

    def _get_field_parts(
        self, orig_offs: int, raw_type: int
    ) -> tuple[int, list[NDArray[Any]], list[int], list[GGUFValueType]]:
        if raw_type == GGUFValueType.ARRAY:
            kind, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
            if kind[0] == GGUFValueType.UINT8:
                content = self._get(orig_offs + 12, np.uint8, int(length[0]))
                types = [GGUFValueType.ARRAY, GGUFValueType.UINT8]
                return 12 + len(content), [kind, length, content], [2], types
        return super()._get_field_parts(orig_offs, raw_type)


def models_table(models: Iterable[ModelEntry]) -> Table:
    """Name, title, languages, licence and size of each."""
    table = Table("Name", "Title", "Languages", "License", "Size", title="Built-in models")
    for model in models:
        table.add_row(model.name, model.title, ", ".join(model.languages), model.license, _size(model.size))
    return table


def voices_table(path: Path) -> Table:
    """Voices of one model file. Raises ModelFileError."""
    metadata = read_metadata(path)
    languages = ", ".join(metadata.texts("kestrel.languages"))
    table = Table("Voice", "Languages", title=f"Voices of {escape(metadata.text('general.name'))}")
    for voice in metadata.texts("kestrel.voices"):
        table.add_row(escape(voice), escape(languages))
    return table


def _keys_table(path: Path, fields: Iterable[ReaderField]) -> Table:
    table = Table("Key", "Type", "Value", title=escape(f"{path.name}, {_size(path.stat().st_size)}"))
    for field in fields:
        kind = field.types[-1].name.lower() + "[]" * (len(field.types) - 1)
        table.add_row(escape(field.name), escape(kind), _value(field))
    return table


def _value(field: ReaderField) -> str:
    """The value on one line; long ones are cut, byte arrays counted."""
    if field.types[:1] == [GGUFValueType.ARRAY]:
        if field.types[-1] == GGUFValueType.UINT8:
            return f"{len(field.parts[-1])} bytes"
        if len(field.data) > _SHOWN_ITEMS:
            return f"{len(field.data)} items"
        return escape(", ".join(map(str, field.contents())))
    text = " ".join(str(field.contents()).split())
    return escape(text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}… ({len(text)} characters)")


def _part(tensor: ReaderTensor) -> str:
    """`slow`, `fast`, `codec.dec`, ...: the stage that a tensor belongs to."""
    names = str(tensor.name).split(".")
    return ".".join(names[:2]) if names[0] == "codec" else names[0]


def _groups_table(
    title: str, column: str, tensors: Iterable[ReaderTensor], group_of: Callable[[ReaderTensor], str]
) -> Table:
    groups: dict[str, list[ReaderTensor]] = defaultdict(list)
    for tensor in tensors:
        groups[group_of(tensor)].append(tensor)
    table = Table(column, title=title)
    for heading in ("Tensors", "Parameters", "Size"):
        table.add_column(heading, justify="right")
    for name, members in sorted(groups.items(), key=lambda item: -_bytes(item[1])):
        table.add_row(escape(name), *_sums(members))
    table.add_section()
    table.add_row("all", *_sums([tensor for members in groups.values() for tensor in members]))
    return table


def _sums(tensors: list[ReaderTensor]) -> tuple[str, str, str]:
    parameters = sum(int(tensor.n_elements) for tensor in tensors)
    return str(len(tensors)), f"{parameters:,}", _size(_bytes(tensors))


def _bytes(tensors: list[ReaderTensor]) -> int:
    return sum(int(tensor.n_bytes) for tensor in tensors)


def _tensors_table(tensors: Iterable[ReaderTensor]) -> Table:
    table = Table("Tensor", "Type", "Shape", "Size", title="Tensors, slowest axis first")
    for tensor in tensors:
        shape = " × ".join(str(int(axis)) for axis in reversed(tensor.shape))
        table.add_row(escape(str(tensor.name)), tensor.tensor_type.name, shape, _size(int(tensor.n_bytes)))
    return table


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"
