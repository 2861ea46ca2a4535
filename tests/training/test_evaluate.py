"""Scoring of transcripts: the judge's spelling must not count as the voice's fault, and real faults must count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.evaluate.level import measure
from training.evaluate.sentences import read_sentences
from training.evaluate.transcript import compare, total


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ("He was born in nineteen eighty four.", "He was born in 1984."),
        ("The ticket costs forty three dollars and sixty cents.", "The ticket costs $43.60."),
        ("It is a quarter past eight.", "It is a quarter past 8."),
        ("Room two hundred and thirty one is on the third floor.", "Room 231 is on the 3rd floor."),
        ("About three thousand people live here.", "About 3,000 people live here."),
        ("Ninety percent passed.", "90% passed."),
        ("The answer is minus sixteen.", "The answer is -16."),
        ("Doctor Harrison called Mister Thompson.", "Dr. Harrison called Mr. Thompson!"),
        ("My number is five five two, nine one seven.", "My number is 552-917"),
        ("Flight seven hundred and twelve.", "Flight 712"),
        ("It's half past three.", "its 3:30"),
    ],
)
def test_digits_and_abbreviations_are_not_errors(wanted: str, heard: str) -> None:
    """Catches an error rate that measures the judge's notation."""
    assert compare(wanted, heard).word_edits == 0


def test_real_errors_are_counted() -> None:
    """Catches a normalisation so generous that wrong, missing, added or no words score as right."""
    assert compare("Take the red book.", "Take the read book.").word_edits == 1
    assert compare("Take the red book.", "Take the book.").word_edits == 1
    assert compare("Take the red book.", "Take the red book now please.").word_edits == 2
    assert compare("Take the red book.", "").word_edits == 4
    assert compare("He paid sixteen dollars.", "He paid $60.").word_edits == 1
    assert total([compare("One two three four.", "one two three"), compare("Yes.", "Yes.")]).wer == pytest.approx(0.2)


def test_silence_and_clicks_are_measured() -> None:
    """Catches seconds counted at the wrong rate, ends mixed up, and a click that does not show."""
    samples = np.zeros(16000, np.float32)
    samples[1600:12000] = 0.1
    quiet = measure(samples, 16000)
    assert (quiet.onset, quiet.tail) == (0.1, 0.25)
    assert (quiet.first_db, quiet.last_db) == (-120, -120)
    assert quiet.speech_db == pytest.approx(-20, abs=0.1)
    samples[0] = 0.9
    assert measure(samples, 16000).first_db > -25
    assert measure(np.zeros(800, np.float32), 16000).onset == 0.05
    assert measure(np.zeros(0, np.float32), 16000).peak == 0


def test_sections_and_empty_lists(tmp_path: Path) -> None:
    """Catches sentences counted under the wrong section and a list that would give a rate over nothing."""
    path = tmp_path / "short.txt"
    path.write_text("First.\n# names\nAnna.\n\n# one word\nYes.\n")
    assert [(s.section, s.text) for s in read_sentences(path)] == [
        ("short", "First."),
        ("names", "Anna."),
        ("one word", "Yes."),
    ]
    path.write_text("# names\n\n")
    with pytest.raises(ValueError, match="no sentence"):
        read_sentences(path)
