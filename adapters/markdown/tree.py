"""The tree of a neutral markdown text. A renderer matches all of `Block` and `Inline` (`assert_never`).

The depth is bounded (see `adapters.markdown.parse.MAX_NESTING`), so that a renderer may recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "center", "right"]


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves: a renderer escapes them. Raw HTML is such text too."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A code span; its text stands for itself, line breaks are blanks already."""

    text: str


@dataclass(frozen=True, slots=True)
class Emphasis:
    """Usually shown in italics."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strong:
    """Usually shown in bold."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strike:
    """Struck through."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `bare` is true where the text is the address itself (`<https://…>`)."""

    href: str
    title: str
    children: tuple[Inline, ...]
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """A picture by its address; `alt` is its description."""

    src: str
    alt: str
    title: str


@dataclass(frozen=True, slots=True)
class Break:
    """The end of a line inside of a paragraph. `hard`: the author asked for it; chats show both."""

    hard: bool


Inline = Text | Code | Emphasis | Strong | Strike | Link | Image | Break


@dataclass(frozen=True, slots=True)
class Heading:
    """`level` is 1 to 6."""

    level: int
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list. A tight list's items begin with a paragraph without space around it."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class List:
    """`start` is the first number, None for bullets."""

    start: int | None
    tight: bool
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced or indented block. `text` has no line break at its end; `info` is what stood behind the fence."""

    text: str
    info: str

    @property
    def language(self) -> str:
        """The first word of the info."""
        words = self.info.split(maxsplit=1)
        return words[0] if words else ""


@dataclass(frozen=True, slots=True)
class Table:
    """Every row has as many cells as `head`; `align` has an entry for each column."""

    align: tuple[Align | None, ...]
    head: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""


Block = Heading | Paragraph | Quote | List | CodeBlock | Table | Rule


@dataclass(frozen=True, slots=True)
class Document:
    """The whole text."""

    blocks: tuple[Block, ...]
