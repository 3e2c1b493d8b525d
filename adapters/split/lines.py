"""The lines of a neutral markdown text with what surrounds them: quotes, list items, fences, tables.

This is the container part of CommonMark, no more: enough to know what a cut would leave open. It reads
each line once, so that a text of a megabyte costs a fraction of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from adapters.split.structure import Container, Fence, Kind, Line

MAX_DEPTH = 40
"""Containers deeper than this are taken for text, as the parser does."""
ZONE = 1000
"""Marks of containers are looked for in so many characters at the beginning of a line."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))+")
_ZONE = re.compile(r"(?:[ \t>]|[-+*](?=[ \t])|[0-9]{1,9}[.)](?=[ \t]))*")
_SPACES = re.compile(r" *")
_EMPTY = re.compile(r"[ \t\r\n]*\Z")
_ITEM = re.compile(r" {0,3}([-+*]|([0-9]{1,9})[.)])(?=[ \t\r\n]|\Z)( *)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})[\r\n]*\Z")
_FENCE = re.compile(r"( {0,3})(?:(`{3,})([^`\r\n]*)|(~{3,})([^\r\n]*))[\r\n]*\Z")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t\r\n]|\Z)")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*[\r\n]*\Z")
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*[\r\n]*\Z")
_PIPE = re.compile(r"(?<!\\)\|")
_WIDEST_TABLE = 4000


@lru_cache(maxsize=256)
def _closer(marker: str) -> re.Pattern[str]:
    return re.compile(rf" {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*[\r\n]*\Z")


def _indent(shown: str, at: int) -> int:
    found = _SPACES.match(shown, at)
    return found.end() - at if found else 0


def _cells(row: str) -> int:
    row = row.strip()
    last = len(row) > 1 and row.endswith("|") and not row.endswith("\\|")
    return len(_PIPE.findall(row)) + 1 - row.startswith("|") - last


def lines(text: str) -> Iterator[Line]:
    """The lines of `text` in order. Never raises; linear in the length of the text."""
    return _Scanner(text).run()


class _Scanner:
    """Reads one line after the other, and keeps what is open after the lines read so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stack: tuple[Container, ...] = ()
        self._fence: Fence | None = None
        self._table = ""
        self._paragraph = False
        self._last = Kind.BLANK
        self._blank = True
        # the line that is being read: where it is, how it is shown, how far it is read
        self._start = self._end = self._at = self._zone_end = self._shift = 0
        self._shown = ""
        self._parts: list[tuple[Container, str]] = []

    def run(self) -> Iterator[Line]:
        text, position = self._text, 0
        while position < len(text):
            if self._fence is None and (run := _BLANKS.match(text, position)):
                self._blank_line(next((n for n, c in enumerate(self._stack) if c.width == 0), len(self._stack)))
                yield Line(start=position, end=run.end(), kind=Kind.BLANK, rank=0, tail=position, stack=self._stack)
                position = run.end()
                continue
            found = _LINE.match(text, position)
            self._start, self._end = position, found.end() if found else len(text)
            line = self._read()
            yield line
            self._blank = line.kind is Kind.BLANK
            if not self._blank:
                self._last = line.kind
            position = line.end

    def _blank_line(self, matched: int) -> None:
        self._paragraph, self._table, self._blank = False, "", True
        self._stack = self._stack[:matched]

    def _line(self, kind: Kind, rank: int, *, heading: str = "") -> Line:
        tail, rest = self._start + self._at - self._shift, ""
        if self._shift and tail < self._zone_end:
            tail = self._zone_end
            rest = self._shown[self._at : tail - self._start + self._shift]
        fence = self._fence
        if kind is Kind.FENCE_CLOSE:
            self._fence = None
        table = self._table if kind is Kind.TABLE_ROW else ""
        return Line(
            start=self._start, end=self._end, kind=kind, rank=rank, parts=tuple(self._parts), rest=rest,
            tail=tail, stack=self._stack, fence=fence, heading=heading, table=table,
        )  # fmt: skip

    def _show(self) -> None:
        """Tabs before the content become spaces, so that columns can be counted."""
        start, end = self._start, self._end
        zone = _ZONE.match(self._text, start, min(end, start + ZONE))
        self._zone_end = zone.end() if zone else start
        before = self._text[start : self._zone_end]
        self._shown = self._text[start:end]
        if "\t" in before:
            self._shown = before.expandtabs(4) + self._text[self._zone_end : end]
        self._shift = len(self._shown) - (end - start)

    def _read(self) -> Line:
        self._show()
        matched = self._match()
        whole = matched == len(self._stack)
        if self._fence is not None:
            if whole:
                if _closer(self._fence.marker).match(self._shown, self._at):
                    return self._line(Kind.FENCE_CLOSE, 0)
                return self._line(Kind.FENCE_BODY, 0 if self._last is Kind.FENCE_OPEN else 3)
            self._fence = None
            self._last = Kind.FENCE_CLOSE
        opened = self._open(matched, whole=whole)
        if _EMPTY.match(self._shown, self._at):
            if opened:
                return self._line(Kind.TEXT, 4 if self._blank else 3)
            self._blank_line(matched)
            return self._line(Kind.BLANK, 0)
        return self._leaf(matched, whole=whole or opened, opened=opened)

    def _match(self) -> int:
        """Take off the marks of the containers that go on in this line; how many those are."""
        self._parts, self._at = [], 0
        shown = self._shown
        for one in self._stack:
            at = self._at
            indent = _indent(shown, at)
            if one.width == 0:
                if indent > 3 or shown[at + indent : at + indent + 1] != ">":
                    break
                after = at + indent + 1
                after += shown[after : after + 1] == " "
            elif indent >= one.width:
                after = at + one.width
            elif _EMPTY.match(shown, at):
                after = at + indent
            else:
                break
            self._parts.append((one, shown[at:after]))
            self._at = after
        return len(self._parts)

    def _open(self, matched: int, *, whole: bool) -> bool:
        """Open the quotes and list items that begin in this line."""
        shown = self._shown
        new: list[Container] = []
        while matched + len(new) < MAX_DEPTH:
            at = self._at
            indent = _indent(shown, at)
            if indent > 3:
                break
            if shown[at + indent : at + indent + 1] == ">":
                after = at + indent + 1
                after += shown[after : after + 1] == " "
                one = Container(width=0, opened=self._start)
            else:
                item = _ITEM.match(shown, at)
                if item is None or _RULE.match(shown, at):
                    break
                empty = _EMPTY.match(shown, item.end()) is not None
                if self._paragraph and whole and not new and (empty or item[2] not in {None, "1"}):
                    break
                after = item.end(1) + 1 if empty or len(item[3]) > 4 else item.end()
                after = min(after, len(shown))
                one = Container(width=item.end(1) + 1 - at if empty else after - at, opened=self._start)
            self._parts.append((one, shown[at:after]))
            new.append(one)
            self._at = after
        if new:
            self._stack = (*self._stack[:matched], *new)
            self._paragraph, self._table = False, ""
        return bool(new)

    def _leaf(self, matched: int, *, whole: bool, opened: bool) -> Line:
        """The line by what it says itself."""
        shown, at = self._shown, self._at
        if self._paragraph and whole and _SETEXT.match(shown, at):
            self._paragraph = False
            return self._line(Kind.UNDERLINE, 0)
        fence, heading = _FENCE.match(shown, at), _HEADING.match(shown, at)
        if fence or heading or _RULE.match(shown, at):
            if not opened:
                self._stack = self._stack[:matched] if not whole else self._stack
            self._paragraph, self._table = False, ""
            if fence:
                self._fence = Fence(
                    marker=fence[2] or fence[4],
                    info=(fence[3] or fence[5] or "").strip(),
                    indent=len(fence[1]),
                    opened=self._start,
                    stack=self._stack,
                )
                return self._line(Kind.FENCE_OPEN, self._rank(Kind.FENCE_OPEN))
            if heading:
                return self._line(Kind.HEADING, self._rank(Kind.HEADING), heading=heading[1])
            return self._line(Kind.RULE, self._rank(Kind.RULE))
        if not self._paragraph:
            self._stack = self._stack if whole else self._stack[:matched]
            if _indent(shown, at) > 3:
                self._table = ""
                return self._line(Kind.CODE, self._rank(Kind.CODE))
        return self._text_line(whole=whole)

    def _text_line(self, *, whole: bool) -> Line:
        if self._table and whole:
            if self._last is Kind.TABLE_HEAD:
                return self._line(Kind.TABLE_LINE, 0)
            return self._line(Kind.TABLE_ROW, 0 if self._last is Kind.TABLE_LINE else 3)
        self._table = self._table_below() if whole else ""
        if self._table:
            self._paragraph = False
            return self._line(Kind.TABLE_HEAD, self._rank(Kind.TABLE_HEAD))
        rank = self._rank(Kind.TEXT)
        self._paragraph = True
        return self._line(Kind.TEXT, rank)

    def _table_below(self) -> str:
        """The two lines of a table's head, if this line and the next one are that."""
        head = self._shown[self._at :]
        if len(head) > _WIDEST_TABLE or _indent(head, 0) > 3:
            return ""
        found = _LINE.match(self._text, self._end, min(len(self._text), self._end + _WIDEST_TABLE))
        below = found[0] if found else ""
        if "-" not in below or not ("|" in head or "|" in below):
            return ""
        below = below.lstrip(" \t>")
        if not _DELIMITERS.match(below) or _cells(head) != _cells(below):
            return ""
        return f"{head.strip()}\n{below.strip()}\n"

    def _rank(self, kind: Kind) -> int:
        if self._last is Kind.HEADING:
            return 1
        return 4 if self._blank or kind is not self._last else 3
