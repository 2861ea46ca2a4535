"""The speech engine: `Engine` speaks `Utterance`s and answers with `Stream`s of samples."""

from kestrel.engine.engine import Engine
from kestrel.engine.errors import BusyError, ClosedError, EngineError, ModelFileError, TextError, TextTooLongError
from kestrel.engine.model import ModelInfo
from kestrel.engine.registry import ModelEntry, builtin_models, resolve_model
from kestrel.engine.stream import Chunk, Phase, Result, Stream, WordTime
from kestrel.engine.utterance import Sampling, Utterance

__all__ = [
    "BusyError",
    "Chunk",
    "ClosedError",
    "Engine",
    "EngineError",
    "ModelEntry",
    "ModelFileError",
    "ModelInfo",
    "Phase",
    "Result",
    "Sampling",
    "Stream",
    "TextError",
    "TextTooLongError",
    "Utterance",
    "WordTime",
    "builtin_models",
    "resolve_model",
]
