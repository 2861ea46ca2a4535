"""Ids of the text vocabulary: control ids, phonemes, letters.

The table has 153 rows and its order is part of every trained checkpoint: appending is safe, reordering makes
all existing weights speak nonsense. Phoneme symbols are those of the teacher's grapheme-to-phoneme front end
(hibari-tts 0.2.1, ``assets/vocab.json``, Apache-2.0), sorted by code point.
"""

from __future__ import annotations

PAD, BOS, END, MARKER = 0, 1, 2, 3
"""Padding; start of utterance; no more words will follow; the speech of the next word starts here."""

PHONEMES = (
    ' !"(),.:;?AIOQSTWYabcdefhijklmnopqrstuvwxyzæçðøŋœɐɑɒɔɕɖəɚɛɜɟɡɣɤɥɨɪɯɰɲɳɴɸɹɻɽɾʁʂʃʈʊʋʌʎʒʔʝʣʤʥʦʧʨʰʲˈˌː\u0303βθχ'
    "ᵊᵝᵻ—“”…→↓↗↘ꭧ"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz'-.,?!;:"

FIRST_PHONEME = 4
FIRST_LETTER = FIRST_PHONEME + len(PHONEMES) + 1  # phoneme ids are 1-based inside their block: row 4 is unused
TEXT_ROWS = FIRST_LETTER + len(LETTERS)

PHONEME_IDS: dict[str, int] = {symbol: FIRST_PHONEME + 1 + i for i, symbol in enumerate(PHONEMES)}
LETTER_IDS: dict[str, int] = {symbol: FIRST_LETTER + i for i, symbol in enumerate(LETTERS)}

SILENT = frozenset(' ,.:;?!"()—“”…→↓↗↘')
"""Phoneme symbols that are pauses or intonation, not sounds."""

SHARED_PUNCTUATION: tuple[tuple[int, int], ...] = tuple(
    (LETTER_IDS[mark], PHONEME_IDS[mark]) for mark in LETTERS if mark in PHONEME_IDS and not mark.isalpha()
)
"""(letter id, phoneme id) of the marks that exist in both blocks; they mean the same pause or intonation."""
