"""Makes the default voice's lexicon: xz-compressed lines `word<TAB>phonemes`.

    python training/voice_v0/lexicon.py --words /usr/share/dict/words --codes codes2.pkl.xz --out lexicon.tsv.xz

Needs the teacher's package (hibari-tts 0.2.1) for its grapheme-to-phoneme converter, offline and only here. Sources, in
order of precedence:

1. the training lines themselves: for a word the voice was trained on, the form it heard most often;
2. the converter over a public word list (Debian's wamerican), one word at a time;
3. the converter over the head words of its own misaki "gold" dictionary that the list lacks (names above all).

Keys are case-sensitive where case changes the sound ("He" opens a sentence and carries a stress that "he" does not).
Three suffixes mark forms that depend on the neighbourhood, so that the run-time rule needs no word of its own:

    the^   before a vowel         to$   before a pause         b.   the letter's name
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import pickle
import re
import string
from collections import Counter, defaultdict
from pathlib import Path

import hibari
from hibari.g2p import G2P

# First sounds that make the converter say "thee" and "tu": it counts neither ɐ nor ᵊ as a vowel here.
VOWELS = frozenset("AIOWYiuæɑɔəɛɜɪʊʌᵻ")
STRESS = "ˈˌ"
PAUSES = ",.;:!?”“—"
WORD = re.compile(r"'?[A-Za-z][A-Za-z']*(?:-[A-Za-z']+)*")


def corpus_forms(codes: Path) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]], set[str]]:
    """Forms of every word (case kept), forms by context (`word^`, `word$`, `word`), and the symbols heard."""
    with lzma.open(codes) as stream:
        _, train = pickle.load(stream)
    every: dict[str, Counter[str]] = defaultdict(Counter)
    context: dict[str, Counter[str]] = defaultdict(Counter)
    heard: set[str] = set()
    for text, phonemes, *_ in train:
        heard |= set(phonemes)
        written, spoken = text.split(), phonemes.split(" ")
        if len(written) != len(spoken):
            continue
        for i, (word, sound) in enumerate(zip(written, spoken, strict=True)):
            word, bare = word.strip(".,;:!?'\"-"), sound.strip(PAUSES)
            if not WORD.fullmatch(word) or not bare:
                continue
            every[word][bare] += 1
            if i + 1 == len(spoken) or sound[-1] in PAUSES:
                key = f"{word}$"
            else:
                following = spoken[i + 1].lstrip(STRESS + "“")
                key = f"{word}^" if following[:1] in VOWELS else word
            context[key][bare] += 1
    return every, context, heard - {" "}


def best(forms: Counter[str]) -> str:
    """Most frequent form; the shorter, then the alphabetically first, where counts are equal."""
    return min(forms, key=lambda form: (-forms[form], len(form), form))


def from_corpus(every: dict[str, Counter[str]], context: dict[str, Counter[str]]) -> dict[str, str]:
    """Commonest form of each word, and its contextual forms where they differ and are well attested."""
    out: dict[str, str] = {}
    for word, forms in every.items():
        plain = context.get(word) or forms
        out[word] = best(plain)
        for suffix in "^$":
            seen = context.get(word + suffix)
            if seen and sum(seen.values()) >= 5 and best(seen) != out[word]:
                out[word + suffix] = best(seen)
    return out


def speak(g2p: G2P, word: str, heard: set[str]) -> str | None:
    """The converter's reading of one word, or None if it is not one word of symbols the voice knows."""
    sound = g2p(word).replace("ɾ", "T").replace("ʔ", "t").strip(PAUSES)
    return sound if sound and set(sound) <= heard else None


def words_of(path: Path) -> list[str]:
    """Words of the public list with ASCII letters; possessives are left to the run-time rule."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [word for word in lines if WORD.fullmatch(word) and not word.endswith("'s")]


def gold_words() -> list[str]:
    """Head words of the converter's own main dictionary."""
    path = Path(hibari.__file__).parent / "assets" / "lexicon_us_gold.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [word for word in json.load(stream) if WORD.fullmatch(word) and len(word) > 1]


def drop_redundant(lexicon: dict[str, str]) -> dict[str, str]:
    """Leaves out capitalised keys that sound like their lower-case twin: the lookup falls back to it."""
    return {w: s for w, s in lexicon.items() if w == w.lower() or lexicon.get(w.lower()) != s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("words", "codes", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()

    every, context, heard = corpus_forms(args.codes)
    g2p = G2P()
    lexicon: dict[str, str] = {}
    sources: Counter[str] = Counter()
    spoken: dict[str, dict[str, str]] = {"words": {}, "gold": {}}
    for source, words in (("words", words_of(args.words)), ("gold", gold_words())):
        for word in words:
            if word not in lexicon and (sound := speak(g2p, word, heard)):
                lexicon[word] = spoken[source][word] = sound
    # Function words without stress gain one at the start of a sentence; the converter knows how.
    for word in [w for w, s in lexicon.items() if w == w.lower() and not set(s) & set(STRESS)]:
        if word.capitalize() not in lexicon and (sound := speak(g2p, word.capitalize(), heard)):
            lexicon[word.capitalize()] = sound
    corpus = from_corpus(every, context)
    lexicon.update(corpus)
    for letter in string.ascii_lowercase:
        # Straight from the dictionary: the converter would read a lone "A" as the article.
        lexicon[f"{letter}."] = g2p.lexicon.golds.get(letter.upper())
    lexicon = drop_redundant(lexicon)

    text = "".join(f"{word}\t{sound}\n" for word, sound in sorted(lexicon.items()))
    args.out.write_bytes(lzma.compress(text.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))
    sources.update(corpus=len(corpus), words=len(spoken["words"]), gold=len(spoken["gold"]))
    print(f"{len(lexicon)} entries from {dict(sources)}, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
