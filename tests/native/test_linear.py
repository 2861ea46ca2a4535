"""The matrix kernel of the AR stages: exact on dequantised weights, and blind to what runs beside a column."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.native.op_call import Floats, Stored, run_op

TYPES = ["f32", "f16", "bf16", "q8_0"]
# out, in: around the tile of 4 and 8 rows; in that is no multiple of a vector (not for q8_0, whose blocks hold 32)
SHAPES = [(1, 32), (7, 64), (8, 32), (33, 96), (50, 37)]


def stored(weight: Floats, kind: str) -> tuple[Stored, NDArray[np.float64]]:
    """The weight in a storage type, and the values it then has."""
    wanted = gguf.GGMLQuantizationType[kind.upper()]
    data = gguf.quants.quantize(weight, wanted)
    return (
        Stored(kind, weight.shape, np.ascontiguousarray(data).view(np.uint8).reshape(-1)),
        gguf.quants.dequantize(data, wanted).astype(np.float64).reshape(weight.shape),
    )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_columns_are_exact_and_independent(kind: str, rows: int, width: int) -> None:
    """Catches wrong tails and block offsets (against float64), activations quantised on the way, and any dependence of
    a column on how many columns or threads there are: the bits must be those of the column alone."""
    if kind == "q8_0" and width % 32:
        width = 64
    generator = np.random.default_rng([rows, width])
    weight, values = stored(generator.standard_normal((rows, width)).astype(np.float32), kind)
    x = generator.standard_normal((11, width)).astype(np.float32)
    expected = x.astype(np.float64) @ values.T
    whole = run_op("linear", [x, weight], (11, rows), threads=3)
    assert np.abs(whole - expected).max() < 2e-5
    for columns in range(1, 6):
        assert np.array_equal(run_op("linear", [x[:columns], weight], (columns, rows)), whole[:columns])


@pytest.mark.parametrize("kind", TYPES)
def test_plain_twin(kind: str) -> None:
    """Catches a twin wired differently: stock mul_mat on the same tensors agrees within the rounding of its
    activations (f16 and bf16 weights round them alike, q8_0 quantises them)."""
    generator = np.random.default_rng(5)
    weight, _ = stored(generator.standard_normal((24, 128)).astype(np.float32), kind)
    x = generator.standard_normal((3, 128)).astype(np.float32)
    own = run_op("linear", [x, weight], (3, 24))
    plain = run_op("linear", [x, weight], (3, 24), plain=True)
    tolerance = {"f32": 2e-5, "f16": 2e-2, "bf16": 2e-1, "q8_0": 2e-1}[kind]
    assert np.abs(own - plain).max() < tolerance
