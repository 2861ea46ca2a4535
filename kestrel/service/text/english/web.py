"""Addresses, file names, hash tags, versions and telephone numbers: read sign by sign or digit by digit."""

from __future__ import annotations

import re
from urllib.parse import unquote

from kestrel.service.text.english.numerals import cardinal, digits
from kestrel.service.text.rules import Rule
from kestrel.service.text.switches import Switches

_SIGNS = {
    ".": "dot", "/": "slash", "\\": "backslash", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", ":": "colon", "@": "at", "+": "plus", "~": "tilde", "%": "percent", "*": "star",
}  # fmt: skip
_END = r"(?![\w-]|[.,][0-9])"  # of a telephone number
_PART = re.compile(r"[0-9]++|[^\W\d_]++|[^\w\s]|_")
_EXTENSIONS = (
    "pdf|txt|md|py|js|ts|tsx|jsx|css|html|htm|csv|tsv|xml|yml|sql|sh|rs|rb|go|cpp|c|h|hpp|cs|php|jpg|jpeg|png|gif|svg|"
    "bmp|webp|mp3|mp4|mkv|mov|avi|wav|flac|ogg|opus|m4a|zip|tar|gz|bz2|xz|7z|rar|iso|exe|dll|so|deb|rpm|apk|doc|docx|"
    "xls|xlsx|ppt|pptx|odt|epub|json|yaml|toml|ini|cfg|conf|log|bak|lock|ipynb|gguf|onnx|java|kt|swift|lua|vue|env"
)
# Endings that are read as letters, unlike "dot zip"; those with digits need no help.
_SPELLED = frozenset(
    ("pdf", "txt", "md", "py", "js", "ts", "css", "html", "htm", "csv", "xml", "yml", "sql", "rs", "rb", "cpp", "cs",
     "php", "jpg", "png", "svg", "gz", "xz")
)  # fmt: skip
_TOP_DOMAINS = "com|org|net|edu|gov|io|dev|ai|app|co|uk|de|fr|eu|us|ca|au|info|me|tv|ly|xyz"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?+"
_HOST = rf"(?:{_LABEL}\.){{1,8}}[A-Za-z]{{2,24}}"
# What may follow a host; sentence marks at its end are not part of it.
_TAIL = r"(?:[/?#][^\s<>\"“”|{}^`\[\]]*+(?<![.,;:!?'’)]))?"


def spelled(written: str) -> str:
    """Signs by name, words as words, numbers as numbers: "a-b.com/1" -> "a dash b dot com slash one"."""
    words: list[str] = []
    for part in _PART.findall(written):
        if part in _SIGNS:
            words.append(_SIGNS[part])
        elif part.isascii() and part.isdigit():
            words.append(cardinal(part))
        elif part[0].isalnum():
            words.append(part)
    return " ".join(words)


def _trimmed(written: str) -> tuple[str, str]:
    """An address and the sentence marks at its end, which belong to the sentence; a bracket only if it is not open."""
    body = written.rstrip(".,;:!?'’")
    while body.endswith(")") and body.count("(") < body.count(")"):
        body = body[:-1].rstrip(".,;:!?'’")
    return body, written[len(body) :]


def _url(match: re.Match[str], switches: Switches) -> str | None:
    body, marks = _trimmed(match["rest"])
    path = unquote(body, errors="replace").rstrip("/")
    return (spelled(path) + marks) if path else None


def _email(match: re.Match[str], switches: Switches) -> str | None:
    return spelled(match["address"])


def _file(match: re.Match[str], switches: Switches) -> str | None:
    ending = match["ending"]
    spoken = ending.upper() if ending.lower() in _SPELLED else ending
    return f"{spelled(match['stem'])} dot {spelled(spoken)}"


def _path(match: re.Match[str], switches: Switches) -> str | None:
    body, marks = _trimmed(match[0])
    return spelled(body) + marks


def _hashtag(match: re.Match[str], switches: Switches) -> str | None:
    return f"hashtag {spelled(match['tag'])}"


def _handle(match: re.Match[str], switches: Switches) -> str | None:
    return f"at {spelled(match['name'])}"


def _points(written: str, *, single: bool = False) -> str:
    return " point ".join(digits(part) if single else cardinal(part) for part in written.split("."))


def _version(match: re.Match[str], switches: Switches) -> str | None:
    more = f" {spelled(match['more'][1:])}" if match["more"] else ""
    return f"{match['word'] or 'version '}{_points(match['number'])}{more}"


def _dotted(match: re.Match[str], switches: Switches) -> str | None:
    parts = match[0].split(".")
    if len(parts) == 4 and all(len(part) <= 3 and int(part) <= 255 for part in parts):
        return " dot ".join(digits(part) for part in parts)
    return _points(match[0])


def _phone(match: re.Match[str], switches: Switches) -> str | None:
    """Digit by digit, a short pause between the groups."""
    groups = re.findall(r"[0-9]+", match[0])
    count = sum(map(len, groups))
    if not 7 <= count <= 15:
        return None
    spoken = ", ".join("eight hundred" if group == "800" else digits(group) for group in groups)
    return f"plus {spoken}" if match[0].lstrip("(")[0] == "+" else spoken


def _emergency(match: re.Match[str], switches: Switches) -> str | None:
    return digits(match[0])


ADDRESSES = (
    Rule("links", re.compile(r"(?<![\w@])(?:https?|ftp)://(?P<rest>[^\s<>\"“”|{}^`\[\]]++)", re.IGNORECASE), _url),
    Rule(
        "links",
        re.compile(rf"(?<![\w.+%-])(?:mailto:)?+(?P<address>[\w.+%-]{{1,64}}@{_HOST})(?![\w-]|\.\w)", re.ASCII),
        _email,
    ),
    Rule(
        "links",
        re.compile(
            rf"(?<![\w.@/-])(?P<rest>(?:www\.{_HOST}|(?:{_LABEL}\.){{1,8}}(?:{_TOP_DOMAINS}))(?![\w-]|\.[\w-]){_TAIL})",
            re.ASCII,
        ),
        _url,
    ),
    Rule(
        "links", re.compile(r"(?<![\w.:/\\-])(?:[A-Za-z]:\\|~/|\.{1,2}/|/(?=[\w.-]++/))[\w.~/\\-]++", re.ASCII), _path
    ),
    Rule(
        "links",
        re.compile(rf"(?<![\w.-])(?P<stem>[\w-][\w.-]{{0,80}})\.(?P<ending>{_EXTENSIONS})(?![\w-]|\.\w)", re.ASCII),
        _file,
    ),
    Rule("links", re.compile(r"(?<![\w&#])#(?P<tag>[^\W\d]\w{0,80})(?!\w)"), _hashtag),
    Rule("links", re.compile(r"(?<![\w@.])@(?P<name>[^\W\d]\w{0,40})(?!\w)"), _handle),
)
CODES = (
    Rule(
        "phones",
        re.compile(
            r"(?<![\w.,+/-])\+[0-9]{1,3}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?(?:[0-9]{1,5}[ .-]){0,5}[0-9]{2,12}" + _END
        ),
        _phone,
    ),
    Rule(
        "phones",
        re.compile(
            r"(?<![\w.,+/$£€¥-])(?:1[ .-])?(?:\([0-9]{3}\) ?|[0-9]{3}[.-]|(?<=1 )[0-9]{3} )[0-9]{3}[ .-][0-9]{4}" + _END
        ),
        _phone,
    ),
    Rule("phones", re.compile(r"(?<![\w.,+/$£€¥-])[2-9][0-9]{2}-[0-9]{4}" + _END), _phone),
    Rule("phones", re.compile(r"(?<![\w.,+/-])\(?0[0-9]{2,4}\)? [0-9]{3,4}[ -][0-9]{3,4}" + _END), _phone),
    Rule(
        "phones", re.compile(r"(?:(?<=[Cc]all )|(?<=[Dd]ial ))(?:911|999|112|411|988)(?![\w,.-][0-9]|\w)"), _emergency
    ),
    Rule(
        "versions",
        re.compile(
            r"(?<![\w.])(?:[vV]\.? ?(?=[0-9]{1,6}\.)|[vV](?=[0-9]{1,3}(?![0-9.]))|(?P<word>[Vv]ersion |[Rr]elease ))"
            r"(?P<number>[0-9]{1,6}(?:\.[0-9]{1,6}){0,5})(?P<more>-[A-Za-z][\w.]{0,20}(?<!\.))?+(?![0-9A-Za-z]|\.[0-9])"
        ),
        _version,
    ),
    Rule("versions", re.compile(r"(?<![\w.,$£€¥-])[0-9]{1,6}(?:\.[0-9]{1,6}){2,5}(?![0-9A-Za-z-]|\.[0-9])"), _dotted),
)
