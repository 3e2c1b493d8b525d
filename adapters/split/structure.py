"""What a line of neutral markdown is, and what stands around it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a line is."""

    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    UNDERLINE = auto()
    RULE = auto()
    CODE = auto()
    FENCE_OPEN = auto()
    FENCE_BODY = auto()
    FENCE_CLOSE = auto()
    TABLE_HEAD = auto()
    TABLE_LINE = auto()
    TABLE_ROW = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Container:
    """A quote (`width` 0) or a list item (`width` columns of indentation); `opened` is the start of its line."""

    width: int
    opened: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fence:
    """A fenced block: its marker, the info behind it, its own indentation, and the containers around it."""

    marker: str
    info: str
    indent: int
    opened: int
    stack: tuple[Container, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`text[start:end]` with its line break (a run of blank lines counts as one line).

    It reads as its `parts` (one a container), then `rest`, then `text[tail:end]`. `rank` says how good a
    cut before it is: 0 never if it can be helped, 1 poor, 3 between lines, 4 between paragraphs.
    `fence` is set from the line that opens it to the line that closes it; `table` (the head and the
    line below it, without containers) on the rows of a table; `heading` is the marks of a heading.
    """

    start: int
    end: int
    kind: Kind
    rank: int
    tail: int
    parts: tuple[tuple[Container, str], ...] = ()
    rest: str = ""
    stack: tuple[Container, ...] = ()
    fence: Fence | None = None
    table: str = ""
    heading: str = ""
