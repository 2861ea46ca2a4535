"""Last resort for words nobody has listed: letter-to-sound rules for English spelling.

One ordered table of spellings, longest match first, then stress on one vowel. It aims at something an English ear
accepts for a name, not at correctness.
"""

from __future__ import annotations

_VOWEL_LETTERS = frozenset("aeiouy")
_VOWEL_SOUNDS = frozenset("AIOWYiuæɑɔəɛɜɪʊʌᵊ")

# Spelling -> phonemes. "." at the end means: only at the end of the word; "^" at the start: only at its start.
_RULES = {
    "^kn": "n", "^gn": "n", "^wr": "ɹ", "^ps": "s", "^pn": "n", "^x": "z", "^wh": "w", "^y": "j", "^rh": "ɹ",
    "ation": "Aʃən", "ity.": "əTi", "able.": "əbᵊl", "fy.": "fI", "ify.": "əfI", "ate.": "At", "ize.": "Iz",
    "ise.": "Iz",
    "ism.": "ɪzəm", "ally.": "əli", "ure.": "jəɹ", "ology": "ɑləʤi", "ic.": "ɪk", "ics.": "ɪks",
    "tion": "ʃən", "sion": "ʒən", "cian": "ʃən", "ough": "O", "augh": "ɔ", "eigh": "A", "igh": "I", "tch": "ʧ",
    "dge": "ʤ", "sch": "sk", "que.": "k", "gue.": "ɡ", "ture": "ʧəɹ", "ious": "iəs", "ous.": "əs",
    "ch": "ʧ", "sh": "ʃ", "th": "θ", "ph": "f", "gh": "ɡ", "ck": "k", "ng.": "ŋ", "nk": "ŋk", "qu": "kw", "mb.": "m",
    "ss": "s", "ll": "l", "tt": "t", "pp": "p", "bb": "b", "dd": "d", "ff": "f", "gg": "ɡ", "mm": "m", "nn": "n",
    "rr": "ɹ", "zz": "z", "cc": "k", "kk": "k",
    "ee": "i", "ea": "i", "oo": "u", "ou": "W", "ow.": "O", "ow": "W", "oi": "Y", "oy": "Y", "ai": "A", "ay": "A",
    "au": "ɔ", "aw": "ɔ", "ew": "u", "ie.": "i", "ie": "i", "oa": "O", "oe.": "O", "ue.": "u", "ei": "A", "ey.": "i",
    "eu": "ju", "ia": "iə", "io": "iO", "ar": "ɑɹ", "er": "əɹ", "ir": "ɜɹ", "or": "ɔɹ", "ur": "ɜɹ",
    "ce": "sɛ", "ci": "sɪ", "cy": "si", "ge.": "ʤ", "gi": "ʤɪ", "ce.": "s", "se.": "z",
    "le.": "ᵊl", "es.": "z", "a.": "ə", "e.": "", "i.": "i", "o.": "O", "u.": "u", "y.": "i", "s.": "z",
    "a": "æ", "b": "b", "c": "k", "d": "d", "e": "ɛ", "f": "f", "g": "ɡ", "h": "h", "i": "ɪ", "j": "ʤ", "k": "k",
    "l": "l", "m": "m", "n": "n", "o": "ɑ", "p": "p", "q": "k", "r": "ɹ", "s": "s", "t": "t", "u": "ʌ", "v": "v",
    "w": "w", "x": "ks", "y": "ɪ", "z": "z",
}  # fmt: skip
_LONG = {"a": "A", "e": "i", "i": "I", "o": "O", "u": "u", "y": "I"}
_LONGEST = 5
# Short vowels wear down to ə where no stress holds them.
_REDUCED = str.maketrans({"æ": "ə", "ɑ": "ə", "ɛ": "ə", "ɪ": "ə"})


def sound_out(word: str) -> str:
    """Phonemes of a lower-case word by rule; "" if it has no vowel letter (nothing to read it by)."""
    word = "".join(c for c in word if "a" <= c <= "z")
    if not _VOWEL_LETTERS & set(word):
        return ""
    sounds: list[str] = []
    at = 0
    while at < len(word):
        sound, taken = _match(word, at)
        sounds.append(sound)
        at += taken
    return _stress(sounds)


def _match(word: str, at: int) -> tuple[str, int]:
    """Phonemes at `at` and how many letters they cover."""
    # Silent final e lengthens the vowel before one consonant: "zale", "mibe".
    if (
        at == len(word) - 3
        and word[-1] == "e"
        and word[at] in _LONG
        and word[at + 1] not in _VOWEL_LETTERS | {"r", "x"}
    ):
        return _LONG[word[at]], 1
    for length in range(min(_LONGEST, len(word) - at), 0, -1):
        piece = word[at : at + length]
        if at == 0 and f"^{piece}" in _RULES:
            return _RULES[f"^{piece}"], length
        if at + length == len(word) and at > 0 and f"{piece}." in _RULES:
            return _RULES[f"{piece}."], length
        if piece in _RULES:
            return _RULES[piece], length
    raise AssertionError(f"no rule for {word[at]!r}")  # every letter has one


def _stress(sounds: list[str]) -> str:
    """Primary stress on the first of two vowels, else on the third from the end; short vowels elsewhere are reduced."""
    vowels = [i for i, sound in enumerate(sounds) if set(sound) & _VOWEL_SOUNDS]
    if not vowels:
        return "".join(sounds) + "ə"
    target = vowels[0] if len(vowels) < 3 else vowels[-3]
    # These endings pull the stress to the vowel before or into them.
    for i, sound in enumerate(sounds):
        if sound in ("Aʃən", "ɑləʤi"):
            target = i
        elif sound in ("ʃən", "ʒən", "ɪk", "ɪks", "əTi", "əfI") and i > vowels[0] and i == vowels[-1]:
            target = vowels[-2]
    sound = sounds[target]
    cut = next(i for i, c in enumerate(sound) if c in _VOWEL_SOUNDS)
    if sound[cut] in "əᵊ":  # a reduced vowel carries no stress
        sound = sound.replace("ə", "ɜ", 1) if "əɹ" in sound else sound.replace(sound[cut], "ʌ", 1)
    before = [s.translate(_REDUCED) if len(s) == 1 and i else s for i, s in enumerate(sounds[:target])]
    after = [s.translate(_REDUCED) if len(s) == 1 else s for s in sounds[target + 1 :]]
    return "".join([*before, sound[:cut], "ˈ", sound[cut:], *after])
