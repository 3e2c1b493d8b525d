"""The same content as plain text: for platforms without markup, and where one refuses ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from adapters.markdown.parse import parse
from adapters.markdown.tree import (
    Block,
    Break,
    Code,
    CodeBlock,
    Document,
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


def plain_text(text: str | Document) -> str:
    """The words of `text` without marks. Addresses of links stand behind their text in brackets.

    Never raises. Hardly ever longer than the markdown (a reference that is used often may be).
    """
    document = parse(text) if isinstance(text, str) else text
    return "\n".join(_join(document.blocks)).strip("\n")


def _join(blocks: Sequence[Block], *, tight: bool = False) -> list[str]:
    found: list[str] = []
    for number, block in enumerate(blocks):
        if number and not tight:
            found.append("")
        found.extend(_lines(block))
    return found


def _lines(block: Block) -> list[str]:
    match block:
        case Heading() | Paragraph():
            return inline_text(block.children).split("\n")
        case Quote():
            return [f"> {line}".rstrip(" ") for line in _join(block.blocks)]
        case List():
            return _list(block)
        case CodeBlock():
            return (block.text or block.info).split("\n")  # a fence without content has only its info to show
        case Table():
            return [" | ".join(inline_text(cell) for cell in row) for row in (block.head, *block.rows)]
        case Rule():
            return ["---"]
        case _:
            assert_never(block)


def _list(block: List) -> list[str]:
    found: list[str] = []
    for number, item in enumerate(block.items):
        if number and not block.tight:
            found.append("")
        mark = "- " if block.start is None else f"{block.start + number}. "
        found.extend(_item(item, mark, tight=block.tight))
    return found


def _item(item: Item, mark: str, *, tight: bool) -> list[str]:
    lines = _join(item.blocks, tight=tight) or [""]
    indent = " " * len(mark)
    return [(mark + lines[0]).rstrip(" "), *((indent + line).rstrip(" ") for line in lines[1:])]


def inline_text(children: Sequence[Inline]) -> str:
    """The words of running text."""
    return "".join(_words(child) for child in children)


def _words(child: Inline) -> str:
    match child:
        case Text() | Code():
            return child.text
        case Break():
            return "\n"
        case Emphasis() | Strong() | Strike():
            return inline_text(child.children)
        case Link():
            words = inline_text(child.children)
            same = child.bare or not child.href or words == child.href
            return words if same and words else f"{words} ({child.href})" if words else child.href
        case Image():
            return f"{child.alt} ({child.src})" if child.alt else child.src
        case _:
            assert_never(child)
