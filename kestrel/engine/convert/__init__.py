"""Converter from the published Audio8 0.1B layout to one Kestrel model file. No PyTorch, and no pickle code is run."""

from .checkpoint import convert_checkpoint
from .errors import ConvertError
from .storage import Types

__all__ = ["ConvertError", "Types", "convert_checkpoint"]
