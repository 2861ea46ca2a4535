"""Which front end a model file asks for."""

from __future__ import annotations

from kestrel.engine.errors import ModelFileError
from kestrel.engine.frontends.audio8 import Audio8
from kestrel.engine.frontends.phoneme_words import PhonemeWords
from kestrel.engine.frontends.prompt import FrontEnd
from kestrel.engine.metadata import Metadata


def make_frontend(metadata: Metadata, codebooks: int, semantic_begin: int) -> FrontEnd:
    """Front end named by `kestrel.frontend`. Raises ModelFileError if it is unknown or its data is damaged."""
    name = metadata.text("kestrel.frontend")
    if name == "audio8":
        return Audio8(metadata.text("kestrel.tokenizer"), codebooks, semantic_begin)
    if name == "phoneme-words":
        return PhonemeWords(metadata.text("kestrel.phonemes"), metadata.data("kestrel.lexicon"), codebooks)
    raise ModelFileError(f"kestrel.frontend is {name!r}; valid: audio8, phoneme-words")
