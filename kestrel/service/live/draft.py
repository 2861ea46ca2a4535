"""What a client has written and nobody has spoken yet: utterances in order, each as sentences. Pure bookkeeping."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kestrel.service.errors import OVERLOADED, ApiError
from kestrel.service.live.sentences import Sentence, SentenceBuffer
from kestrel.service.speech import Speech

MAX_UTTERANCES = 64
"""Utterances that may wait to be spoken: a bound for clients that flush without end."""


@dataclass(eq=False, slots=True)
class Utterance:
    """Everything between two flushes.

    `complete`: no more text will come. `refused`: what is not spoken yet never will be. `dropped`: it was cleared.
    """

    number: int
    speech: Speech
    audio: str
    buffer: SentenceBuffer
    sentences: deque[Sentence] = field(default_factory=deque)
    characters: int = 0  # written so far
    complete: bool = False
    refused: bool = False
    dropped: bool = False

    @property
    def unspoken(self) -> int:
        """Characters not yet handed to the engine."""
        return 0 if self.refused else self.buffer.held + sum(len(sentence.text) for sentence in self.sentences)

    def refuse(self) -> None:
        """Nothing more of it is spoken; its text is read over until it is complete."""
        self.refused = True
        self.sentences.clear()


class Draft:
    """Utterances by number, from 0. The last one that is not complete is the one being written."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._utterances: deque[Utterance] = deque()
        self._next = 0

    @property
    def next_number(self) -> int:
        """Number of the utterance that the next text or flush belongs to, if none is being written."""
        return self._next

    @property
    def empty(self) -> bool:
        return not self._utterances

    def writing(self) -> Utterance | None:
        """The utterance that is being written, if any."""
        if self._utterances and not self._utterances[-1].complete:
            return self._utterances[-1]
        return None

    def open(self, speech: Speech, audio: str) -> Utterance:
        """Begins an utterance. Raises ApiError when too many wait."""
        if len(self._utterances) >= MAX_UTTERANCES:
            message = f"{len(self._utterances)} utterances wait to be spoken, the limit; wait for utterance.done"
            raise ApiError(429, message, code="too_many_utterances", kind=OVERLOADED)
        buffer = SentenceBuffer(speech.piece_chars, speech.piece_min_chars)
        self._utterances.append(Utterance(self._next, speech, audio, buffer))
        self._next += 1
        return self._utterances[-1]

    def check_room(self, characters: int) -> None:
        """Raises ApiError if so much text is too much beside what is not yet spoken; none of it is taken then."""
        unspoken = sum(utterance.unspoken for utterance in self._utterances)
        if unspoken + characters > self._max_chars:
            message = (
                f"{characters} characters are too many beside the {unspoken} that are not yet spoken; the limit is "
                f"{self._max_chars} together. Wait for sentence.done, or send clear"
            )
            raise ApiError(400, message, code="text_too_long", param="text")

    def first(self) -> Utterance | None:
        """The utterance to speak now."""
        return self._utterances[0] if self._utterances else None

    def done(self, utterance: Utterance) -> None:
        """It was spoken, or given up. No effect if it has been cleared."""
        if self.first() is utterance:
            self._utterances.popleft()

    def clear(self) -> list[Utterance]:
        """Forgets everything; the utterances that were there. The next one has a new number."""
        cleared = list(self._utterances)
        for utterance in cleared:
            utterance.dropped = True
        self._utterances.clear()
        return cleared
