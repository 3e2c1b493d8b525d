"""Neutral markdown as Telegram's HTML, with the length that Telegram will measure.

Telegram limits what is left after the tags are read (core.telegram.org/bots/api#formatting-options), in
UTF-16 units, and keeps 100 entities of a message: a link beyond them would lose its address.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

from adapters.limits import length_in
from adapters.markdown import parse
from adapters.markdown.plain import inline_text
from adapters.markdown.tree import (
    Block,
    Break,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Image,
    Inline,
    Item,
    Link,
    List,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
)

TEXT = 4096
"""UTF-16 units of a message, without its tags."""
ENTITIES = 100
LONG_QUOTE = 8
"""Lines from which on a quotation is folded."""
WIDEST = 40
"""Columns up to which a cell of a table is padded."""
BULLETS = ("•", "◦", "▪")
RULE = "———"

MENTION = re.compile(r"(?<![\w@/.])@[A-Za-z]\w{2,31}(?!\w)")
"""What Telegram would turn into a mention that rings. Shown as code it stays what it is."""
_SPOILER = re.compile(r"(?<![\w|])\|\|(?=\S)(?P<inner>.+?)(?<=\S)\|\|(?![\w|])", re.DOTALL)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.\-]{1,32}")

units = length_in("utf16")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The HTML of one message; `size` as Telegram measures it, `entities` as it counts them."""

    html: str
    size: int
    entities: int


def draw(markdown: str) -> Drawn:
    """The HTML of a neutral text. Pure, never raises. What would show nothing is shown as it was written."""
    pen = _Pen()
    pen.blocks(parse(markdown).blocks)
    drawn = pen.drawn()
    return drawn if pen.visible or not markdown.strip() else draw_plain(markdown)


def draw_plain(text: str) -> Drawn:
    """A text that stands for itself. A mention in it does not ring."""
    pen = _Pen()
    pen.words(text)
    return pen.drawn()


def length(drawn: Drawn) -> int:
    """What is compared with the limit: the units, or more where there are too many entities."""
    return max(drawn.size, drawn.entities * TEXT // ENTITIES)


def escaped(text: str) -> str:
    """`text` for HTML. Only these have a name that Telegram knows."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


class _Pen:
    """Writes HTML and counts what of it can be seen."""

    def __init__(self) -> None:
        self._html: list[str] = []
        self._size = 0
        self._entities = 0
        self._in_quote = False
        self._in_link = False
        self.visible = False

    def drawn(self) -> Drawn:
        return Drawn("".join(self._html), self._size, self._entities)

    # the two ways to write

    def _text(self, text: str) -> None:
        if text:
            self._html.append(escaped(text))
            self._size += units(text)
            self.visible = self.visible or bool(text.strip())

    def _open(self, tag: str, attributes: str = "") -> None:
        self._html.append(f"<{tag}{attributes}>")
        self._entities += 1

    def _close(self, tag: str) -> None:
        self._html.append(f"</{tag}>")

    # running text

    def words(self, text: str) -> None:
        """Text without markup. `||…||` is a spoiler."""
        at = 0
        for found in _SPOILER.finditer(text):
            self._unmarked(text[at : found.start()])
            self._open("tg-spoiler")
            self._unmarked(found["inner"])
            self._close("tg-spoiler")
            at = found.end()
        self._unmarked(text[at:])

    def _unmarked(self, text: str) -> None:
        at = 0
        for found in () if self._in_link else MENTION.finditer(text):
            self._text(text[at : found.start()])
            self._tagged("code", found[0])
            at = found.end()
        self._text(text[at:])

    def _tagged(self, tag: str, text: str) -> None:
        if text:
            self._open(tag)
            self._text(text)
            self._close(tag)

    def inlines(self, children: Sequence[Inline]) -> None:
        for child in children:
            self._inline(child)

    def _inline(self, child: Inline) -> None:
        match child:
            case Text(text=text):
                self.words(text)
            case Code(text=text):
                self._tagged("code", text)
            case Break():
                self._text("\n")
            case Emphasis(children=children):
                self._span("i", children)
            case Strong(children=children):
                self._span("b", children)
            case Strike(children=children):
                self._span("s", children)
            case Link():
                self._link(child.href, child.children, bare=child.bare)
            case Image():
                self._link(child.src, (Text(child.alt),) if child.alt else (), bare=not child.alt)
            case _:
                assert_never(child)

    def _span(self, tag: str, children: Sequence[Inline]) -> None:
        self._open(tag)
        self.inlines(children)
        self._close(tag)

    def _link(self, href: str, children: Sequence[Inline], *, bare: bool) -> None:
        label = inline_text(children)
        if not href:
            self.inlines(children)
        elif self._in_link:
            self._text(label or href)
        elif not linkable(href):
            self.inlines(children)
            if not label.strip():
                self._unmarked(href)
            elif not bare and label not in (href, href.removeprefix("mailto:")):
                self._unmarked(f" ({href})")
        else:
            self._open("a", f' href="{escaped(href)}"')
            self._in_link = True
            if label.strip():
                self.inlines(children)
            else:
                self._text(href)
            self._in_link = False
            self._close("a")

    # blocks

    def blocks(self, blocks: Sequence[Block], indent: str = "", *, tight: bool = False) -> None:
        for number, block in enumerate(blocks):
            if number:
                self._text("\n" if tight else "\n\n")
                if not isinstance(block, List):
                    self._text(indent)
            self._block(block, indent)

    def _block(self, block: Block, indent: str) -> None:
        match block:
            case Heading(children=children):
                self._span("b", children)
            case Paragraph(children=children):
                self._paragraph(children, indent)
            case Quote(blocks=blocks):
                self._quote(blocks, indent)
            case List():
                self._list(block, indent)
            case CodeBlock():
                self._code(block)
            case Table():
                self._tagged("pre", "\n".join(table_lines(block)))
            case Rule():
                self._text(RULE)
            case _:
                assert_never(block)

    def _paragraph(self, children: Sequence[Inline], indent: str) -> None:
        for child in children:
            self._inline(child)
            if indent and isinstance(child, Break):
                self._text(indent)

    def _code(self, block: CodeBlock) -> None:
        text = block.text or block.info
        if block.language and block.text and _LANGUAGE.fullmatch(block.language):
            self._open("pre")
            self._html.append(f'<code class="language-{escaped(block.language)}">')
            self._text(text)
            self._html.append("</code>")
            self._close("pre")
        else:
            self._tagged("pre", text)

    def _quote(self, blocks: Sequence[Block], indent: str) -> None:
        if self._in_quote:  # Telegram has no quotation inside of a quotation
            self._text("> ")
            self.blocks(blocks, indent)
            return
        self._in_quote = True
        at = len(self._html)
        self._open("blockquote")
        self.blocks(blocks, indent)
        self._close("blockquote")
        self._in_quote = False
        if sum(part.count("\n") for part in self._html[at:]) >= LONG_QUOTE:
            self._html[at] = "<blockquote expandable>"

    def _list(self, block: List, indent: str) -> None:
        bullet = BULLETS[min(len(indent) // 2, len(BULLETS) - 1)]
        for number, item in enumerate(block.items):
            if number:
                self._text("\n" if block.tight else "\n\n")
            mark = bullet if block.start is None else f"{block.start + number}."
            self._text(f"{indent}{mark} ")
            self._item(item, indent + "  ", tight=block.tight)

    def _item(self, item: Item, indent: str, *, tight: bool) -> None:
        if item.blocks and isinstance(item.blocks[0], List):
            self._text("\n")
        self.blocks(item.blocks, indent, tight=tight)


def linkable(href: str) -> bool:
    """Whether Telegram takes the address for a link: any other is dropped there without a word.

    `tg://user` would be a mention that rings, and a host without a dot is no link to Telegram.
    """
    try:
        parts = urlsplit(href)
        host = parts.hostname or ""
    except ValueError:
        return False
    if re.search(r"[\s\x00-\x1f]", href):
        return False
    match parts.scheme.lower():
        case "http" | "https":
            return "." in host.strip(".") or ":" in host
        case "tg":
            return host not in ("", "user")
        case _:
            return False


def table_lines(table: Table) -> list[str]:
    """The table in columns of one width, for a fixed font."""
    rows = [[_cell(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [min(max(_width(row[at]) for row in rows), WIDEST) for at in range(len(table.head))]
    lines = []
    for number, row in enumerate(rows):
        cells = [_padded(text, widths[at], table.align[at]) for at, text in enumerate(row)]
        lines.append(" | ".join(cells).rstrip())
        if number == 0:
            lines.append("-+-".join("-" * width for width in widths))
    return lines


def _cell(cell: Sequence[Inline]) -> str:
    return " ".join(inline_text(cell).split())


def _width(text: str) -> int:
    """Columns in a fixed font: wide characters take two, marks that combine none."""
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def _padded(text: str, width: int, align: str | None) -> str:
    room = max(0, width - _width(text))
    before = room if align == "right" else room // 2 if align == "center" else 0
    return " " * before + text + " " * (room - before)
