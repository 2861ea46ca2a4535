"""Money, units of measure and percentages."""

from __future__ import annotations

import re

from kestrel.service.text.english.numerals import DASH, MINUS, NUMBER, cardinal, is_one, number, signed
from kestrel.service.text.rules import Rule
from kestrel.service.text.switches import Switches

# Written: (one, many, hundredth, hundredths); no hundredth means that the currency has none in use.
_DOLLAR = ("dollar", "dollars", "cent", "cents")
_CURRENCIES = {
    "$": _DOLLAR, "£": ("pound", "pounds", "penny", "pence"), "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""), "₹": ("rupee", "rupees", "paisa", "paise"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "A$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "USD": ("US dollar", "US dollars", "cent", "cents"), "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"), "JPY": ("yen", "yen", "", ""),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
}  # fmt: skip
_SCALES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion", "b": "billion",
    "B": "billion", "tn": "trillion", "T": "trillion",
}  # fmt: skip
_BEFORE = r"(?P<currency>US\$|A\$|C\$|[$£€¥₹]|(?<![A-Z])(?:USD|EUR|GBP|JPY|CHF) )"
_AFTER = r"(?P<currency>[€£$¥₹¢](?![0-9])|(?:USD|EUR|GBP|JPY|CHF)(?![A-Za-z]))"
_SCALE = r"(?: ?(?P<scale>thousand|million|billion|trillion|mn|bn|tn|[kKmMbBT])(?![A-Za-z0-9]))?+"
_RANGE = rf"(?P<first>{NUMBER})(?:{DASH}[$£€¥₹]?(?P<last>{NUMBER}))?+"

_PREFIXED = {"m": "meter", "g": "gram", "W": "watt", "Hz": "hertz", "V": "volt", "Wh": "watt-hour", "Pa": "pascal"}
_PREFIXES = {"k": "kilo", "M": "mega", "G": "giga", "m": "milli"}
_BYTES = {"B": "byte", "bit": "bit", "b": "bit"}
_BYTE_PREFIXES = {"k": "kilo", "K": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta"}


def _table() -> dict[str, tuple[str, str]]:
    """Sign: (one, many)."""
    table: dict[str, tuple[str, str]] = {}

    def add(one: str, *signs: str, many: str | None = None) -> None:
        table.update(dict.fromkeys(signs, (one, many or f"{one}s")))

    for sign, name in _PREFIXED.items():
        many = name if name == "hertz" else f"{name}s"
        add(name, sign, many=many)
        for prefix, word in _PREFIXES.items():
            if prefix + sign not in ("Mm", "Gm", "Mg", "Gg", "mHz", "mWh", "mPa"):
                add(word + name, prefix + sign, many=word + many)
    for sign, name in _BYTES.items():
        for prefix, word in _BYTE_PREFIXES.items():
            add(f"{word}{name}", prefix + sign)
            if sign != "bit":
                add(f"{word}{name} per second", f"{prefix}{sign}ps", many=f"{word}{name}s per second")
    for prefix, word in {"K": "kibi", "M": "mebi", "G": "gibi", "T": "tebi"}.items():
        add(f"{word}byte", f"{prefix}iB")
    add("centimeter", "cm")
    add("micrometer", "µm", "μm")
    add("nanometer", "nm")
    add("microgram", "µg", "μg")
    add("microsecond", "µs", "μs")
    add("nanosecond", "ns")
    add("millisecond", "ms")
    add("second", "s", "sec", "secs")
    add("minute", "min", "mins")
    add("hour", "h", "hr", "hrs")
    add("year", "yr", "yrs")
    add("mile", "mi")
    add("yard", "yd", "yds")
    add("foot", "ft", many="feet")
    add("inch", "in", "″", many="inches")
    add("pound", "lb", "lbs")
    add("ounce", "oz")
    add("milliliter", "ml", "mL")
    add("centiliter", "cl", "cL")
    add("liter", "l", "L")
    add("gallon", "gal")
    add("hectare", "ha")
    add("hectopascal", "hPa")
    add("pound per square inch", "psi", many="pounds per square inch")
    add("mile per hour", "mph", many="miles per hour")
    add("kilometer per hour", "kph", "kmh", many="kilometers per hour")
    add("revolution per minute", "rpm", many="revolutions per minute")
    add("beat per minute", "bpm", many="beats per minute")
    add("frame per second", "fps", many="frames per second")
    add("dot per inch", "dpi", many="dots per inch")
    add("part per million", "ppm", many="parts per million")
    add("milliamp", "mA")
    add("milliamp-hour", "mAh")
    add("ohm", "Ω")
    add("kilohm", "kΩ")
    add("decibel", "dB")
    add("pixel", "px")
    add("calorie", "cal")
    add("kilocalorie", "kcal")
    add("kilojoule", "kJ")
    add("degree Celsius", "°C", "℃", many="degrees Celsius")
    add("degree Fahrenheit", "°F", "℉", many="degrees Fahrenheit")
    add("degree", "°")
    add("percent", "%", many="percent")
    add("per mille", "‰", many="per mille")
    add("square foot", "sq ft", "sq. ft", many="square feet")
    add("square meter", "sq m")
    add("square mile", "sq mi")
    return table


_UNITS = _table()
_LENGTHS = frozenset(("m", "km", "cm", "mm", "ft", "in", "mi", "yd", "µm"))
# Signs that are words or letters too: taken for units only where nothing parts them from the number.
_CLOSE_ONLY = frozenset(("in", "″"))
_UNIT = "|".join(re.escape(sign) for sign in sorted(_UNITS, key=len, reverse=True))
_PER = "s|sec|min|h|hr|day|week|month|year|yr|kg|g|m³|m²|m3|m2|km|L|l|mL|ml|person|mile|hour|minute|second"
_PER_NAMES = {
    "sec": "second", "hr": "hour", "yr": "year", "m³": "cubic meter", "m3": "cubic meter", "m²": "square meter",
    "m2": "square meter",
}  # fmt: skip


def _money(match: re.Match[str], switches: Switches) -> str | None:
    written, first, last, scale = match["currency"].strip(), match["first"], match["last"], match["scale"]
    if written == "¢":
        return f"{number(first)} cent{'' if is_one(first) else 's'}"
    one, many, part, parts = _CURRENCIES[written]
    if last or scale:
        scaled = f" {_SCALES.get(scale, scale)}" if scale else ""
        spoken = f"{number(first)} to {number(last)}" if last else number(first)
        return signed(match["sign"], f"{spoken}{scaled} {many}")
    whole, _, fraction = first.partition(".")
    if fraction and (len(fraction) != 2 or not part):
        return signed(match["sign"], f"{number(first)} {many}")
    cents = int(fraction or 0)
    spoken_cents = f"{cardinal(str(cents))} {part if cents == 1 else parts}"
    if cents and int(whole.replace(",", "")) == 0:
        return signed(match["sign"], spoken_cents)
    spoken = f"{cardinal(whole)} {one if is_one(whole) else many}"
    return signed(match["sign"], f"{spoken} and {spoken_cents}" if cents else spoken)


def _measure(match: re.Match[str], switches: Switches) -> str | None:
    unit, first, last, gap, power, per = (match[name] for name in ("unit", "first", "last", "gap", "power", "per"))
    if unit in _CLOSE_ONLY and gap == " ":
        return None
    if power and unit not in _LENGTHS:
        return None
    one, many = _UNITS[unit]
    # "a 5-km run": an adjective has no plural.
    single = gap == "-" or (is_one(first) and not last)
    name = one if single else many
    if power:
        name = f"{'square' if power in '²2' else 'cubic'} {name}"
    if per:
        name += f" per {_per_name(per)}{' squared' if match['twice'] else ''}"
    spoken = f"{number(first)} to {number(last)}" if last else number(first)
    return signed(match["sign"], f"{spoken} {name}")


def _per_name(sign: str) -> str:
    return _PER_NAMES.get(sign) or (_UNITS[sign][0] if sign in _UNITS else sign)


def _height(match: re.Match[str], switches: Switches) -> str | None:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


def _per(match: re.Match[str], switches: Switches) -> str | None:
    return f" per {_per_name(match['per'])}"


RULES = (
    Rule("money", re.compile(rf"(?<![\w.,])(?P<sign>{MINUS}){_BEFORE}{_RANGE}{_SCALE}(?![A-Za-z0-9])"), _money),
    Rule("money", re.compile(rf"(?<![\w.,])(?P<sign>{MINUS}){_RANGE}{_SCALE} ?{_AFTER}"), _money),
    Rule(
        "money",
        re.compile(
            r"(?:(?<=dollars)|(?<=dollar)|(?<=pounds)|(?<=euros)|(?<=cents)|(?<=pence)) ?/ ?(?P<per>"
            + _PER
            + r")(?![A-Za-z])"
        ),
        _per,
    ),
    Rule("units", re.compile(r"(?<![\w.,])([0-9])['’′] ?([0-9]{1,2})(?:\"|”|″|'')"), _height),
    Rule(
        "units",
        re.compile(
            rf"(?<![\w.,])(?P<sign>{MINUS}){_RANGE}(?P<gap>[ -]?)(?P<unit>{_UNIT})(?P<power>[²³]|\^?[23](?![0-9]))?+"
            rf"(?:/(?P<per>{_PER})(?P<twice>²)?+)?+(?![A-Za-z0-9²³°])"
        ),
        _measure,
    ),
)
