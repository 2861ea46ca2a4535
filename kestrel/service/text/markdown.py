"""Markdown to plain text with the pauses a reader would make: line by line, then inside the lines.

Headings, list items and table rows end like sentences; tables are read cell by cell; rules, fences, quote marks and
link definitions vanish. Plain prose passes unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kestrel.service.text.markdown_inline import inline_edits
from kestrel.service.text.trace import Edit, Traced

_LINE = re.compile(r"[^\n]*+\n?+")
_FENCE = re.compile(r"[ \t>]*+(```+|~~~+)[^`\n]*+$")
_QUOTE = re.compile(r"[ \t]*+(?:>[ \t]?)++")
_HEADING = re.compile(r"[ \t]*+#{1,6}(?:[ \t]++|$)")
_BULLET = re.compile(r"[ \t]*+[-*+•‣◦][ \t]++(?:\[[ xX]\][ \t]++)?")
_NUMBERED = re.compile(r"[ \t]*+\d{1,3}([.)])[ \t]++")
_DEFINITION = re.compile(r"[ \t]*+\[[^\[\]\n]++\]:[ \t]*+<?(?:https?://|mailto:|[./#])")
_LABEL = re.compile(r"^[ \t]*+\[([^\[\]\n]++)\]:", re.MULTILINE)
_FOOTNOTE = re.compile(r"[ \t]*+\[\^[^\[\]\s]++\]:[ \t]*+")
_CLOSERS = " \t\r\"')]}”’»*_`~#|"
_ENDED = ".!?…:;,。！？"


@dataclass(frozen=True, slots=True)
class _Line:
    """One line without its line break, and what it is."""

    start: int
    end: int
    kind: str  # blank, fence, code, rule, definition, heading, item, row, text

    @property
    def opens_block(self) -> bool:
        return self.kind != "text"


def strip_markdown(traced: Traced) -> Traced:
    """The text without its markup."""
    inner = traced.rewrite(_inline(traced.text))
    return inner.rewrite(_blocks(inner.text))


def _inline(text: str) -> list[Edit]:
    """Marks inside the lines, everywhere but in fenced code."""
    edits: list[Edit] = []
    labels = frozenset(match[1].lower() for match in _LABEL.finditer(text))
    at = 0
    for line in _lines(text):
        if line.kind in ("fence", "code"):
            edits += inline_edits(text, at, line.start, labels)
            at = line.end
    return edits + inline_edits(text, at, len(text), labels)


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    fence = ""
    for match in _LINE.finditer(text):
        if not match[0]:
            break
        start, end = match.start(), match.start() + len(match[0].rstrip("\r\n"))
        line = text[start:end]
        mark = _FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence)
            kind = "fence" if closes else "code"
            fence = "" if closes else fence
        elif mark:
            kind, fence = "fence", mark[1]
        else:
            kind = _kind(line, lines[-1] if lines else None)
        lines.append(_Line(start, end, kind))
    return lines


def _kind(line: str, before: _Line | None) -> str:
    bare = line.strip()
    if not bare:
        return "blank"
    signs = set(bare) - {" "}
    if (len(signs) == 1 and signs <= set("-*_=") and len(bare) > 2) or (signs <= set("|:-") and {"|", "-"} <= signs):
        return "rule"
    if _DEFINITION.match(line):
        return "definition"
    if _HEADING.match(line):
        return "heading"
    if bare[0] == "|" or (before is not None and before.kind in ("row", "rule") and bare.count("|") > 0):
        return "row"
    if _BULLET.match(line) or _NUMBERED.match(line) or _FOOTNOTE.match(line):
        return "item"
    return "text"


def _blocks(text: str) -> list[Edit]:
    """Marks at the start of lines, and sentence ends where a line ends a block."""
    edits: list[Edit] = []
    lines = _lines(text)
    in_item = False
    for line, following in zip(lines, [*lines[1:], None], strict=False):
        in_item = line.kind == "item" or (in_item and line.kind == "text")
        last = following is None or following.opens_block
        start = line.start
        if line.kind in ("fence", "rule", "definition"):
            edits.append(Edit(line.start, line.end, ""))
            continue
        if line.kind in ("blank", "code"):
            continue
        if quote := _QUOTE.match(text, start, line.end):
            edits.append(Edit(start, quote.end(), ""))
            start = quote.end()
        # A table's head may lack the outer bars; the rule below it tells.
        above_rule = following is not None and _is_table_rule(text, following)
        row = line.kind == "row" or (above_rule and "|" in text[start : line.end])
        if line.kind == "heading" and (heading := _HEADING.match(text, start, line.end)):
            edits.append(Edit(start, heading.end(), "\n"))
            edits += _ended(text, heading.end(), line.end, "\n", cut=" \t\r#")
        elif row:
            edits += _cells(text, start, line.end)
        elif line.kind == "item":
            edits += _item(text, start, line.end, last)
        elif (in_item and last) or (following is not None and following.kind == "rule"):
            edits += _ended(text, start, line.end)
    return edits


def _is_table_rule(text: str, line: _Line) -> bool:
    return line.kind == "rule" and "|" in text[line.start : line.end]


def _item(text: str, start: int, end: int, last: bool) -> list[Edit]:
    edits: list[Edit] = []
    if mark := _BULLET.match(text, start, end) or _FOOTNOTE.match(text, start, end):
        edits.append(Edit(start, mark.end(), ""))
        start = mark.end()
    elif number := _NUMBERED.match(text, start, end):
        edits.append(Edit(number.start(1), number.end(1), ":"))
        start = number.end()
    return edits + (_ended(text, start, end) if last else [])


def _ended(text: str, start: int, end: int, more: str = "", cut: str = " \t\r") -> list[Edit]:
    """A full stop at the end of `text[start:end]` unless its words end with a mark already; `more` comes after it."""
    body = text[start:end].rstrip(cut)
    bare = body.rstrip(_CLOSERS)
    mark = "." if bare and bare[-1] not in _ENDED else ""
    return [Edit(start + len(body), end, mark + more)] if mark or more else []


def _cells(text: str, start: int, end: int) -> list[Edit]:
    """Bars of a table row become commas between cells that hold something, and a full stop after the last."""
    edits: list[Edit] = []
    at = start
    bar: tuple[int, int] | None = None  # of the cell being read, with the space before it
    filled = False
    for cell in text[start:end].split("|"):
        words = cell.rstrip()
        if bar is not None:
            edits.append(Edit(*bar, ", " if words and filled else " "))
        filled = filled or bool(words)
        bar = (at + len(words), at + len(cell) + 1)
        at += len(cell) + 1
    body = text[start:end].rstrip(_CLOSERS)
    if filled and body and body[-1] not in _ENDED:
        stop = start + len(body)
        edits = [edit for edit in edits if edit.end <= stop]
        edits.append(Edit(stop, end, "."))
    return edits
