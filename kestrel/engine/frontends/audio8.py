"""Front end of the published Audio8 checkpoints: the chat-style prompt, encoded piece by piece.

Pieces and cleaning follow Audio8_TTS (Audio8-AI), `processing_arktts.py` and the browser runtime's `promptText.js`.
Each piece is encoded on its own, because byte-pair merges must not cross the borders between them.
"""

from __future__ import annotations

import re
import unicodedata

from tokenizers import Tokenizer

from kestrel.engine.errors import ModelFileError, TextError
from kestrel.engine.frontends.prompt import Prompt, Word, text_columns

_BEFORE = (
    "<|im_start|>system\n",
    "convert the provided text to speech",
    "<|im_end|>\n",
    "<|im_start|>user\n",
)
_AFTER = ("<|im_end|>\n", "<|im_start|>assistant\n<|voice|>")
_SPECIAL = re.compile(r"<\|[^|<>\s]*\|>")
_SPEAKER = re.compile(r"<\|speaker:\d+\|>")


class Audio8:
    """Built from the key `kestrel.tokenizer`, the verbatim tokenizer.json of the checkpoint."""

    max_characters = None
    # 21.5 frames a second; about 14 Latin characters a second, and some four of Chinese, which `encode` counts thrice.
    frames_per_symbol = 1.8

    def __init__(self, tokenizer_json: str, codebooks: int, semantic_begin: int) -> None:
        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # the library raises bare Exception
            raise ModelFileError(f"kestrel.tokenizer is not a tokenizer.json: {error}") from error
        self._codebooks = codebooks
        self._semantic_begin = semantic_begin
        self._head = [token for piece in _BEFORE for token in self._ids(piece)]
        self._tail = [token for piece in _AFTER for token in self._ids(piece)]

    def encode(self, text: str) -> Prompt:
        """Raises TextError if `text` holds nothing to speak, or the model's own control markers."""
        cleaned = clean(text)
        if not any(unicodedata.category(c)[0] in "LN" for c in cleaned):
            raise TextError("the text holds nothing to speak; give at least one word, number or letter")
        for marker in _SPECIAL.findall(cleaned):
            if not _SPEAKER.fullmatch(marker):
                raise TextError(f"the text holds {marker}, which the model would take for a command; remove it")
        ids = self._ids(cleaned)
        if max(ids) >= self._semantic_begin:
            raise TextError("the text holds an audio token of the model; remove it")
        return Prompt(
            columns=text_columns([*self._head, *ids, *self._tail], self._codebooks),
            segments=(),
            words=tuple(Word(m.group(), m.start(), m.end(), -1) for m in re.finditer(r"\S+", text)),
            symbols=sum(3 if unicodedata.east_asian_width(c) in "WF" else 1 for c in cleaned),
        )

    def _ids(self, piece: str) -> list[int]:
        return list(self._tokenizer.encode(piece, add_special_tokens=False).ids)


def clean(text: str) -> str:
    """Drops control, format, surrogate and unassigned characters, strips, and makes each white-space run one blank."""
    kept = "".join(c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join(kept.split())
