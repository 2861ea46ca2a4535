"""What can go wrong in the engine. Every message says what was wrong and what is valid."""

from __future__ import annotations


class EngineError(Exception):
    """A failure of the engine. Subclasses name the ones a caller can act on."""


class ModelFileError(EngineError):
    """The model cannot be found, or its file is damaged or no Kestrel model; the message names the file and the key."""


class TextError(EngineError):
    """The text cannot be spoken by this model: nothing to speak, unsupported characters, or too long."""


class TextTooLongError(TextError):
    """The text does not fit into one utterance; parts of it do."""


class BusyError(EngineError):
    """Too many utterances wait already; try again later."""


class ClosedError(EngineError):
    """The engine was closed, or has failed, and takes no more work."""
