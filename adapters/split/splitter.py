"""Cuts a neutral markdown text into pieces that fit into one message each.

Greedy from the left: a piece takes what fits, and ends at the best place in its last two thirds. What a
cut leaves open is closed and opened again: fences with their language, quotes with their mark, tables
with their head. List items lose the indentation of what they stood in. One pass, linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from adapters.limits import Limits, length_in
from adapters.split import cuts
from adapters.split.lines import lines
from adapters.split.structure import Container, Fence, Kind, Line

_BLANK = " \t\r\n"
_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
_REST = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))+|[ \t]*")
_IN_FENCE = frozenset({Kind.FENCE_OPEN, Kind.FENCE_BODY})
_WHOLE = frozenset(
    {Kind.FENCE_OPEN, Kind.FENCE_CLOSE, Kind.UNDERLINE, Kind.TABLE_HEAD, Kind.TABLE_LINE, Kind.TABLE_ROW}
)
"""Lines that are cut in themselves only if nothing else helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """`text` is markdown that is valid by itself; `source` is the part of the whole that it shows.

    The sources one after the other are the whole. `text` is `before`, then the source without blanks
    at a cut and without the indentation of lists that began in an earlier piece, then `after`.
    """

    source: str
    text: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """A line as a piece shows it. `size` is that of the piece if it ended after this line."""

    line: Line
    prefix: str
    text: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A piece may end at `end`: after `rows` lines, or inside of the next one from `inside` on.

    Ranks: 4 paragraph, 3 line, 2 sentence, 1 poor or word, 0 inside of a word, less if nothing else helps.
    """

    end: int
    rank: int
    size: int
    rows: int
    inside: int | None = None


def split(text: str, limits: Limits, *, reserve: int = 0) -> list[Piece]:
    """`text` as pieces whose texts measure at most `limits.text - reserve` in the platform's unit.

    Nothing is lost or doubled, and no grapheme is cut that fits into the limit. Blank text gives no
    piece. A limit below one code point (2 UTF-16 units, 4 bytes) is taken for that; where the limit is
    too small for the marks of a fence, the code goes without them. Never raises; linear time.
    """
    if not text.strip(_BLANK):
        return []
    if limits.text is None:
        return [Piece(source=text, text=text)]
    splitter = Splitter(text, limits)
    pieces: list[Piece] = []
    blank = ""
    while splitter.position < len(text):
        piece = splitter.take(limits.text - reserve)
        if piece.text:
            pieces.append(replace(piece, source=blank + piece.source) if blank else piece)
            blank = ""
        else:
            blank += piece.source
    if blank:
        pieces[-1] = replace(pieces[-1], source=pieces[-1].source + blank)
    return pieces


class Splitter:
    """Takes one piece after the other from a text, each with a limit of its own.

    `position` is where the next piece begins. `back` undoes the last `take`, so that it can be done
    again with a smaller limit. A piece may have no text: its source is blank and belongs to the last one.
    """

    def __init__(self, text: str, limits: Limits) -> None:
        self.position = 0
        self._previous = 0
        self._text = text
        self._unit = limits.unit
        self._measure = length_in(limits.unit)
        self._coming: Iterator[Line] = lines(text)
        self._lines: list[Line] = []
        self._room = 0

    @property
    def least(self) -> int:
        """The smallest limit that can be kept."""
        return cuts.LEAST[self._unit]

    def take(self, room: int) -> Piece:
        """The next piece, at most `room` long; only to be called while there is text left."""
        self._room = max(room, self.least)
        start = self._previous = self.position
        self._drop_before(start)
        before = self._opening(self._lines[0], start)
        if self._measure(before) * 2 <= self._room:
            rows, at_end = self._rows(start, self._measure(before))
            cut = self._best(start, before, rows, at_end=at_end)
            if cut is not None:
                return self._piece(start, before, cut, rows)
        return self._bare(start)

    def back(self) -> None:
        """Undo the last `take`."""
        self.position = self._previous

    def _piece(self, start: int, before: str, cut: _Cut, rows: list[_Row]) -> Piece:
        body = "".join(row.text for row in rows[: cut.rows])
        last = next((row.line for row in reversed(rows[: cut.rows]) if row.line.kind is not Kind.BLANK), None)
        if cut.inside is not None:
            last = rows[cut.rows].line
            body += rows[cut.rows].prefix + self._text[cut.inside : cut.end]
        fence = last.fence if last is not None and (last.kind in _IN_FENCE or cut.inside is not None) else None
        if fence is None:
            body, after = body.rstrip(_BLANK), ""
            found = _BLANKS.match(self._text, cut.end) if cut.inside is None else _REST.match(self._text, cut.end)
            end = found.end() if found else cut.end
            if end > cut.end and not cuts.is_boundary(self._text, end - 1, end):
                end -= 1  # the last blank carries a mark
            self.position = end
        else:
            if cut.inside is None:  # blank lines that end a quote end the fence in it too: they are no code
                said = [number for number, row in enumerate(rows[: cut.rows]) if row.line.kind is not Kind.BLANK]
                body = "".join(row.text for row in rows[: said[-1] + 1])
            after = self._closing(fence, start, body)
            self.position = cut.end
        source = self._text[start : self.position]
        return Piece(source=source, text=before + body + after, before=before, after=after)

    def _bare(self, start: int) -> Piece:
        """What fits of the text as it is, where the limit is too small for anything else."""
        text = self._text
        stop = cuts.within(text, start, len(text), self._room, self._unit)
        cut = cuts.boundary(text, start, stop)
        self.position = stop if cut == start else cut
        source = text[start : self.position]
        return Piece(source=source, text=source if source.strip(_BLANK) else "")

    def _line(self, number: int) -> Line | None:
        while number >= len(self._lines):
            line = next(self._coming, None)
            if line is None:
                return None
            self._lines.append(line)
        return self._lines[number]

    def _drop_before(self, position: int) -> None:
        """Forget the lines that are done with; the lines of the last piece stay for `back`."""
        gone = 0
        while (line := self._line(gone)) is not None and line.end <= position:
            gone += 1
        del self._lines[:gone]

    # -- what is added -------------------------------------------------------------------------------

    def _opening(self, first: Line, start: int) -> str:
        """What has to stand before a piece that begins at `start`, inside or at the begin of `first`."""
        inside = start > first.start
        fence = first.fence
        if fence is not None and (first.kind is not Kind.FENCE_OPEN or inside):
            quotes = _quotes(fence.stack)
            info = fence.info
            if self._measure(info) * 4 > self._room:
                info = info.split()[0] if self._measure(info.split()[0]) * 4 <= self._room else ""
            return f"{quotes}{fence.marker}{info}\n{quotes if inside else ''}"
        quotes = _quotes(first.stack)
        if inside:
            return quotes + (f"{first.heading} " if first.heading else "")
        if first.table and self._measure(first.table) * 3 <= self._room:
            return "".join(f"{quotes}{row}\n" for row in first.table.splitlines())
        return ""

    def _closing(self, fence: Fence, start: int, body: str) -> str:
        prefix = "".join(
            "> " if one.width == 0 else " " * one.width if one.opened >= start else "" for one in fence.stack
        )
        indent = " " * fence.indent if fence.opened >= start else ""
        newline = "" if body.endswith(("\n", "\r")) else "\n"
        return f"{newline}{prefix}{indent}{fence.marker}"

    # -- the lines of a piece ------------------------------------------------------------------------

    def _shown(self, line: Line, start: int) -> tuple[str, str]:
        """What stands before the content of `line` in a piece that begins at `start`, and the content.

        At most so much of the content that it is known whether it fits.
        """
        begin = _content(line, start)
        content = self._text[begin : min(line.end, begin + self._room + 2)]
        if line.start < start:
            return "", self._text[start : min(line.end, start + self._room + 2)]
        kept = "".join(part for one, part in line.parts if one.width == 0 or one.opened >= start)
        fence = line.fence
        if fence is not None and fence.opened < start and fence.indent:
            both = line.rest + content
            spaces = min(fence.indent, len(both) - len(both.lstrip(" ")))
            return (kept + line.rest[spaces:], content[max(0, spaces - len(line.rest)) :])
        if len(kept) == sum(len(part) for _, part in line.parts) and not line.rest:
            return self._text[line.start : line.tail], content
        return kept + line.rest, content

    def _rows(self, start: int, total: int) -> tuple[list[_Row], bool]:
        """The lines from `start` as far as they fit and one more; whether that is the end of the text."""
        measure, rows = self._measure, list[_Row]()
        size, said = total, False
        while (line := self._line(len(rows))) is not None:
            prefix, content = self._shown(line, start)
            text = prefix + content
            if line.kind is Kind.BLANK and not said:
                text = ""
            total += measure(text)
            cut_off = _content(line, start) + len(content) < line.end
            if line.kind is not Kind.BLANK:
                said = True
                bare = total - len(text) + len(text.rstrip(_BLANK))
                if line.kind in _IN_FENCE and line.fence is not None:
                    size = total + measure(self._closing(line.fence, start, text))
                else:
                    size = bare
                if cut_off or bare > self._room:
                    rows.append(_Row(line, prefix, text, self._room + 1))
                    return rows, False
            rows.append(_Row(line, prefix, text, size))
        return rows, True

    def _best(self, start: int, before: str, rows: list[_Row], *, at_end: bool) -> _Cut | None:
        """The best cut of a piece that begins with `before`, or None where not even that fits."""
        room = self._room
        if at_end and rows[-1].size <= room:
            return _Cut(end=len(self._text), rank=4, size=rows[-1].size, rows=len(rows))
        said, found = False, list[_Cut]()
        for number, row in enumerate(rows):
            line = row.line
            if said and line.kind is not Kind.BLANK and (size := rows[number - 1].size) <= room:
                found.append(_Cut(end=line.start, rank=line.rank or -1, size=size, rows=number))
            said = said or line.kind is not Kind.BLANK

        def goodness(cut: _Cut) -> tuple[bool, bool, int, int]:
            return cut.rank > 0, cut.size * 3 >= room, cut.rank, cut.end

        best = max(found, key=goodness, default=None)
        over = next((number for number, row in enumerate(rows) if row.size > room), None)
        if over is None or (best is not None and goodness(best)[:2] == (True, True)):
            return best
        if best is not None and best.rank > 0 and rows[over].line.kind in _WHOLE:
            return best
        return max([*found, *self._inside(start, before, rows, over)], key=goodness, default=None)

    def _inside(self, start: int, before: str, rows: list[_Row], over: int) -> list[_Cut]:
        """The cuts inside of the line that does not fit any more."""
        row, text, measure = rows[over], self._text, self._measure
        line = row.line
        code = line.fence is not None
        used = measure(before) + sum(measure(one.text) for one in rows[:over]) + measure(row.prefix)
        if line.fence is not None:
            used += measure(self._closing(line.fence, start, "x"))
        begin = _content(line, start)
        content_end = line.end - (2 if text.endswith("\r\n", begin, line.end) else text[line.end - 1] in "\r\n")
        stop = cuts.within(text, begin, content_end - code, self._room - used, self._unit)
        if stop <= begin:
            return []
        places = [] if code else cuts.soft_cuts(text, begin, stop, content_end)
        if not places:
            hard = cuts.hard_cut(text, begin, stop, content_end, code=code)
            places = [(hard, -2 if line.kind in _WHOLE else 0)] if hard > begin else []
        return [
            _Cut(end=end, rank=rank, size=used + measure(text[begin:end].rstrip(_BLANK)), rows=over, inside=begin)
            for end, rank in places
        ]


def _quotes(stack: tuple[Container, ...]) -> str:
    return "> " * sum(one.width == 0 for one in stack)


def _content(line: Line, start: int) -> int:
    """Where the content of `line` begins in a piece that begins at `start`."""
    return start if start > line.start else line.tail
