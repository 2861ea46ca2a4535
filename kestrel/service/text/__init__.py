"""Text front end: markup, emoji, pauses and everything that is written in signs, made ready to be spoken.

`normalise` is the whole of it. English is the first language; another is one more module behind `rules.Language`.
"""

from kestrel.service.text.cleaning import clean, is_emoji, speakable
from kestrel.service.text.errors import PlanError
from kestrel.service.text.front_end import normalise
from kestrel.service.text.languages import language_rules
from kestrel.service.text.pauses import MAX_PAUSE_SECONDS, Pause
from kestrel.service.text.rules import Language
from kestrel.service.text.switches import CATEGORIES, DateOrder, EmojiMode, Switches
from kestrel.service.text.trace import Segment, Traced

__all__ = [
    "CATEGORIES",
    "MAX_PAUSE_SECONDS",
    "DateOrder",
    "EmojiMode",
    "Language",
    "Pause",
    "PlanError",
    "Segment",
    "Switches",
    "Traced",
    "clean",
    "is_emoji",
    "language_rules",
    "normalise",
    "speakable",
]
