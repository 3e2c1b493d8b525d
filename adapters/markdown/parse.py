"""The one place that knows the markdown library: text in, the neutral tree out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_args

from adapters.markdown.tree import (
    Align,
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

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_NESTING = 40
"""Levels of quotes and lists (a list takes two); what is deeper becomes text."""
MAX_INLINE = 20_000
"""Characters of one paragraph that are searched for emphasis and links; a longer one is taken for text.
The search is not linear for hostile texts, and no platform's message is that long."""

_LONE = re.compile("[\ud800-\udfff]")
_PIPE = re.compile(r"(?<!\\)\|")
_MARKS = re.compile(r"^(?:[ \t]|>|[-+*][ \t]|[0-9]{1,9}[.)][ \t])+")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs start-up, and is needed first for an answer

    found = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    # A definition of a reference would be cut off from its uses, and its address would be shown nowhere.
    found.disable("reference")
    # Addresses stay as they were written: nothing but blanks has to be changed to make them one word.
    found.normalizeLink = lambda url: url.replace(" ", "%20")  # type: ignore[method-assign]
    found.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    return found


def parse(text: str) -> Document:
    """The tree of `text`. Never raises for any text. Safe to call from any thread.

    Lone surrogates become U+FFFD. CommonMark with tables and strike-through; raw HTML is text. Of a
    text that ends inside of something (a draft) the open parts end with it.
    """
    text = _LONE.sub("\ufffd", text)
    try:
        return _Builder(text).document()
    except Exception:  # noqa: BLE001 - a fault of the parser must not lose an answer: it is shown as text
        return Document((Paragraph(_plain_lines(text)),)) if text.strip() else Document(())


def _plain_lines(text: str) -> tuple[Inline, ...]:
    found: list[Inline] = []
    for number, line in enumerate(text.splitlines()):
        if number:
            found.append(Break(hard=False))
        if line:
            found.append(Text(line))
    return tuple(found)


class _Builder:
    """Turns the flat tokens of the library into the tree."""

    def __init__(self, text: str) -> None:
        self._lines = re.split(r"\r\n|\r|\n", text)
        self._env: dict[str, Any] = {}
        parser = _parser()
        from markdown_it.rules_core import StateCore  # noqa: PLC0415 - as above

        state = StateCore(text, parser, self._env)
        for name, rule in _core_rules(parser):
            if name in {"normalize", "block"}:
                rule(state)
        self._tokens: list[Token] = state.tokens
        self._at = 0

    def document(self) -> Document:
        return Document(tuple(self._blocks(None)))

    def _blocks(self, closing: str | None) -> list[Block]:
        found: list[Block] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == closing:
                break
            if (block := self._block(token)) is not None:
                found.append(block)
        return found

    def _block(self, token: Token) -> Block | None:
        match token.type:
            case "heading_open":
                return Heading(int(token.tag[1:]), self._inline("heading_close"))
            case "paragraph_open":
                return Paragraph(self._inline("paragraph_close"))
            case "fence" | "code_block":
                return CodeBlock(token.content.removesuffix("\n"), token.info.strip())
            case "blockquote_open":
                return Quote(self._inner(token, "blockquote_close"))
            case "bullet_list_open" | "ordered_list_open":
                number = None if token.type == "bullet_list_open" else int(token.attrGet("start") or 0)
                if number == 0 and token.attrGet("start") is None:
                    number = 1
                return self._list(number, token.type.replace("open", "close"))
            case "table_open":
                return self._table()
            case _:
                return Rule() if token.type == "hr" else None

    def _inner(self, token: Token, closing: str) -> tuple[Block, ...]:
        """The blocks of a container. The library drops what is nested too deeply: it comes back as text."""
        blocks = tuple(self._blocks(closing))
        if not blocks and token.map is not None and token.level >= MAX_NESTING - 3:
            rest = [_MARKS.sub("", line + " ").strip() for line in self._lines[token.map[0] : token.map[1]]]
            if children := _plain_lines("\n".join(line for line in rest if line)):
                return (Paragraph(children),)
        return blocks

    def _list(self, start: int | None, closing: str) -> List:
        items: list[Item] = []
        tight = True
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == closing:
                break
            if token.type == "list_item_open":
                first = self._tokens[self._at] if self._at < len(self._tokens) else None
                if first is not None and first.type == "paragraph_open" and not first.hidden:
                    tight = False
                items.append(Item(self._inner(token, "list_item_close")))
        return List(start, tight, tuple(items))

    def _table(self) -> Table:
        rows: list[tuple[tuple[Inline, ...], ...]] = []
        align: list[Align | None] = []
        row: list[tuple[Inline, ...]] = []
        excess = ""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            match token.type:
                case "table_close":
                    break
                case "tr_open":
                    row = []
                    excess = self._excess(token, len(align))
                case "tr_close":
                    if row and excess:
                        row[-1] = (*row[-1], Text(excess))
                    rows.append(tuple(row))
                case "th_open" | "td_open":
                    if token.type == "th_open":
                        align.append(_align(token))
                    row.append(self._inline(token.type.replace("open", "close")))
                case _:
                    pass
        return Table(tuple(align), rows[0] if rows else (), tuple(rows[1:]))

    def _excess(self, token: Token, columns: int) -> str:
        """What the library leaves out of a row that has more cells than the head."""
        if not columns or token.map is None:
            return ""
        line = _MARKS.sub("", self._lines[token.map[0]]).strip()
        cells = _PIPE.split(line.removeprefix("|").removesuffix("|"), maxsplit=columns)
        return f" | {cells[columns].strip()}" if len(cells) > columns else ""

    def _inline(self, closing: str) -> tuple[Inline, ...]:
        children: tuple[Inline, ...] = ()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == closing:
                break
            if token.type == "inline" and token.content:
                children = self._read_inline(token.content)
        return children

    def _read_inline(self, content: str) -> tuple[Inline, ...]:
        if len(content) > MAX_INLINE:
            return _plain_lines(content)
        parser = _parser()
        tokens: list[Token] = []
        parser.inline.parse(content, parser, self._env, tokens)
        children, _ = _inlines(tokens, 0, None)
        return children


def _core_rules(parser: MarkdownIt) -> list[tuple[str, Any]]:
    names = parser.core.ruler.get_active_rules()
    return list(zip(names, parser.core.ruler.getRules(""), strict=True))


def _align(token: Token) -> Align | None:
    style = str(token.attrGet("style") or "")
    for name in get_args(Align):
        if style.endswith(name):
            return cast("Align", name)
    return None


def _inlines(tokens: Sequence[Token], at: int, closing: str | None) -> tuple[tuple[Inline, ...], int]:
    found: list[Inline] = []
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.type == closing:
            break
        match token.type:
            case "text" | "text_special" | "html_inline":
                if token.content:
                    _add_text(found, token.content)
            case "code_inline":
                found.append(Code(token.content))
            case "softbreak" | "hardbreak":
                found.append(Break(hard=token.type == "hardbreak"))
            case "image":
                alt = _alt(token.children or ())
                found.append(Image(str(token.attrGet("src") or ""), alt, str(token.attrGet("title") or "")))
            case "em_open" | "strong_open" | "s_open" | "link_open":
                children, at = _inlines(tokens, at, token.type.replace("open", "close"))
                found.append(_span(token, children))
            case _:
                pass
    return tuple(found), at


def _add_text(found: list[Inline], text: str) -> None:
    if found and isinstance(last := found[-1], Text):
        found[-1] = Text(last.text + text)
    else:
        found.append(Text(text))


def _span(token: Token, children: tuple[Inline, ...]) -> Inline:
    match token.type:
        case "em_open":
            return Emphasis(children)
        case "strong_open":
            return Strong(children)
        case "s_open":
            return Strike(children)
        case _:
            href, title = str(token.attrGet("href") or ""), str(token.attrGet("title") or "")
            return Link(href, title, children, bare=token.info == "auto")


def _alt(tokens: Sequence[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type == "image":
            parts.append(_alt(token.children or ()))
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        else:
            parts.append(token.content)
    return "".join(parts)
