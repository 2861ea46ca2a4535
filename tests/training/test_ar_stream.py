"""Token streams: what the model reads and what it is asked to predict."""

from __future__ import annotations

import numpy as np
import pytest

from training.ar.config import DataConfig
from training.ar.stream import Stream, Utterance, build_stream, choose_lettered, make_utterance, spell
from training.ar.vocabulary import BOS, END, LETTER_IDS, MARKER, PHONEME_IDS

EOS, NEXT = 32, 33


def stream_of(utterance: Utterance, lettered: list[bool]) -> Stream:
    return build_stream(utterance, np.array(lettered), NEXT, EOS)


def replay(stream: Stream) -> tuple[list[tuple[int, ...]], list[list[int]]]:
    """Read a stream as the engine would make it: text blocks in the order fed, and the frames between them."""
    assert stream.tokens[0] == BOS
    blocks: list[tuple[int, ...]] = []
    segments: list[list[int]] = []
    text: list[int] = []
    for token in stream.tokens[1:]:
        if token == MARKER:
            blocks.append(tuple(text))
            segments.append([])
            text = []
        elif token < 0:
            segments[-1].append(-int(token) - 1)
        else:
            text.append(int(token))
    return blocks, segments


def test_words_are_fed_in_order_one_ahead(utterances: list[Utterance]) -> None:
    """Catches a skipped, repeated or late word: the engine feeds w0 w1, then one word (END, then nothing) a NEXT."""
    for utterance in utterances:
        blocks, _ = replay(stream_of(utterance, [False] * len(utterance.words)))
        words = [w.phonemes for w in utterance.words]
        expected = [(*words[0], *(words[1] if len(words) > 1 else (END,)))]
        expected += [words[k + 1] if k + 1 < len(words) else (END,) for k in range(1, len(words))]
        assert blocks == expected


def test_targets_are_every_frame_once_then_next_or_eos(utterances: list[Utterance]) -> None:
    """Catches targets shifted by a position, a frame lost at a word boundary, and an EOS that is not last."""
    for utterance in utterances:
        stream = stream_of(utterance, [False] * len(utterance.words))
        predicted = stream.targets[stream.targets >= 0]
        assert list(predicted[predicted < EOS]) == list(utterance.codes[:, 0])
        assert list(predicted[predicted >= EOS]) == [NEXT] * (len(utterance.words) - 1) + [EOS]
        assert predicted[-1] == EOS
        # Every prediction is made at a marker or a frame, and the class at a frame is the one after it.
        assert set(np.flatnonzero(stream.targets >= 0)) == set(
            np.flatnonzero((stream.tokens < 0) | (stream.tokens == MARKER))
        )
        _, segments = replay(stream)
        assert [f for segment in segments for f in segment] == list(range(len(utterance.codes)))
        assert [len(s) for s in segments] == list(np.bincount(utterance.word_of_frame, minlength=len(segments)))


def test_only_chosen_words_are_spelled(utterances: list[Utterance]) -> None:
    """Catches letters under phoneme ids (or the reverse) and a choice applied to the wrong word."""
    stream = stream_of(utterances[0], [False, True, False])
    blocks, _ = replay(stream)
    hi = tuple(PHONEME_IDS[c] for c in "hˈI")
    there = tuple(LETTER_IDS[c] for c in "there,")
    bob = tuple(PHONEME_IDS[c] for c in "bˈɑb.")
    assert blocks == [(*hi, *there), bob, (END,)]


@pytest.mark.parametrize("spelled", [False, True])
def test_alignment_points_into_the_spoken_word(utterances: list[Utterance], spelled: bool) -> None:
    """Catches a head supervised to the wrong word, to the future, or backwards inside a word."""
    for utterance in utterances:
        lettered = [spelled and bool(w.letters) for w in utterance.words]
        stream = stream_of(utterance, lettered)
        texts = [w.letters if flag else w.phonemes for w, flag in zip(utterance.words, lettered, strict=True)]
        word = -1
        last = -1
        for position, column in stream.aligned:
            if stream.tokens[position] == MARKER:
                word, last = word + 1, -1
            assert last <= column < position
            last = column
            # All text before this column, without BOS and the frames, must be the words before this one.
            before = [t for t in stream.tokens[1:column] if t >= 0 and t != MARKER]
            start = sum(len(t) for t in texts[:word])
            assert start <= len(before) < start + len(texts[word])


def test_silence_at_both_ends_is_cut_in_whole_frames(utterances: list[Utterance]) -> None:
    """Catches audio that starts with the teacher's 0.3 s of silence or drags on, and labels that do not move along."""
    utterance, phonemes = utterances[1], "ðə kˈæt sˈæt."
    durations = np.array([13, *[2] * len(phonemes), 14], np.int16)
    codes = np.zeros((int(durations.sum() * 0.625), 3), np.int16)
    whole = DataConfig(lead_frames=0, trail_seconds=9, anticipation=0.05)
    full = make_utterance("The cat sat.", phonemes, durations, codes, whole)
    assert full is not None
    assert len(full.codes) == len(codes)
    # The pad lasts 325 ms, and sounds are heard 50 ms early: the first symbol is over at 325 ms, middle of frame 8.
    assert list(full.symbol_of_frame[:9]) == [0] * 8 + [1]
    kept = len(utterance.symbol_of_frame)
    assert list(utterance.symbol_of_frame) == list(full.symbol_of_frame[7 : 7 + kept])
    # The last sound, "t", starts at 325 + 11 * 50 = 875 ms; 180 ms later is inside frame 26.
    assert 7 + kept == 27


def test_initialisms_and_digits_are_never_spelled(utterances: list[Utterance]) -> None:
    """Their letters do not say how they are read: "US" would teach that "us" is "yoo ess"."""
    assert spell("USA") == ()
    assert spell("4th") == ()
    assert spell("...") == ()
    assert spell("I") == (LETTER_IDS["i"],)
    assert spell("Don't,") == tuple(LETTER_IDS[c] for c in "don't,")
    rng = np.random.default_rng(0)
    assert list(choose_lettered(utterances[2], (0, 0, 0, 1), 1.0, rng)) == [False, True]


def test_modes_mix_spelled_lines(utterances: list[Utterance]) -> None:
    """Catches a mode that never comes up: unknown names appear alone among phonemes, so that case must be trained."""
    rng = np.random.default_rng(0)
    counts = [int(choose_lettered(utterances[0], (0.4, 0.3, 0.2, 0.1), 0.4, rng).sum()) for _ in range(2000)]
    share = np.bincount(counts, minlength=4) / len(counts)
    assert 0.38 < share[0] < 0.52
    assert 0.3 < share[1] < 0.45
    assert 0.1 < share[3] < 0.16
