"""Pronunciations of written words: lexicon, inflections of known stems, compounds, letter names, letter rules.

The phoneme alphabet and the rules for inflected and compound words follow misaki's (https://github.com/hexgrad/misaki),
which the default voice's training lines were written in: stress marks stand right before their vowel, A I O W Y are the
diphthongs, T a flapped t, ᵊ and ᵻ reduced vowels.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator

from kestrel.engine.errors import ModelFileError
from kestrel.engine.frontends.letters import sound_out

# Sounds before which "the" is "thee". The voice's training lines treat neither ɐ ("a") nor ᵊ as one.
VOWELS = frozenset("AIOWYiuæɑɔəɛɜɪʊʌᵻ")
PRIMARY, SECONDARY = "ˈ", "ˌ"
_SIBILANTS = frozenset("szʃʒʧʤ")
_VOICELESS = frozenset("ptkfθ")
# A t between one of these and a vowel is flapped: "wait" + "ing" has a T.
_FLAPPING = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_CLITICS = {"'ll": "əl", "'ve": "əv", "'re": "əɹ", "'d": "d", "'m": "m"}
_SUFFIXES = {
    "ly": "li", "ness": "nəs", "less": "ləs", "ful": "fᵊl", "ment": "mənt", "able": "əbᵊl", "er": "əɹ", "or": "əɹ",
    "ish": "ɪʃ", "ism": "ˌɪzəm", "ist": "əst", "ship": "ʃˌɪp", "hood": "hˌʊd", "dom": "dəm", "like": "lˌIk",
    "wise": "wˌIz", "ize": "ˌIz",
}  # fmt: skip
_PREFIXES = {"un": "ˌʌn", "re": "ɹi", "non": "nˌɑn", "mis": "mɪs", "over": "ˌOvəɹ", "out": "ˌWt"}

# No word is longer; the rules below take time that grows with the square of the length.
_LONGEST_WORD = 40

# Neighbourhood of a word: a form marked so in the lexicon is used there.
PLAIN, BEFORE_VOWEL, BEFORE_PAUSE = "", "^", "$"


class Lexicon:
    """Immutable after construction. Keys are case-sensitive; a word may fall back to another case of it."""

    def __init__(self, compressed: bytes, symbols: frozenset[str]) -> None:
        """`compressed`: xz of lines `word<TAB>phonemes`. Lines with phonemes outside `symbols` are refused."""
        try:
            text = lzma.decompress(compressed).decode("utf-8")
        except (lzma.LZMAError, UnicodeDecodeError) as error:
            raise ModelFileError(f"kestrel.lexicon is not xz-compressed UTF-8 text: {error}") from error
        self._entries: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            word, tab, sound = line.partition("\t")
            if not (word and tab and sound) or not symbols.issuperset(sound):
                raise ModelFileError(
                    f"kestrel.lexicon line {number} is not `word<TAB>phonemes` of this voice's symbols"
                )
            self._entries[word] = sound

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._entries.items())

    def exact(self, key: str) -> str | None:
        """Entry of exactly this key, marks included."""
        return self._entries.get(key)

    def known(self, word: str, context: str = PLAIN) -> str | None:
        """Entry of a word in a neighbourhood, or None."""
        for form in dict.fromkeys((word, word.lower(), word.capitalize())):
            for key in (form + context, form):
                if sound := self._entries.get(key):
                    return sound
        return None

    def pronounce(self, word: str, context: str = PLAIN) -> str:
        """Phonemes of one word of letters and apostrophes; never empty for a word with a letter."""
        if len(word) > _LONGEST_WORD:
            return sound_out(word.lower()) or self.spell(word[:_LONGEST_WORD])
        return (
            self.known(word, context)
            or self._inflected(word)
            or self._affixed(word)
            or self._joined(word)
            or (self.spell(word) if _is_initialism(word) else "")
            or sound_out(word.lower())
            or self.spell(word)
        )

    def spell(self, word: str) -> str:
        """Letter names in one breath, the last one stressed: "FBI" -> ˌɛfbˌiˈI."""
        names = [self._entries.get(f"{letter}.", "") for letter in word.lower() if letter.isalpha()]
        if not names:
            return ""
        return "".join(name.replace(PRIMARY, SECONDARY) for name in names[:-1]) + names[-1]

    def compound(self, parts: list[str]) -> str:
        """Joins the phonemes of a hyphenated word. Of several stressed parts the lighter half is lowered."""
        if len(parts) == 1:
            return parts[0]
        weights = sorted((PRIMARY in part, _weight(part), i) for i, part in enumerate(parts))
        if sum(stressed for stressed, _, _ in weights) > (len(parts) + 1) // 2:
            lowered = {i for _, _, i in weights[: len(parts) // 2]}
            parts = [lower_stress(part) if i in lowered else part for i, part in enumerate(parts)]
        return "".join(parts)

    def _stem(self, *candidates: str) -> str | None:
        """First known candidate of at least two letters."""
        return next((sound for stem in candidates if len(stem) > 1 and (sound := self.known(stem))), None)

    def _inflected(self, word: str) -> str | None:
        """Possessive, plural, -ed, -ing and clitics of a known stem."""
        lower = word.lower()
        for clitic, sound in _CLITICS.items():
            if lower.endswith(clitic) and (stem := self._stem(word[: -len(clitic)])):
                return stem + sound
        if lower.endswith("'s"):
            return add_s(self.pronounce(word[:-2])) if len(word) > 2 else None
        if lower.endswith("s'"):
            return self.pronounce(word[:-1])
        if lower.endswith("'"):
            return self.pronounce(word[:-1]) if len(word) > 1 else None
        if lower.endswith("s") and not lower.endswith("ss"):
            y_stem = word[:-3] + "y" if lower.endswith("ies") else ""
            es_stem = word[:-2] if lower.endswith("es") else ""
            if stem := self._stem(word[:-1], es_stem, y_stem):
                return add_s(stem)
        if lower.endswith("ed"):
            y_stem = word[:-3] + "y" if lower.endswith("ied") else ""
            if stem := self._stem(word[:-1], word[:-2], y_stem, _undouble(word[:-2])):
                return add_ed(stem)
        if lower.endswith("ing") and (stem := self._stem(word[:-3], word[:-3] + "e", _undouble(word[:-3]))):
            return add_ing(stem)
        return None

    def _affixed(self, word: str) -> str | None:
        """A known stem of at least three letters with one regular suffix or prefix."""
        lower = word.lower()
        for suffix, sound in _SUFFIXES.items():
            stem = lower[: -len(suffix)]
            if not lower.endswith(suffix) or len(stem) < 3:
                continue
            silent_e = (stem + "e", _undouble(stem)) if suffix[0] in "aeiou" else ()
            if known := self._stem(stem, *silent_e):
                return known + sound.removeprefix("l" if known[-1] == "l" else "")
        for prefix, sound in _PREFIXES.items():
            stem = lower[len(prefix) :]
            if lower.startswith(prefix) and len(stem) > 2 and (known := self._stem(stem) or self._inflected(stem)):
                return sound + known
        return None

    def _joined(self, word: str) -> str | None:
        """Two known words of at least three letters, the longest first part preferred: "songbook"."""
        for cut in range(len(word) - 3, 2, -1):
            first = self.known(word[:cut].lower())
            second = first and (self.known(word[cut:].lower()) or self._inflected(word[cut:].lower()))
            if first and second:
                return first + lower_stress(second)
        return None


def lower_stress(sound: str) -> str:
    """Primary stress becomes secondary, secondary vanishes."""
    if PRIMARY not in sound:
        return sound
    return sound.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)


def add_s(stem: str) -> str:
    """Plural or possessive."""
    return stem + ("ᵻz" if stem[-1] in _SIBILANTS else "s" if stem[-1] in _VOICELESS else "z")


def add_ed(stem: str) -> str:
    """Past tense."""
    if stem[-1] == "t":
        return stem[:-1] + "Tᵻd" if len(stem) > 1 and stem[-2] in _FLAPPING else stem + "ᵻd"
    return stem + ("ᵻd" if stem[-1] == "d" else "t" if stem[-1] in "pkfθʃsʧ" else "d")


def add_ing(stem: str) -> str:
    """Present participle."""
    return stem[:-1] + "Tɪŋ" if len(stem) > 1 and stem[-1] == "t" and stem[-2] in _FLAPPING else stem + "ɪŋ"


def _weight(sound: str) -> int:
    return sum(2 if c in "AIOWYʤʧ" else 1 for c in sound)


def _undouble(stem: str) -> str:
    """ "stopp" -> "stop"; "" if the last two letters differ."""
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else ""


def _is_initialism(word: str) -> bool:
    """Unknown capitals are read as letters if they are few or have no vowel to be read by."""
    letters = [c for c in word if c.isalpha()]
    capitals = word == word.upper()
    return len(letters) == 1 or (capitals and (len(letters) <= 4 or not set("AEIOUY") & set(letters)))
