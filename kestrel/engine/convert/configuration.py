"""Typed access to `config.json` and `generation_config.json`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .errors import ConvertError


class Configuration:
    """One JSON object of settings. Every accessor raises ConvertError naming the key and what it must be."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self._values = values

    @classmethod
    def read(cls, path: Path, *, required: bool = True) -> Configuration:
        if not required and not path.exists():
            return cls(path.name, {})
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConvertError(f"{path.name} is missing from {path.parent}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise ConvertError(f"{path.name} cannot be read as JSON: {error}") from error
        if not isinstance(values, dict):
            raise ConvertError(f"{path.name} must hold a JSON object")
        return cls(path.name, values)

    def _wrong(self, key: str, expected: str) -> ConvertError:
        found = f"is {self._values[key]!r}" if key in self._values else "is missing"
        return ConvertError(f"{self.name}: key {key!r} {found}; expected {expected}")

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self._values.get(key, default)
        if type(value) is not int or not least <= value < 1 << 31:
            raise self._wrong(key, f"a whole number from {least}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(key, "a finite number")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise self._wrong(key, "a number above 0")
        return value

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """A list of `count` numbers; ones if the key is absent, which is what muP multipliers default to."""
        value = self._values.get(key, [1.0] * count)
        right = isinstance(value, list) and len(value) == count
        if not right or not all(isinstance(v, int | float) and math.isfinite(v) for v in value):
            raise self._wrong(key, f"a list of {count} finite numbers")
        return tuple(float(v) for v in value)

    def text(self, key: str, default: str) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def must_be(self, key: str, expected: Any, default: Any, why: str) -> None:
        """Refuses a variant of the architecture that the engine does not compute."""
        if self._values.get(key, default) != expected:
            raise self._wrong(key, f"{expected!r} ({why})")
