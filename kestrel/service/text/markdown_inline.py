"""Markdown inside a paragraph: emphasis, code spans, links, escapes, entities and the commoner HTML tags.

Own code, because the maintained parser (markdown-it-py) gives no positions inside a line, which spans need, and takes
quadratic time on hostile input. It is a reader, not a renderer: marks vanish by the characters beside them, paired or
not. One scan, whose every alternative ends at the next character that could begin another.
"""

from __future__ import annotations

import html
import re

from kestrel.service.text.trace import Edit

_BREAKING = "br|p|div|li|tr|h[1-6]|hr|ul|ol|table|blockquote|pre"
_SILENT = "a|abbr|b|code|del|details|em|i|img|ins|kbd|mark|s|small|span|strong|sub|summary|sup|td|th|u"
_TICKS = re.compile("`++")
_TOKEN = re.compile(
    r"(?P<pause>\[pause:[^\[\]\n]*+\])"
    r"|(?P<address>https?://[^\s<>()\[\]`]++)"  # "_" is no markup in it
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|<(?P<autolink>(?:https?://|mailto:)[^<>\s]++)>"
    r"|(?P<comment><!--[^<>]*+>)"
    rf"|(?P<breaking></?(?:{_BREAKING})(?:[\s/][^<>]*+)?>)"
    rf"|(?P<tag></?(?:{_SILENT})(?:[\s/][^<>]*+)?>)"
    r"|(?P<entity>&(?:[A-Za-z][A-Za-z0-9]{1,30}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});)"
    r"|(?P<footnote>\[\^[^\[\]\s]++\](?!:))"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\](?P<target>\((?:[^()\s\[\]]++|\([^()\s\[\]]*+\))*+(?:\s++\"[^\"\[\]]*+\"\s*+)?\)|\[[^\[\]\n]*+\])?)"
    r"|(?P<emphasis>\*++|_++|(?<!~)~~(?!~))",
    re.IGNORECASE,
)


def inline_edits(text: str, start: int, end: int, labels: frozenset[str] = frozenset()) -> list[Edit]:
    """Edits of `text[start:end]`, in order. `labels`: what a link like `[words][label]` may refer to, in lower case."""
    edits: list[Edit] = []
    at = start
    for first, last in _code_spans(text, start, end):
        edits += _marks(text, at, first, labels)
        if first < last:
            edits += (Edit(m.start(), m.end(), "") for m in _TICKS.finditer(text, first, last))
        at = last
    edits += _marks(text, at, end, labels)
    return edits


def _code_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans from one run of backticks to the next of the same length, in one paragraph; and the runs without a mate."""
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text, start, end)]
    mate: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        mate[index] = latest.get(length)
        latest[length] = index
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        partner = mate[index]
        if partner is not None and text.find("\n\n", runs[index][1], runs[partner][0]) < 0:
            spans.append((runs[index][0], runs[partner][1]))
            index = partner + 1
        else:
            spans.append(runs[index])
            index += 1
    return spans


def _marks(text: str, start: int, end: int, labels: frozenset[str]) -> list[Edit]:
    """Edits of text outside code spans."""
    edits: list[Edit] = []
    brackets: list[re.Match[str]] = []
    for match in _TOKEN.finditer(text, start, end):
        first, last = match.span()
        kind = match.lastgroup
        if kind == "escaped":
            edits.append(Edit(first, first + 1, ""))
        elif kind == "autolink":
            edits += (Edit(first, first + 1, ""), Edit(last - 1, last, ""))
        elif kind == "breaking":
            edits.append(Edit(first, last, "\n"))
        elif kind in ("tag", "footnote", "comment"):
            edits.append(Edit(first, last, ""))
        elif kind == "entity":
            edits.append(Edit(first, last, html.unescape(match[0])))
        elif kind == "open":
            brackets.append(match)
        elif kind in ("close", "target"):
            opener = brackets.pop() if brackets else None
            target = match["target"]
            if opener is None or not target:
                continue
            if target[0] == "(" or (target[1:-1] or text[opener.end() : first]).lower() in labels:
                edits += (Edit(*opener.span(), ""), Edit(first, last, ""))
        elif kind == "emphasis" and _is_markup(text, first, last):
            edits.append(Edit(first, last, ""))
    edits.sort(key=lambda edit: edit.start)
    return edits


def _is_markup(text: str, start: int, end: int) -> bool:
    """True unless the run stands alone ("2 * 3", a bullet) or inside a word ("snake_case", "2*3")."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if before.isspace() and after.isspace():
        return False
    if before.isalnum() and after.isalnum():
        return text[start] != "_" and end - start > 1 and not before.isdigit()
    return True
