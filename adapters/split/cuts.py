"""Where a single line may be cut: lengths in the platform's unit, graphemes, words, sentences."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from adapters.limits import Unit

LEAST: dict[Unit, int] = {"codepoints": 1, "utf16": 2, "bytes": 4}
"""The room that the largest code point needs. A smaller limit cannot be kept and is taken for this."""

SENTENCE, WORD = 2, 1

_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]*_]*[ \t]+|[。！？；]["'”’）」』]*[ \t]*""")
_WORD_END = re.compile(r"[ \t]+")
_ATOM = re.compile(
    r"""(`{1,8})(?!`)[^`\n]{1,400}\1"""
    r"""|!?\[[^\[\]\n]{0,300}\]\([^()\s]{1,2000}(?:[ ]"[^"\n]{0,200}")?\)"""
    r"""|\*\*[^*\n]{1,300}\*\*|~~[^~\n]{1,300}~~"""
)
_BLOCK_MARK = re.compile(
    r"[-+*](?:[ \t]|$)|[0-9]{1,9}[.)](?:[ \t]|$)|#{1,6}(?:[ \t]|$)|>|```|~~~|[-=|:*_]{2,}[ \t]*$|\|"
)


@cache
def _regex() -> Any:
    import regex  # noqa: PLC0415 - costs start-up, and plain ASCII does without

    return regex.compile(r"\X")


def within(text: str, start: int, end: int, room: int, unit: Unit) -> int:
    """The last position up to `end` so that `text[start:position]` measures at most `room`."""
    end = min(end, start + room)
    if end <= start:
        return start
    if unit == "codepoints":
        return end
    part = text[start:end]
    if part.isascii():
        return end
    if unit == "utf16":
        units = part.encode("utf-16-le", "surrogatepass")
        cut = min(2 * room, len(units))
        if cut < len(units) and 0xDC <= units[cut + 1] <= 0xDF and 0xD8 <= units[cut - 1] <= 0xDB:
            cut -= 2
        return start + len(units[:cut].decode("utf-16-le", "surrogatepass"))
    raw = part.encode("utf-8", "surrogatepass")
    cut = min(room, len(raw))
    while cut < len(raw) and raw[cut] & 0xC0 == 0x80:
        cut -= 1
    return start + len(raw[:cut].decode("utf-8", "surrogatepass"))


def boundary(text: str, start: int, position: int) -> int:
    """The last boundary between graphemes in [start, position]; `start` must be one."""
    if position >= len(text) or position <= start:
        return position
    last, following = text[position - 1], text[position]
    if last < "\x7f" and following < "\x7f":
        return position - 1 if last == "\r" and following == "\n" else position
    found = start
    for match in _regex().finditer(text, start, position + 1):
        if match.end() > position:
            break
        found = match.end()
    return found


def is_boundary(text: str, start: int, position: int) -> bool:
    """Whether a cut at `position` parts no grapheme."""
    return boundary(text, start, position) == position


def soft_cuts(text: str, start: int, stop: int, line_end: int) -> list[tuple[int, int]]:
    """(position, rank) of the places in (start, stop] where the line may be cut between words.

    No place inside of a code span, a link or bold text, and none after which the rest would be read as
    a list item, a heading or another block. Of each rank only the last two are given.
    """
    atoms = [match.span() for match in _ATOM.finditer(text, start, min(line_end, stop + min(stop - start, 2500)))]
    found: list[tuple[int, int]] = []
    for pattern, rank in ((_SENTENCE_END, SENTENCE), (_WORD_END, WORD)):
        ends = [match.end() for match in pattern.finditer(text, start, min(line_end, stop + 1))]
        count = 0
        for end in reversed(ends):
            # blanks at the cut need no room: a word may end exactly at `stop`
            if end <= start or end >= line_end or (end > stop and text[stop] not in " \t"):
                continue
            if any(a < end < b for a, b in atoms) or is_block_mark(text, end, line_end):
                continue
            if not is_boundary(text, start, end):
                continue
            found.append((end, rank))
            count += 1
            if count == 2:
                break
    return found


def is_block_mark(text: str, position: int, line_end: int) -> bool:
    """Whether the text from `position` would be read as the beginning of another block."""
    return _BLOCK_MARK.match(text[position : min(line_end, position + 80)]) is not None


def hard_cut(text: str, start: int, stop: int, line_end: int, *, code: bool) -> int:
    """A cut between graphemes at or before `stop`, where nothing better is to be had; `start` if there is none."""
    cut = boundary(text, start, stop)
    if code:
        return cut
    for _ in range(12):
        if cut - 1 <= start or not is_block_mark(text, cut, line_end):
            break
        cut = boundary(text, start, cut - 1)
    return cut
