"""The neutral tree as Discord's own markdown: what would be markup by accident is escaped.

Discord knows no tables, rules or pictures, headings of three levels, quotes of one. Its parser works line by
line, so that marks at the begin of a line count wherever a line begins.
Source: https://support.discord.com/hc/en-us/articles/210298617 (Markdown Text 101).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import assert_never

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

RULE = "─" * 10
_ADDRESS = re.compile(r"https?://[^\s<>]+[^\s<>.,:;!?\"'\])}*_~|`]")
_SPOILER = re.compile(r"\|\|(?=[^\s|])([^|\n]+?)(?<=[^\s|])\|\|")
_SPECIAL = re.compile(r"[\\*_~`|\[\]<]")
_LINE_START = re.compile(r"^([ \t]*)(#{1,3}(?=\s|$)|-#|>|[-+](?=\s|$))", re.MULTILINE)
_NUMBER = re.compile(r"^([ \t]*\d{1,9})([.)])(?=\s|$)", re.MULTILINE)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]{1,30}")
_TICKS = re.compile("`+")


def draw(text: str, *, link_previews: bool = False) -> str:
    """Discord's markdown for a neutral text. Never raises. Without `link_previews` no address gets a preview."""
    return _Pen(link_previews=link_previews).blocks(parse(text).blocks).strip("\n")


def escape(text: str) -> str:
    """`text` so that it stands for itself, wherever a line of it begins."""
    return _starts(_marked(text))


def _marked(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _starts(text: str) -> str:
    return _NUMBER.sub(r"\1\\\2", _LINE_START.sub(r"\1\\\2", text))


class _Pen:
    """Draws blocks and running text."""

    def __init__(self, *, link_previews: bool) -> None:
        self._previews = link_previews

    def blocks(self, blocks: Sequence[Block], *, tight: bool = False) -> str:
        """The blocks with an empty line between them."""
        return ("\n" if tight else "\n\n").join(self._block(block) for block in blocks)

    def _block(self, block: Block) -> str:
        match block:
            case Heading():
                words = self._line(block.children)
                return f"{'#' * block.level} {words}" if block.level <= 3 else self._wrapped("**", block.children)
            case Paragraph():
                return _starts(self._inline(block.children))
            case Quote():
                return self._quote(block)
            case List():
                return self._list(block)
            case CodeBlock():
                return _fenced(block.text or block.info, block.language)
            case Table():
                return _fenced(_aligned(block), "")
            case Rule():
                return RULE
            case _:
                assert_never(block)

    def _quote(self, block: Quote) -> str:
        return "\n".join(f"> {line}" for line in self.blocks(_flattened(block)).split("\n"))

    def _list(self, block: List) -> str:
        lines = []
        for number, item in enumerate(block.items):
            mark = "- " if block.start is None else f"{block.start + number}. "
            lines.append(self._item(item, mark, tight=block.tight))
        return "\n".join(lines)

    def _item(self, item: Item, mark: str, *, tight: bool) -> str:
        found: list[str] = []
        fenced = False
        for line in self.blocks(item.blocks, tight=tight).split("\n"):
            inside, fenced = fenced, fenced ^ line.startswith("```")
            if not found:
                found.append(f"{mark}\n{line}" if line.startswith("```") else f"{mark}{line}")
            elif inside or fenced or not line:  # the indentation would be shown as part of the code
                found.append(line)
            else:
                found.append("  " + line)
        return "\n".join(found) or mark

    # running text ----------------------------------------------------------------------------------

    def _line(self, children: Sequence[Inline]) -> str:
        return " ".join(self._inline(children).split("\n")).strip()

    def _inline(self, children: Sequence[Inline], outer: str = "") -> str:
        return "".join(self._one(child, outer) for child in children)

    def _one(self, child: Inline, outer: str) -> str:
        match child:
            case Text():
                return self._text(child.text)
            case Code():
                return _code(child.text)
            case Break():
                return "\n"
            case Emphasis():
                return self._inline(child.children, outer) if "i" in outer else self._span("*", child.children, "i")
            case Strong():
                return self._inline(child.children, outer) if "b" in outer else self._span("**", child.children, "b")
            case Strike():
                return self._inline(child.children, outer) if "s" in outer else self._span("~~", child.children, "s")
            case Link():
                return self._link(child.href, inline_text(child.children), child.children)
            case Image():
                return self._link(child.src, child.alt, (Text(child.alt),) if child.alt else ())
            case _:
                assert_never(child)

    def _span(self, mark: str, children: Sequence[Inline], outer: str) -> str:
        return self._wrapped("_" if mark == "*" and _has_strong(children) else mark, children, outer)

    def _wrapped(self, mark: str, children: Sequence[Inline], outer: str = "b") -> str:
        """Marks hug the words: blanks at the edges go outside."""
        words = self._inline(children, outer)
        kept = words.strip()
        if not kept:
            return words
        begin = words[: len(words) - len(words.lstrip())]
        return f"{begin}{mark}{kept}{mark}{words[len(words.rstrip()) :]}"

    def _text(self, text: str) -> str:
        """Words, with addresses and spoilers left as they are."""
        found, at = [], 0
        for match in re.finditer(f"{_ADDRESS.pattern}|{_SPOILER.pattern}", text):
            found.append(_marked(text[at : match.start()]))
            whole = match.group()
            if whole.startswith("||"):
                found.append(f"||{_marked(whole[2:-2])}||")
            else:
                found.append(self._address(whole))
            at = match.end()
        found.append(_marked(text[at:]))
        return "".join(found)

    def _address(self, url: str) -> str:
        return url if self._previews else f"<{url}>"

    def _link(self, href: str, words: str, children: Sequence[Inline]) -> str:
        href = href.strip()
        if not href:
            return self._inline(children)
        safe = _safe(href)
        if safe is None:  # Discord makes links of http and https only
            shown = self._inline(children)
            return f"{shown} ({escape(href)})" if words and words != href else escape(href)
        if not words.strip() or words.strip() == href or _ADDRESS.search(words):
            # a label that looks like an address is not taken for a label
            before = "" if not words.strip() or words.strip() == href else f"{escape(words)} "
            return before + self._address(safe)
        label = self._line(children)
        return f"[{label}]({safe})" if self._previews else f"[{label}](<{safe}>)"


def _flattened(quote: Quote) -> list[Block]:
    """A quote within a quote is not known: its mark would be shown as a character."""
    found: list[Block] = []
    for block in quote.blocks:
        found.extend(_flattened(block) if isinstance(block, Quote) else [block])
    return found


def _has_strong(children: Sequence[Inline]) -> bool:
    """`*` beside `**` is read in ways that nobody means."""
    return any(isinstance(child, Strong) for child in children)


def _safe(href: str) -> str | None:
    if not re.match(r"https?://[^\s/]", href, re.IGNORECASE):
        return None
    return re.sub(r"[\s<>()\\]", lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), href)


def _code(text: str) -> str:
    if not text.strip():
        return text
    fence = "`" * (max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    if len(fence) > 2:  # only one and two are known
        text, fence = text.replace("`", "ˋ"), "`"
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{edge}{text}{edge}{fence}"


def _fenced(text: str, language: str) -> str:
    """A fence inside of the code would end it: it gets a joiner that is not seen."""
    body = text.replace("```", "`\u2060`\u2060`").strip("\n")
    known = language if _LANGUAGE.fullmatch(language) else ""
    return f"```{known}\n{body or chr(0x2060)}\n```"


def _aligned(table: Table) -> str:
    rows = [[" ".join(inline_text(cell).split()) for cell in row] for row in (table.head, *table.rows)]
    widths = [max((width(row[number]) for row in rows if number < len(row)), default=0) for number in
              range(len(table.head))]  # fmt: skip
    lines = [_row(row, widths, table) for row in rows]
    lines.insert(1, "  ".join("─" * max(1, one) for one in widths))
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int], table: Table) -> str:
    found = []
    for number, cell in enumerate(cells):
        space = widths[number] - width(cell)
        align = table.align[number] if number < len(table.align) else None
        left = space if align == "right" else space // 2 if align == "center" else 0
        found.append(" " * left + cell + " " * (space - left))
    return "  ".join(found).rstrip()


def width(text: str) -> int:
    """Columns of `text` in a fixed font."""
    return sum(
        0 if unicodedata.combining(ch) or unicodedata.category(ch) in ("Cf", "Me", "Mn")
        else 2 if unicodedata.east_asian_width(ch) in "WF" else 1
        for ch in text
    )  # fmt: skip
