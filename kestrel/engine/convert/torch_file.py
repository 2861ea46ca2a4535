"""Reader of files written by `torch.save`: a zip archive of one pickle and one raw record a storage."""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from . import torch_pickle
from .errors import ConvertError
from .tensors import Floats, widen_bf16
from .torch_pickle import StridedTensor

MAX_PICKLE = 64 << 20
MAX_RECORDS = 100_000
DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
}
PREFIX = "generator."
# What zipfile raises on damaged archives, beyond its own BadZipFile.
DAMAGED = (OSError, EOFError, ValueError, KeyError, RuntimeError, OverflowError, struct.error, zipfile.BadZipFile)


class TorchFile:
    """Tensors of one checkpoint's state dict, a top-level `state_dict` key and a `generator.` prefix taken off.

    Only what a tensor tree needs is accepted: records are stored, never compressed, so that no small file can unfold
    into a huge one, and no code named by the pickle runs. Raises ConvertError otherwise.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self._root = self._check_records()
            tree = torch_pickle.load(self._archive.read(f"{self._root}/data.pkl"))
            order = f"{self._root}/byteorder"
            if order in self._archive.NameToInfo and self._archive.read(order).strip() != b"little":
                raise ConvertError(f"{path.name}: written on a big-endian machine; expected little-endian")
        except DAMAGED as error:
            raise ConvertError(f"{path.name}: not a checkpoint written by torch.save: {error}") from error
        except ConvertError as error:
            raise ConvertError(f"{path.name}: {error}") from error
        if isinstance(tree, dict) and isinstance(tree.get("state_dict"), dict):
            tree = tree["state_dict"]
        if not isinstance(tree, dict):
            raise ConvertError(f"{path.name}: holds no state dict of named tensors")
        found = {k: v for k, v in tree.items() if isinstance(k, str) and isinstance(v, StridedTensor)}
        self._tensors = {k.removeprefix(PREFIX): v for k, v in found.items()}

    def _check_records(self) -> str:
        records = self._archive.infolist()
        if len(records) > MAX_RECORDS or len({r.filename for r in records}) != len(records):
            raise ConvertError("the archive holds too many or doubled records")
        roots = [r.filename.removesuffix("/data.pkl") for r in records if r.filename.endswith("/data.pkl")]
        if len(roots) != 1 or "/" in roots[0]:
            raise ConvertError("the archive needs exactly one data.pkl; older torch files must be saved again")
        for r in records:
            if not re.fullmatch(rf"{re.escape(roots[0])}(/[.\w-]+)+", r.filename) or ".." in r.filename:
                raise ConvertError(f"the archive holds a record with the odd name {r.filename!r}")
            if r.compress_type != zipfile.ZIP_STORED or r.compress_size != r.file_size or r.flag_bits & 1:
                raise ConvertError(f"record {r.filename!r} is compressed or encrypted; torch.save stores records plain")
        if self._archive.getinfo(f"{roots[0]}/data.pkl").file_size > MAX_PICKLE:
            raise ConvertError(f"data.pkl is larger than {MAX_PICKLE} bytes")
        return roots[0]

    def names(self) -> Iterable[str]:
        return self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def read(self, name: str) -> Floats:
        tensor = self._tensors[name]
        storage = tensor.storage
        if storage.kind not in DTYPES:
            raise ConvertError(f"tensor {name!r} is a {storage.kind}; expected one of {', '.join(DTYPES)}")
        record = f"{self._root}/data/{storage.key}"
        info = self._archive.NameToInfo.get(record)
        dtype = np.dtype(DTYPES[storage.kind])
        if info is None or info.file_size != storage.numel * dtype.itemsize:
            raise ConvertError(f"tensor {name!r}: record {record!r} is missing or is not {storage.numel} values long")
        count = math.prod(tensor.shape)
        last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
        if count and (last >= storage.numel or count > storage.numel):
            raise ConvertError(f"tensor {name!r} of shape {list(tensor.shape)} reaches beyond its record")
        try:
            values = np.frombuffer(self._archive.read(record), dtype)
        except DAMAGED as error:
            raise ConvertError(f"tensor {name!r}: {error}") from error
        strides = tuple(s * dtype.itemsize for s in tensor.stride)
        view = np.lib.stride_tricks.as_strided(values[tensor.offset :], tensor.shape, strides, writeable=False)
        return widen_bf16(np.ascontiguousarray(view)) if storage.kind == "BFloat16Storage" else view.astype(np.float32)
