"""Free texts: WordNet's examples and glosses, the King James Bible, a word list (see NOTICE for licences)."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path


def wordnet_lines(folder: Path, rng: random.Random, gloss_share: float = 0.08) -> Iterator[str]:
    """Example sentences of WordNet 3.0's data files (Debian ``wordnet-base``), and a share of its short glosses."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
            _, separator, gloss = line.partition("|")
            if not separator:
                continue
            yield from re.findall(r'"([^"]+)"', gloss)
            definition = re.sub(r'"[^"]*"|\([^)]*\)', "", gloss).split(";")[0].strip()
            if 3 <= len(definition.split()) <= 9 and rng.random() < gloss_share:
                yield definition


def bible_lines(command: str = "bible") -> list[str]:
    """Clauses of three to fourteen words, as printed by Debian's ``bible-kjv``."""
    printed = subprocess.run(
        [command, "-f", "Gen 1:1-Rev 22:21"], capture_output=True, text=True, check=True
    ).stdout  # each line: reference, space, verse
    clauses = []
    for verse in printed.splitlines():
        for clause in re.split(r"[:;.?!]", verse.partition(" ")[2]):
            if 3 <= len(clause.split()) <= 14:
                clauses.append(clause.strip(" ,"))
    return clauses


def word_lines(path: Path, rng: random.Random, count: int) -> Iterator[str]:
    """Lists of one to five random words: every sound in every neighbourhood, and practice with single words."""
    words = [w for w in path.read_text(encoding="utf-8").split("\n") if re.fullmatch(r"[a-z]{3,12}", w)]
    for _ in range(count):
        yield ", ".join(rng.choice(words) for _ in range(rng.randint(1, 5)))


def name_lines(path: Path, rng: random.Random, count: int) -> Iterator[str]:
    """Capitalised words of the word list in short frames: names of people and places."""
    names = [w for w in path.read_text(encoding="utf-8").split("\n") if re.fullmatch(r"[A-Z][a-z]{2,11}", w)]
    frames = (
        "{a}.",
        "{a} and {b}.",
        "This is {a} speaking.",
        "Have you met {a} {b}?",
        "{a} lives in {b}.",
        "We flew from {a} to {b}.",
        "Ask {a} about {b}.",
        "{a} {b} was born in {c}.",
    )
    for _ in range(count):
        a, b, c = rng.sample(names, 3)
        yield rng.choice(frames).format(a=a, b=b, c=c)
