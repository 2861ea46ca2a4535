"""Keys of a GGUF file, read without its tensors.

The native library checks and maps the whole file; this reader serves what Python needs from it (strings, lists of
names, tokenizer, lexicon) and the descriptions of models that are not loaded. Layout: the GGUF specification, version
2 and 3.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

from kestrel.engine.errors import ModelFileError

Value = int | float | bool | str | bytes | tuple["Value", ...]

# GGUF value type -> struct format of one little-endian scalar.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_UINT8, _STRING, _ARRAY = 0, 8, 9
_MOST_KEYS = 100_000


class Metadata:
    """Typed access to the keys; every miss is a ModelFileError that names the file and the key."""

    def __init__(self, path: Path, values: Mapping[str, Value]) -> None:
        self.path = path
        self._values = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def number(self, key: str) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "an integer")
        return value

    def data(self, key: str) -> bytes:
        value = self._get(key)
        if not isinstance(value, bytes):
            raise self._wrong(key, "an array of u8")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._get(key)
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "an array of strings")
        return tuple(str(item) for item in value)

    def _get(self, key: str) -> Value:
        if key not in self._values:
            raise ModelFileError(f"{self.path}: key {key} is missing")
        return self._values[key]

    def _wrong(self, key: str, expected: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: key {key} must be {expected}")


def read_metadata(path: Path) -> Metadata:
    """Raises ModelFileError if `path` cannot be read, is no GGUF file or ends early."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return Metadata(path, _Reader(data).keys())
    except (OSError, ValueError, struct.error, IndexError) as error:
        raise ModelFileError(f"{path}: not a readable GGUF file: {error}") from error


class _Reader:
    """Walks the key section. Raises ValueError, struct.error or IndexError on a damaged one."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def keys(self) -> dict[str, Value]:
        if self._take(4) != b"GGUF":
            raise ValueError("the first four bytes are not GGUF")
        if (version := self._scalar("<I")) not in (2, 3):
            raise ValueError(f"GGUF version {version}; valid: 2, 3")
        self._scalar("<Q")  # number of tensors
        count = int(self._scalar("<Q"))
        if count > _MOST_KEYS:
            raise ValueError(f"{count} keys; at most {_MOST_KEYS} are accepted")
        return {self._string(): self._value(int(self._scalar("<I")), 0) for _ in range(count)}

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError("the file ends inside its keys")
        self._at += size
        return self._data[self._at - size : self._at]

    def _scalar(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return value

    def _string(self) -> str:
        return self._take(int(self._scalar("<Q"))).decode("utf-8")

    def _value(self, kind: int, depth: int) -> Value:
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY or depth > 1:
            raise ValueError(f"value type {kind} is not known")
        inner, count = int(self._scalar("<I")), int(self._scalar("<Q"))
        if inner == _UINT8:
            return self._take(count)
        if count > len(self._data):  # each item takes a byte or more
            raise ValueError("the file ends inside an array")
        return tuple(self._value(inner, depth + 1) for _ in range(count))
