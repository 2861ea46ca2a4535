"""Finding and opening models and the library.

Faults caught: crashes on damaged files, errors that do not say which file or what would be valid, declarations that
drift from the header.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel.engine import Engine, EngineError, ModelFileError, builtin_models, resolve_model
from kestrel.engine.binding import (
    BACKENDS,
    FINISHES,
    PHASES,
    TEXT_MODES,
    header_declarations,
    library_path,
    open_library,
)
from kestrel.engine.frontends import make_frontend
from kestrel.engine.metadata import read_metadata


def test_default_model_is_built_in() -> None:
    """`default` must work from any folder, and be listed with what a user needs to know."""
    entry = {entry.name: entry for entry in builtin_models()}["default"]
    assert entry.path == resolve_model("default")
    assert (entry.license, entry.languages) == ("Apache-2.0", ("en",))
    assert entry.size == entry.path.stat().st_size < 30_000_000
    assert resolve_model(str(entry.path)) == entry.path


@pytest.mark.parametrize("name", ["nothing", "../voices/default", "", "default.gguf", "a\x00b"])
def test_unknown_models_are_refused_with_the_list(name: str) -> None:
    """The message says what was asked for and what exists."""
    with pytest.raises(ModelFileError, match=r"built-in models: .*default"):
        resolve_model(name)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    """Not GGUF, empty, cut short, or another program's GGUF: a ModelFileError each, and the next load works."""
    whole = resolve_model("default").read_bytes()
    foreign = tmp_path / "foreign.gguf"
    writer = gguf.GGUFWriter(foreign, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = {"text": b"hello", "empty": b"", "cut": whole[: len(whole) // 2], "keys": whole[:5000]}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in [*files, "foreign.gguf"]:
        with pytest.raises(ModelFileError):
            Engine(tmp_path / name, slots=1, threads=1)
    with pytest.raises(ModelFileError):
        Engine(tmp_path, slots=1, threads=1)
    Engine(slots=1, threads=1).close()


@pytest.mark.parametrize("arguments", [{"slots": 0}, {"slots": 1000}, {"threads": -1}, {"backend": "cuda"}])
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    """An EngineError, not a crash."""
    with pytest.raises(EngineError):
        Engine(**{"slots": 1, "threads": 1, **arguments})  # type: ignore[arg-type]


def small_file(folder: Path) -> bytes:
    """A GGUF file with a key of every kind the reader knows."""
    path = folder / "small.gguf"
    writer = gguf.GGUFWriter(path, "dualar")
    writer.add_string("kestrel.frontend", "espeak")
    writer.add_array("kestrel.lexicon", b"\x01\x02")
    writer.add_array("kestrel.voices", ["a", "b"])
    writer.add_uint32("number", 7)
    writer.add_float32("real", 0.5)
    writer.add_bool("flag", True)
    writer.add_string("last", "value")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_metadata_reads_what_the_writer_wrote(tmp_path: Path) -> None:
    """Against the gguf package as the independent writer."""
    small_file(tmp_path)
    metadata = read_metadata(tmp_path / "small.gguf")
    assert metadata.text("general.architecture") == "dualar"
    assert metadata.data("kestrel.lexicon") == b"\x01\x02"
    assert metadata.texts("kestrel.voices") == ("a", "b")
    assert metadata.number("number") == 7
    for wrong in (metadata.text, metadata.data, metadata.texts):
        with pytest.raises(ModelFileError, match="number must be"):
            wrong("number")
    for key in ("flag", "real"):
        with pytest.raises(ModelFileError, match="must be an integer"):
            metadata.number(key)
    with pytest.raises(ModelFileError, match="key nothing is missing"):
        metadata.text("nothing")
    with pytest.raises(ModelFileError, match="'espeak'; valid: audio8, phoneme-words"):
        make_frontend(metadata, 4, 100)


def test_every_cut_inside_the_keys_is_refused(tmp_path: Path) -> None:
    """A file that ends early must not be read with a shortened string."""
    whole = small_file(tmp_path)
    end = whole.index(b"value") + len(b"value")
    path = tmp_path / "cut.gguf"
    for size in range(end):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            read_metadata(path)
    path.write_bytes(whole[:end])
    assert read_metadata(path).number("number") == 7


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_metadata_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cut or altered keys are read as something or refused; no other exception, no endless allocation."""
    folder = tmp_path_factory.mktemp("damaged")
    whole = bytearray(small_file(folder))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "damaged.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with contextlib.suppress(ModelFileError):
        read_metadata(path)


def test_declarations_match_the_wrappers() -> None:
    """Names the wrappers use for enum values are in the order of the header that the library came with."""
    library = open_library(library_path())
    constants = library.ffi.typeof("enum ks_finish").relements
    assert [name.removeprefix("KS_FINISH_").lower() for name in sorted(constants, key=constants.get)] == [
        "none",
        *FINISHES[1:],
    ]
    renamed = {"slow_step": "falcon_step"}
    phases = library.ffi.typeof("enum ks_phase").relements
    names = [name.removeprefix("KS_PHASE_").lower() for name in sorted(phases, key=phases.get)]
    assert [renamed.get(name, name) for name in names] == [*PHASES, "count"]
    for prefix, enum, expected in (("KS_TEXT_", "ks_text_mode", TEXT_MODES), ("KS_BACKEND_", "ks_backend", BACKENDS)):
        values = library.ffi.typeof(f"enum {enum}").relements
        assert tuple(name.removeprefix(prefix).lower() for name in sorted(values, key=values.get)) == expected


def test_a_header_without_marks_is_refused() -> None:
    """Another version's header must not be half parsed."""
    with pytest.raises(EngineError, match="cdef marks"):
        header_declarations("int f(void);")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names the path that was tried; a file that is no library is an EngineError too."""
    monkeypatch.setenv("KESTREL_LIBRARY", str(tmp_path / "gone.so"))
    with pytest.raises(EngineError, match=r"gone\.so"):
        Engine(slots=1)
    (tmp_path / "gone.so").write_bytes(b"no library")
    with pytest.raises(EngineError, match="cannot be used"):
        Engine(slots=1)
