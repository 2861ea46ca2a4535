"""How tensors are stored: the type of each group, and the encoding of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from .errors import ConvertError
from .names import Kind, Shape
from .tensors import Floats

MatrixType = Literal["f32", "f16", "bf16", "q8_0"]
ConvType = Literal["f32", "f16"]

TYPES = {"f32": Type.F32, "f16": Type.F16, "bf16": Type.BF16, "q8_0": Type.Q8_0}
BLOCK = 32  # values a q8_0 block


@dataclass(frozen=True)
class Types:
    """Storage types by tensor group. Everything else (norms, biases, scales, VQ tables, Mamba vectors) is f32.

    Raises ValueError for an unknown type.
    """

    linears: MatrixType = "q8_0"
    embeddings: MatrixType = "f16"
    codec_convs: ConvType = "f16"

    def __post_init__(self) -> None:
        choices = {
            "linears": MatrixType,
            "embeddings": MatrixType,
            "codec_convs": ConvType,
        }
        for group, choice in choices.items():
            if getattr(self, group) not in get_args(choice):
                raise ValueError(f"{group} must be one of {', '.join(get_args(choice))}, not {getattr(self, group)!r}")


def storage_type(kind: Kind, shape: Shape, types: Types) -> Type:
    """Type of one tensor. Rows that do not fill whole q8_0 blocks fall back to f16."""
    groups = {
        "linear": types.linears,
        "embedding": types.embeddings,
        "conv": types.codec_convs,
    }
    chosen = TYPES[groups[kind]] if kind in groups else Type.F32
    return Type.F16 if chosen is Type.Q8_0 and shape[-1] % BLOCK else chosen


def n_bytes(shape: Shape, storage: Type) -> int:
    """Bytes of one stored tensor."""
    block, size = gguf.GGML_QUANT_SIZES[storage]
    return int(np.prod(shape, dtype=np.int64)) // block * size


def encode(name: str, values: Floats, storage: Type) -> NDArray[Any]:
    """Stored form of a tensor. Raises ConvertError if a value is not finite, or beyond what f16 can hold."""
    if not np.isfinite(values).all():
        raise ConvertError(f"tensor {name!r} holds a value that is not finite")
    if storage is Type.F16 and values.size and np.abs(values).max() > np.finfo(np.float16).max:
        raise ConvertError(f"tensor {name!r} holds a value too large for f16; choose f32 or bf16 for its group")
    encoded: NDArray[Any] = gguf.quants.quantize(np.ascontiguousarray(values), storage)
    return encoded
