"""Hostile and damaged checkpoint files: nothing they name is run, and every one is refused in one way."""

from __future__ import annotations

import os
import pickle
import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kestrel.engine.convert import ConvertError, Types, convert_checkpoint
from kestrel.engine.convert.safetensors_file import SafetensorsFile
from kestrel.engine.convert.torch_file import TorchFile
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import TINY, CodecDims

F32 = Types("f32", "f32", "f32")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "checkpoint", TINY)


class Exploit:
    """Pickles as a call of a function."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._call = (call, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def rewrite(path: Path, change: Callable[[str, bytes], tuple[str, bytes, int]]) -> None:
    """Rewrites every record of a zip archive."""
    old = path.rename(path.with_suffix(".old"))
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(path, "w") as target:
        for info in source.infolist():
            name, data, method = change(info.filename, source.read(info))
            target.writestr(name, data, method)
    old.unlink()


def with_pickle(path: Path, program: bytes) -> None:
    rewrite(path, lambda n, d: (n, program if n.endswith("data.pkl") else d, zipfile.ZIP_STORED))


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_hostile_pickle_runs_nothing(checkpoint: Path, tmp_path: Path, protocol: int, nested: bool) -> None:
    """Catches arbitrary code execution through codec.pth: the marker file must not appear."""
    marker = tmp_path / "executed"
    exploit = Exploit(os.system, f"touch {marker}")
    tree = {"state_dict": {"a": [exploit]}} if nested else exploit
    with_pickle(checkpoint / "codec.pth", pickle.dumps(tree, protocol=protocol))
    with pytest.raises(ConvertError, match=r"codec\.pth: refused: .*(system|opcode)"):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)
    assert not marker.exists()


HOSTILE = {
    "getattr chain": pickle.dumps(Exploit(getattr, [], "append")),
    "builtins eval": b"cbuiltins\neval\n(V1\ntR.",
    "reduce of a storage class": b"ctorch\nFloatStorage\n)R.",
    "build on a class": b"ccollections\nOrderedDict\n}b.",
    "instance opcode": b"(V1\nios\nsystem\n.",
    "new object": b"ccollections\nOrderedDict\n)\x81.",
    "extension registry": b"\x82\x01.",
    "no end": b"}",
    "stack underflow": b"R.",
    "unknown memo": b"h\x07.",
    "not a tree": b"I1\n.",
    "empty": b"",
    "cut string": b"X\xff\xff\xff\x7fabc",
    "doubling tuples": b"(t" + b"q\x00h\x00\x86" * 200 + b")R.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_pickle_is_refused(checkpoint: Path, tmp_path: Path, name: str) -> None:
    """Catches interpreter crashes, hangs and exceptions of other types on programs that torch.save never writes."""
    with_pickle(checkpoint / "codec.pth", HOSTILE[name])
    with pytest.raises(ConvertError, match=r"codec\.pth: "):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)


@pytest.mark.parametrize("name", ["codec.pth", "model.safetensors"])
def test_random_damage_is_refused_or_read(tmp_path: Path, name: str) -> None:
    """Catches exceptions other than ConvertError, and hangs, on files with a few wrong bytes where structure lies: the
    first kilobytes and, for the archive, its pickle and its directory at the end."""
    dims = replace(TINY, layers=1, fast_layers=1, codec=CodecDims(post_layers=1, channels=(4, 2), strides=(4,)))
    source = write_checkpoint(tmp_path / "c", dims, encoder=False) / name
    good = source.read_bytes()
    choose = random.Random(0)
    refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(choose.choice((1, 1, 3, 20))):
            place = choose.randrange(12_000) if choose.random() < 0.6 else len(bad) - 1 - choose.randrange(12_000)
            bad[place % len(bad)] = choose.choice((0, 1, 0x7F, 0xFF, choose.randrange(256)))
        if choose.random() < 0.1:
            del bad[choose.randrange(len(bad)) :]
        source.write_bytes(bad)
        try:
            file: TorchFile | SafetensorsFile = TorchFile(source) if name == "codec.pth" else SafetensorsFile(source)
            for tensor in file.names():
                file.read(tensor)
        except ConvertError:
            refused += 1
    assert refused > 30


def test_compressed_archive_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Catches a zip bomb: compressed records could unfold to any size."""
    rewrite(checkpoint / "codec.pth", lambda n, d: (n, d, zipfile.ZIP_DEFLATED))
    with pytest.raises(ConvertError, match="is compressed or encrypted"):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)


def test_record_path_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Catches archive names that point outside the archive."""
    rewrite(checkpoint / "codec.pth", lambda n, d: (n.replace("data/3", "../3"), d, zipfile.ZIP_STORED))
    with pytest.raises(ConvertError, match="odd name"):
        convert_checkpoint(checkpoint, tmp_path / "m.gguf", types=F32)


def test_views_of_one_storage(tmp_path: Path) -> None:
    """Catches offsets and strides ignored: torch saves a slice as a view of its whole storage."""
    base = torch.arange(24.0)
    state = {"slice": base[5:9], "columns": base.view(4, 6).T[1:3], "scalar": base[7], "empty": base[:0]}
    torch.save({"state_dict": state}, tmp_path / "views.pth")
    file = TorchFile(tmp_path / "views.pth")
    for name, tensor in state.items():
        np.testing.assert_array_equal(file.read(name), tensor.numpy())


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [
        ((25,), (1,), 0),
        ((4, 6), (6, 1), 1),
        ((2,), (24,), 0),
        ((1 << 40,), (0,), 0),
        ((3,), (-1,), 2),
        ((0,), (1,), 99),
    ],
)
def test_views_beyond_their_storage(
    tmp_path: Path, shape: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    """Catches reads outside a record, and a stride of 0 that would blow a few bytes up to terabytes."""
    path = tmp_path / "views.pth"
    torch.save({"tensor": torch.arange(24.0)}, path)
    with zipfile.ZipFile(path) as archive:
        program = archive.read("views/data.pkl")

    def number(n: int) -> bytes:
        return b"I%d\n" % n

    shape_code = b"(" + b"".join(map(number, shape)) + b"t"
    stride_code = b"(" + b"".join(map(number, stride)) + b"t"
    begin = program.index(b"QK\x00K\x18\x85")  # storage, offset 0, shape (24,)
    end = program.index(b"K\x01\x85", begin)  # stride (1,)
    rest = program[end + 3 :]
    rest = rest[2:] if rest[:1] == b"q" else rest  # its memo entry, which nothing reads
    with_pickle(path, program[: begin + 1] + number(offset) + shape_code + stride_code + rest)
    if shape == (0,):
        assert TorchFile(path).read("tensor").size == 0
        return
    with pytest.raises(ConvertError, match=r"reaches beyond|malformed"):
        TorchFile(path).read("tensor")
