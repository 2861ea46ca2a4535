"""Abbreviations written with a full stop, and Roman numerals where nothing else can be meant."""

from __future__ import annotations

import re

from kestrel.service.text.english.numerals import cardinal, ordinal
from kestrel.service.text.rules import Rule
from kestrel.service.text.switches import Switches

_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Rev": "Reverend",
    "Gen": "General", "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Hon": "Honorable",
    "Mt": "Mount", "Ft": "Fort", "St": "Saint",
}  # fmt: skip
# British style writes these without the stop.
_BARE_TITLES = ("Mrs", "Mr", "Ms", "Dr", "Prof", "St")
_STREETS = {"St": "Street", "Dr": "Drive", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane",
            "Hwy": "Highway", "Pl": "Place", "Sq": "Square"}  # fmt: skip
_AFTER_NAME = {"Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation",
               "Co": "Company"}  # fmt: skip
_PHRASES = {
    "e.g.": "for example", "i.e.": "that is", "vs.": "versus", "approx.": "approximately", "dept.": "department",
    "govt.": "government", "cf.": "compare", "viz.": "namely", "w/o": "without", "w/": "with", "vs": "versus",
    "ca.": "circa", "incl.": "including", "excl.": "excluding", "misc.": "miscellaneous", "a.k.a.": "also known as",
    "esp.": "especially", "max.": "maximum", "min.": "minimum", "avg.": "average", "tel.": "telephone",
}  # fmt: skip
_BEFORE_NUMBER = {
    "nos.": "numbers", "no.": "number", "pp.": "pages", "p.": "page", "vol.": "volume", "vols.": "volumes",
    "ch.": "chapter", "figs.": "figures", "fig.": "figure", "sec.": "section", "eq.": "equation", "ext.": "extension",
    "art.": "article", "c.": "circa", "№": "number",
}  # fmt: skip
_MONTHS = {"Jan": "January", "Feb": "February", "Aug": "August", "Sept": "September", "Oct": "October",
           "Nov": "November", "Dec": "December"}  # fmt: skip
# Words that begin sentences, seldom names: after "Inc. The" a sentence has ended, after "Inc. Magazine" it has not.
_STARTERS = (
    "The|A|An|It|He|She|They|We|I|You|This|That|These|Those|In|On|At|But|And|Or|So|If|When|Then|There|However|After|"
    "Before|Is|Are|Do|Does|Did|Will|What|Why|How|Who|Where|His|Her|Its|Our|Their|My|Your|For|To|From|With|As|No|Not"
)
_ENDS = rf"(?P<ends>(?=[\"'”’)]*+(?:$|\n| (?:{_STARTERS})\b)))?+"
_REGNAL = (
    "Henry|Louis|Edward|George|Charles|Elizabeth|James|William|Richard|Philip|Alexander|Nicholas|Catherine|Frederick|"
    "Peter|Paul|John|Pius|Benedict|Leo|Gregory|Clement|Innocent|Urban|Francis|Ferdinand|Leopold|Albert|Christian|"
    "Gustav|Napoleon|Ramesses|Ptolemy|Mary|Margaret|Haakon|Olav|Harald|Harold|Carl|Juan|Felipe|Alfonso|Umberto|Victor|"
    "Emmanuel|Wilhelm|Otto|Baldwin|Robert|David|Kenneth|Ivan|Mehmed|Murad|Selim|Darius|Xerxes|Isabella"
)
_NUMBERED = (
    "Chapter|Part|Volume|Book|Act|Scene|Section|Appendix|Phase|Stage|Class|Figure|Table|Article|Title|Grade|Level|"
    "Round|Episode|Season|Type|Mark|War|Bowl|Unit|Lesson|Canto|Step|Tier|Annex|Schedule|Division|Category|Exhibit"
)
_NOT_NAMES = (
    "The|A|An|My|Your|His|Her|Our|Their|This|That|In|On|At|And|Or|But|If|As|Is|Of|For|To|By|From|With|When|While|"
    "Where|Use|Via|No|Yes|So|See|Some|Any|An|Its"
)
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}
_ROMAN = r"(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})"


def roman_value(numeral: str) -> int:
    """Value of a well-formed numeral below 90."""
    values = [_VALUES[letter] for letter in numeral.upper()]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def _title(match: re.Match[str], switches: Switches) -> str | None:
    return _TITLES[match["title"]]


def _street(match: re.Match[str], switches: Switches) -> str | None:
    return (match["name"] or "") + _STREETS[match["street"]] + ("." if match["ends"] is not None else "")


def _after_name(match: re.Match[str], switches: Switches) -> str | None:
    return _AFTER_NAME[match["word"]] + ("." if match["ends"] is not None else "")


def _phrase(match: re.Match[str], switches: Switches) -> str | None:
    spoken = _PHRASES[match[0].lower()]
    return spoken.capitalize() if match[0][0].isupper() else spoken


def _et_cetera(match: re.Match[str], switches: Switches) -> str | None:
    return "et cetera" + ("." if match["ends"] is not None else "")


def _before_number(match: re.Match[str], switches: Switches) -> str | None:
    spoken = _BEFORE_NUMBER[match[1].lower()]
    return f"{spoken.capitalize() if match[1][0].isupper() else spoken} "


def _month(match: re.Match[str], switches: Switches) -> str | None:
    return _MONTHS[match[1]]


def _regnal(match: re.Match[str], switches: Switches) -> str | None:
    return f"{match['name']} the {ordinal(str(roman_value(match['roman'])))}"


def _counted(match: re.Match[str], switches: Switches) -> str | None:
    return f"{match['noun']} {cardinal(str(roman_value(match['roman'])))}"


def _sequel(match: re.Match[str], switches: Switches) -> str | None:
    return f"{match['name']} {cardinal(str(roman_value(match['roman'])))}"


def _any(words: dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


RULES = (
    # "42nd St. Bridge": after a number it is no saint.
    Rule(
        "abbreviations",
        re.compile(rf"(?<=[0-9](?:st|nd|rd|th) )(?P<name>)(?P<street>St|Ave|Dr|Rd|Pl)\.{_ENDS}(?!\w)"),
        _street,
    ),
    Rule(
        "abbreviations",
        re.compile(rf"\b(?P<title>{_any(_TITLES)})\.(?= [A-Z]| and [A-Z])(?! (?:{_STARTERS})\b)"),
        _title,
    ),
    Rule("abbreviations", re.compile(rf"\b(?P<title>{'|'.join(_BARE_TITLES)})(?= [A-Z][a-z])"), _title),
    Rule(
        "abbreviations",
        re.compile(rf"\b(?!(?:{_NOT_NAMES}) )(?P<name>[A-Z][a-z]+ )(?P<street>{_any(_STREETS)})\.{_ENDS}(?!\w)"),
        _street,
    ),
    Rule("abbreviations", re.compile(rf"(?<=[A-Za-z,] )(?P<word>{_any(_AFTER_NAME)})\.{_ENDS}(?!\w)"), _after_name),
    Rule("abbreviations", re.compile(r"\b[Ee]tc\.(?P<ends>(?=[\"'”’)]*+(?:$|\n| [A-Z])))?+"), _et_cetera),
    Rule("abbreviations", re.compile(rf"(?<![\w./])(?:{_any(_PHRASES)})(?![\w.])", re.IGNORECASE), _phrase),
    Rule("abbreviations", re.compile(rf"(?<![\w.])({_any(_BEFORE_NUMBER)}) ?(?=[0-9])", re.IGNORECASE), _before_number),
    Rule("abbreviations", re.compile(rf"\b({_any(_MONTHS)})(?:\.(?= [a-z0-9])|(?= [0-9]))"), _month),
    Rule("roman", re.compile(rf"\b(?P<name>{_REGNAL}) (?!(?:I|V) [a-z]|I['’])(?P<roman>{_ROMAN})(?![\w-])"), _regnal),
    Rule(
        "roman", re.compile(rf"\b(?P<noun>(?i:{_NUMBERED})) (?!I [a-z]|I['’])(?P<roman>{_ROMAN})(?![\w'’])"), _counted
    ),
    Rule(
        "roman",
        re.compile(
            rf"\b(?!(?:{_NOT_NAMES}) )(?P<name>[A-Z][a-z]+) "
            rf"(?!(?:XL|L|X|V|I|IV|VI|XX)\b)(?P<roman>{_ROMAN})(?![\w'’])"
        ),
        _sequel,
    ),
)
