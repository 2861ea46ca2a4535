"""Write the corpus: ``python -m training.corpus --out corpus.txt``."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from training.corpus.clean import Limits, key, select
from training.corpus.grammar import Grammar
from training.corpus.sources import bible_lines, name_lines, word_lines, wordnet_lines
from training.evaluate.sentences import read_sentences

GRAMMAR = Path(__file__).with_name("everyday.grammar")


def _everyday(grammar: Grammar, rng: random.Random) -> Iterator[str]:
    while True:
        yield grammar.expand("sentence", rng)


def _shuffled(lines: list[str], rng: random.Random, count: int) -> list[str]:
    rng.shuffle(lines)
    return lines[:count]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.corpus", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="Debian wordnet-base")
    parser.add_argument("--words", type=Path, default=Path("/usr/share/dict/words"), help="Debian wamerican")
    parser.add_argument(
        "--exclude", type=Path, nargs="*", default=[], help="held-out lists that must not be trained on"
    )
    for name, count in (("wordnet", 30000), ("bible", 4000), ("everyday", 20000), ("words", 2000), ("names", 4000)):
        parser.add_argument(f"--count-{name}", type=int, default=count, help="0 leaves the source out")
    arguments = parser.parse_args()

    rng = random.Random(arguments.seed)
    limits = Limits()
    taken = {key(s.text) for path in arguments.exclude for s in read_sentences(path)}
    parts: dict[str, list[str]] = {}
    if count := arguments.count_wordnet:
        parts["wordnet"] = _shuffled(select(wordnet_lines(arguments.wordnet, rng), limits, taken), rng, count)
    if count := arguments.count_bible:
        parts["bible"] = _shuffled(select(bible_lines(), limits, taken), rng, count)
    if count := arguments.count_everyday:
        lines = itertools.islice(_everyday(Grammar.read(GRAMMAR), rng), 2 * count)
        parts["everyday"] = select(lines, limits, taken)[:count]
    if count := arguments.count_words:
        parts["words"] = select(word_lines(arguments.words, rng, count), limits, taken)
    if count := arguments.count_names:
        parts["names"] = select(name_lines(arguments.words, rng, count), limits, taken)
    everything = [line for lines in parts.values() for line in lines]
    rng.shuffle(everything)  # synthesis can stop anywhere and still have seen every source
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(everything) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {len(everything)} lines", *(f"{name} {len(lines)}" for name, lines in parts.items()))


if __name__ == "__main__":
    main()
