"""Dates and times of day.

A date of three numbers is read by its shape: year first if it has four digits, day first with dots, else in the order
asked for (`date_order`) unless only the other order is a date: 30/11/2026 has no month 30.
"""

from __future__ import annotations

import re
from datetime import date

from kestrel.service.text.english.numerals import cardinal, digits, ordinal, year
from kestrel.service.text.rules import Rule
from kestrel.service.text.switches import Switches

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Fri": "Friday", "Sat": "Saturday",
         "Sun": "Sunday"}  # fmt: skip
_WEEKDAY = "Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun"
_BY_START = {name[:3]: name for name in _MONTHS}
_MONTH = "(?P<month>" + "|".join([*_MONTHS, "Sept"] + [f"{m[:3]}" for m in _MONTHS if m != "May"]) + r")\b\.?+"
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?+"
_YEAR = r"(?P<year>1[0-9]{3}|20[0-9]{2})(?![0-9:/]|[.,-][0-9])"
_NOT_IN_NUMBER = r"(?<![\w.,:/-])"
_END = r"(?![0-9A-Za-z:/]|[.,-][0-9])"
_CLOCK = r"(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?:\.[0-9]{1,9})?+)?+(?![0-9:])"
_HALF = r"(?P<half>[AaPp])(?:\. ?[Mm]\.?+|[Mm](?![A-Za-z])(?:\.(?!\.))?+)"


def _on(month: int, day: int, written_year: str | None, *, day_first: bool = False) -> str | None:
    """The words of a date, or None if the calendar has no such day."""
    try:
        date(int(written_year or 2024) or 1, month, day)  # without a year any leap year will do
    except ValueError:
        return None
    name, number = _MONTHS[month - 1], ordinal(str(day))
    tail = f", {_year(written_year)}" if written_year else ""
    return f"the {number} of {name}{tail}" if day_first else f"{name} {number}{tail}"


def _year(written: str) -> str:
    return (
        year(written) if len(written) == 4 else cardinal(written) if written[0] != "0" else f"oh {digits(written[1])}"
    )


def _iso(match: re.Match[str], switches: Switches) -> str | None:
    spoken = _on(int(match["m"]), int(match["d"]), match["y"])
    if spoken is None or not match["clock"]:
        return spoken
    clock = _time(match["hour"], match["minute"], None, None)
    return f"{spoken}, {clock}" + (" UTC" if match["zone"] == "Z" else "")


def _numeric(match: re.Match[str], switches: Switches) -> str | None:
    first, second, separator, written = int(match["a"]), int(match["b"]), match["sep"], match["y"]
    if len(written) == 2 and separator != "/":
        return None
    orders = [(second, first), (first, second)]  # (month, day): day first, then month first
    if separator == "/" and switches.date_order == "mdy":
        orders.reverse()
    return next((spoken for month, day in orders if (spoken := _on(month, day, written))), None)


def _named(match: re.Match[str], switches: Switches) -> str | None:
    """ "Nov 30, 2026", "March 3-5"."""
    month = _MONTHS.index(_BY_START[match["month"][:3]]) + 1
    last = match["last"]
    spoken = _on(month, int(match["day"]), None if last else match["year"])
    if spoken is None or not last:
        return spoken
    return f"{spoken} to {ordinal(last)}" + (f", {_year(match['year'])}" if match["year"] else "")


def _day_first(match: re.Match[str], switches: Switches) -> str | None:
    month = _MONTHS.index(_BY_START[match["month"][:3]]) + 1
    return _on(month, int(match["day"]), match["year"], day_first=True)


def _month_year(match: re.Match[str], switches: Switches) -> str | None:
    return f"{_BY_START[match['month'][:3]]} {_year(match['year'])}"


def _weekday(match: re.Match[str], switches: Switches) -> str | None:
    return f"{_DAYS[match['weekday'][:3]]},"


def _weekdays(match: re.Match[str], switches: Switches) -> str | None:
    return f"{_DAYS[match[1][:3]]} to {_DAYS[match[2][:3]]}"


def _time(hour: str, minute: str, second: str | None, half: str | None) -> str:
    """ "3:45 p.m.", "15:00" as fifteen hundred, "9:05" as nine oh five, "7:00" as seven o'clock."""
    h, m = int(hour), int(minute)
    if m == 0 and not second:
        if half:
            words = cardinal(str(h))
        elif h == 0:
            words = "midnight"
        else:
            words = cardinal(str(h)) + (" hundred" if h > 12 else " o'clock")
    else:
        words = f"{cardinal(str(h))} {'oh ' if 0 < m < 10 else ''}{cardinal(str(m))}"
    if second:
        words += f" and {cardinal(str(int(second)))} second{'' if int(second) == 1 else 's'}"
    return f"{words} {half.lower()}.m." if half else words


def _clock(match: re.Match[str], switches: Switches) -> str | None:
    half = match["half"]
    if half and not 1 <= int(match["hour"]) <= 12:
        return None
    return _time(match["hour"], match["minute"], match["second"], half)


def _hour(match: re.Match[str], switches: Switches) -> str | None:
    """ "3pm", "3-5 pm"."""
    if not all(1 <= int(hour) <= 12 for hour in (match["from"] or "1", match["hour"])):
        return None
    span = f"{cardinal(str(int(match['from'])))} to " if match["from"] else ""
    return span + _time(match["hour"], "00", None, match["half"])


def _to(match: re.Match[str], switches: Switches) -> str | None:
    return " to "


RULES = (
    Rule(
        "dates",
        re.compile(
            _NOT_IN_NUMBER + r"(?P<y>[12][0-9]{3})(?P<sep>[-/.])(?P<m>[01]?[0-9])(?P=sep)(?P<d>[0-3]?[0-9])"
            r"(?P<clock>[T ]" + _CLOCK + r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?+)?+" + _END
        ),
        _iso,
    ),
    Rule(
        "dates",
        re.compile(
            _NOT_IN_NUMBER + r"(?P<a>[0-3]?[0-9])(?P<sep>[-/.])(?P<b>[0-3]?[0-9])(?P=sep)"
            r"(?P<y>[12][0-9]{3}|[0-9]{2})" + _END
        ),
        _numeric,
    ),
    Rule("dates", re.compile(rf"\b({_WEEKDAY})[-–]({_WEEKDAY})\b"), _weekdays),
    Rule(
        "dates",
        re.compile(rf"\b(?P<weekday>{_WEEKDAY})\b\.?,?(?= (?:[0-3]?[0-9] )?(?:" + "|".join(_BY_START) + "))"),
        _weekday,
    ),
    Rule(
        "dates",
        re.compile(rf"\b{_MONTH} {_DAY}(?: ?[-–] ?(?P<last>[0-3]?[0-9])(?:st|nd|rd|th)?+)?+(?:,? {_YEAR})?+{_END}"),
        _named,
    ),
    Rule(
        "dates", re.compile(rf"(?:\b[Tt]he )?{_NOT_IN_NUMBER}{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?+{_END}"), _day_first
    ),
    Rule("dates", re.compile(rf"\b{_MONTH},? {_YEAR}"), _month_year),
    Rule(
        "times",
        re.compile(
            r"(?:(?<=:[0-5][0-9])|(?<=[0-9][AaPp][Mm])|(?<=[0-9] [AaPp][Mm])) ?[-–] ?(?=[0-9]{1,2}(?:[ :]|[AaPp]))"
        ),
        _to,
    ),
    Rule("times", re.compile(rf"(?<![\w.,:]){_CLOCK}(?: ?{_HALF})?+"), _clock),
    Rule(
        "times",
        re.compile(rf"(?<![\w.,:$£€-])(?:(?P<from>[01]?[0-9]) ?[-–] ?)?(?P<hour>[01]?[0-9]) ?{_HALF}(?![A-Za-z0-9])"),
        _hour,
    ),
)
