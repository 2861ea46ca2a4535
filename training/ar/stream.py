"""Interleaved token streams: words alternate with the frames that speak them.

    BOS w0 w1 | MARKER f f f (NEXT) w2 | MARKER f f (NEXT) ... END | MARKER f f f (EOS)

The model always knows the word it speaks and the one after it. NEXT and EOS are targets only: the position before
them predicts the class, then the engine feeds the next word. Codebook 0 of frame t is predicted at the position
before frame t.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from training.ar.config import DataConfig
from training.ar.vocabulary import BOS, END, LETTER_IDS, MARKER, PHONEME_IDS, SILENT

Ints = NDArray[np.int64]

DURATION_UNIT = 0.025
"""Seconds per unit of the teacher's phoneme durations."""
FRAME_SECONDS = 0.04


@dataclasses.dataclass(frozen=True)
class Word:
    """One spoken word with both of its spellings."""

    phonemes: tuple[int, ...]
    letters: tuple[int, ...]
    """Empty if the word cannot be spelled (digits, initialisms, text and phonemes that do not match)."""
    first_symbol: int
    """Index of its first phoneme in the phoneme string of the utterance."""


@dataclasses.dataclass(frozen=True)
class Utterance:
    """A line of the corpus, cut to frames."""

    words: tuple[Word, ...]
    codes: Ints
    """[frames, codebooks]"""
    symbol_of_frame: Ints
    """[frames] index in the phoneme string of what is spoken at the middle of each frame"""
    word_of_frame: Ints
    """[frames], never decreasing"""


@dataclasses.dataclass(frozen=True)
class Stream:
    """Model input and targets of one utterance, all of length T."""

    tokens: Ints
    """Text id, or -(f + 1) for frame f."""
    targets: Ints
    """Class of the compact head, -1 where nothing is predicted."""
    aligned: Ints
    """[predictions, 2]: position, and position of the text symbol that is spoken next."""
    codes: Ints

    @property
    def length(self) -> int:
        return len(self.tokens)


def split_words(text: str, phonemes: str) -> list[Word]:
    """Pair the words of a line with those of its phoneme string (both separated by single spaces).

    Punctuation stays with the word before it, in both spellings. Words without any phoneme are left out.
    """
    spoken = phonemes.split(" ")
    written = text.split()
    matched = len(spoken) == len(written)
    words = []
    first = 0
    for index, symbols in enumerate(spoken):
        ids = tuple(PHONEME_IDS[s] for s in symbols if s in PHONEME_IDS)
        if ids:
            words.append(Word(ids, spell(written[index]) if matched else (), first))
        first += len(symbols) + 1
    return words


def spell(word: str) -> tuple[int, ...]:
    """Letter ids of a written word; empty for initialisms, whose letters do not say how they are read."""
    letters = [c for c in word if c.isalpha()]
    if not letters or (len(letters) > 1 and all(c.isupper() for c in letters)):
        return ()
    if any(c.lower() not in LETTER_IDS for c in word):
        return ()
    return tuple(LETTER_IDS[c] for c in word.lower())


def make_utterance(
    text: str, phonemes: str, durations: NDArray[np.int16], codes: NDArray[np.int16], config: DataConfig
) -> Utterance | None:
    """Build an utterance from a corpus entry; None if nothing is spoken.

    durations [len(phonemes) + 2] in units of 25 ms, with the silence before and after at both ends. Silence at both
    ends is cut off in whole frames, so that speech starts with the first samples and the end is not waited for.
    """
    words = split_words(text, phonemes)
    sounds = [i for i, symbol in enumerate(phonemes) if symbol not in SILENT]
    if not words or not sounds:
        return None
    ends = np.cumsum(durations) * DURATION_UNIT  # ends[i + 1] is the nominal end of symbol i
    first = min(config.lead_frames, int(ends[0] / FRAME_SECONDS), len(codes) - 1)
    # The teacher's closing silence is part of its last sound's duration, so the cut counts from that sound's start.
    stop = math.ceil((ends[sounds[-1]] + config.trail_seconds) / FRAME_SECONDS)
    stop = max(first + 1, min(stop, len(codes)))
    middles = (np.arange(first, stop) + 0.5) * FRAME_SECONDS + config.anticipation
    symbol = np.clip(np.searchsorted(ends, middles, side="right") - 1, 0, len(phonemes) - 1)
    firsts = np.array([w.first_symbol for w in words])
    word = np.clip(np.searchsorted(firsts, symbol, side="right") - 1, 0, len(words) - 1)
    return Utterance(tuple(words), codes[first:stop].astype(np.int64), symbol.astype(np.int64), word.astype(np.int64))


def choose_lettered(
    utterance: Utterance, modes: tuple[float, float, float, float], chance: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which words to spell: [words].

    `modes` are the chances of: none, one word, each word with `chance`, all. One spelled word among phonemes is
    what an unknown name looks like when speaking; whole spelled lines give the letters enough practice.
    """
    can = np.array([bool(w.letters) for w in utterance.words])
    chosen = np.zeros(len(can), dtype=bool)
    if not can.any():
        return chosen
    mode = int(rng.choice(4, p=np.array(modes) / sum(modes)))
    if mode == 1:
        chosen[int(rng.choice(np.flatnonzero(can)))] = True
    elif mode == 2:
        chosen = can & (rng.random(len(can)) < chance)
    elif mode == 3:
        chosen = can
    return chosen


def build_stream(utterance: Utterance, lettered: NDArray[np.bool_], next_class: int, eos_class: int) -> Stream:
    """Lay out one utterance; `lettered` [words] says which words are given by letters."""
    words = utterance.words
    tokens: list[int] = [BOS]
    targets: list[int] = [-1]
    aligned: list[tuple[int, int]] = []
    starts: list[int] = []

    def feed_word(index: int) -> None:
        ids: tuple[int, ...] = (END,)
        if index < len(words):
            ids = words[index].letters if lettered[index] else words[index].phonemes
            starts.append(len(tokens))
        tokens.extend(ids)
        targets.extend([-1] * len(ids))

    def symbol_position(index: int, frame: int | None) -> int:
        """Position of the symbol of word `index` spoken in `frame`; its last one if no frame of it is left."""
        word = words[index]
        spoken = len(word.phonemes)
        offset = spoken - 1
        if frame is not None:
            offset = min(max(int(utterance.symbol_of_frame[frame]) - word.first_symbol, 0), spoken - 1)
        if lettered[index]:  # letters and phonemes do not match one to one: same share of the word
            offset = offset * len(word.letters) // spoken
        return starts[index] + offset

    feed_word(0)
    feed_word(1)
    bounds = np.searchsorted(utterance.word_of_frame, np.arange(len(words) + 1))
    for index in range(len(words)):
        frames = range(int(bounds[index]), int(bounds[index + 1]))
        end = next_class if index + 1 < len(words) else eos_class
        classes = [*(int(c) for c in utterance.codes[frames.start : frames.stop, 0]), end]
        spoken: list[int | None] = [*frames, None]
        for step, token in enumerate([MARKER, *(-(f + 1) for f in frames)]):
            aligned.append((len(tokens), symbol_position(index, spoken[step])))
            tokens.append(token)
            targets.append(classes[step])
        if index + 1 < len(words):
            feed_word(index + 2)
    return Stream(np.array(tokens), np.array(targets), np.array(aligned), utterance.codes)
