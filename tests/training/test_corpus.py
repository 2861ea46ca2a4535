"""Corpus texts: nothing unspeakable gets in, nothing held out gets in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from training.corpus.clean import Limits, key, select, tidy
from training.corpus.grammar import Grammar, number_words
from training.evaluate.sentences import read_sentences

ROOT = Path(__file__).parents[2] / "training"


def test_held_out_and_repeated_sentences_are_left_out() -> None:
    """Catches an evaluation on sentences the model was trained on, whatever their case and punctuation."""
    held_out = [s.text for s in read_sentences(ROOT / "eval" / "held_out_v1.txt")]
    taken = {key(text) for text in held_out}
    lines = [*(text.upper().rstrip(".") for text in held_out), "new words here", "New words, here!"]
    assert select(lines, Limits(), taken) == ["New words here."]


def test_lines_are_plain_english() -> None:
    """Catches digits, markup and over-long lines, which the teacher reads wrongly or not at all."""
    bad = ["In 1984 he left", "café au lait", "see (below)", "a@b", "word " * 23, "...", ""]
    assert select(bad, Limits(), set()) == []
    assert tidy("  `hello   there'' ; ") == "Hello there."


def test_grammar_gives_many_clean_sentences() -> None:
    """Catches an unknown slot, endless recursion, "a apple", and a grammar with little variety."""
    grammar = Grammar.read(ROOT / "corpus" / "everyday.grammar")
    rng = random.Random(0)
    made = [grammar.expand("sentence", rng) for _ in range(2000)]
    lines = select(made, Limits(), set())
    assert len(lines) > 1500
    assert not any("<" in line or " a a" in line.lower() for line in made)
    with pytest.raises(ValueError, match="unknown slot <missing>"):
        Grammar("sentence = a <missing>")
    with pytest.raises(ValueError, match="too deeply"):
        Grammar("loop = <loop> on").expand("loop", rng)


def test_numbers_are_spelled() -> None:
    """Catches wrong number words, which would teach the voice wrong readings."""
    assert number_words(0) == "zero"
    assert number_words(42) == "forty-two"
    assert number_words(1905) == "one thousand nine hundred and five"
    assert number_words(310000) == "three hundred and ten thousand"
