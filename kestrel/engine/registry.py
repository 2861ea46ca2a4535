"""Which models exist: those that come with the package, and any model file by path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kestrel.engine.errors import ModelFileError
from kestrel.engine.metadata import read_metadata

_VOICES = Path(__file__).parents[1] / "voices"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that comes with the package. `name` is what `resolve_model` takes."""

    name: str
    path: Path
    title: str
    license: str
    languages: tuple[str, ...]
    size: int


def builtin_models() -> tuple[ModelEntry, ...]:
    """Models in the package, by name. Raises ModelFileError if one is damaged."""
    return tuple(_entry(path) for path in sorted(_VOICES.glob("*.gguf")))


def _entry(path: Path) -> ModelEntry:
    metadata = read_metadata(path)
    return ModelEntry(
        name=path.stem,
        path=path,
        title=metadata.text("general.name"),
        license=metadata.text("general.license"),
        languages=metadata.texts("kestrel.languages"),
        size=path.stat().st_size,
    )


def resolve_model(model: str | Path) -> Path:
    """File of a built-in model's name, or of a path. Raises ModelFileError listing the names that exist."""
    path = Path(model).expanduser()
    builtin = _VOICES / f"{model}.gguf"
    if isinstance(model, str) and Path(model).name == model and builtin.is_file():
        return builtin
    if path.is_file():
        return path
    names = ", ".join(sorted(file.stem for file in _VOICES.glob("*.gguf"))) or "none"
    reason = "is a folder" if path.is_dir() else "does not exist"
    raise ModelFileError(f"no model {str(model)!r}: built-in models: {names}; as a path it {reason}")
