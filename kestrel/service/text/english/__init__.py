"""English.

The rules run from the most particular to the most general: what an address or a date has taken is words by the time
that the rule for bare numbers comes. Initialisms ("FBI", "NASA") are left to the voice, which knows how each is said.
"""

from __future__ import annotations

from kestrel.engine.frontends.characters import fold
from kestrel.service.text.english import calendar, figures, measures, shortened, web
from kestrel.service.text.rules import apply_rules
from kestrel.service.text.switches import Switches
from kestrel.service.text.trace import Traced

_RULES = (
    *figures.FIRST,
    *web.ADDRESSES,
    *calendar.RULES,
    *web.CODES,
    *measures.RULES,
    *shortened.RULES,
    *figures.RULES,
)


class English:
    """See the module."""

    code = "en"

    def rewrite(self, traced: Traced, switches: Switches) -> Traced:
        return apply_rules(traced, _RULES, switches)

    def check(self, text: str) -> None:
        fold(text)
