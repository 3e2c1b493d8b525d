"""Slack's own markup (mrkdwn), both ways: neutral markdown as mrkdwn, and what people write as plain text.

Source: https://docs.slack.dev/messaging/formatting-message-text. Only `&`, `<` and `>` are escaped: Slack has no
escape for `*`, `_`, `~` and the backtick. What stands between angle brackets is a command to Slack (a link, a
mention, a ping of everybody), so nothing but our own links with a known scheme is ever written there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_LINKABLE = re.compile(r"(?:https?|mailto|tel|ftp|slack)[:]", re.IGNORECASE)
_OWN_LINK = re.compile(r"<(https?://[^|<>\s]+)\|([^<>\n]+)>")
_FENCE = re.compile("`(?=``)")
_BULLETS = "•◦▪"
_GAP = "\u200b"
"""Between a mark and a letter beside it: Slack takes a mark only at the border of a word."""


def escape(text: str) -> str:
    """`text` so that Slack shows it as it is, pings nobody and links nothing. Control characters are dropped."""
    text = _CONTROL.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mrkdwn(markdown: str) -> str:
    """Neutral markdown as mrkdwn. Never raises; can never ping."""
    return "\n".join(_join(parse(markdown).blocks, 0)).strip("\n")


def _join(blocks: Sequence[Block], depth: int, *, tight: bool = False) -> list[str]:
    found: list[str] = []
    for number, block in enumerate(blocks):
        if number and not tight:
            found.append("")
        found.extend(_lines(block, depth))
    return found


def _lines(block: Block, depth: int) -> list[str]:
    match block:
        case Heading():
            return _marked("*", _inline(block.children, bold=True)).split("\n")
        case Paragraph():
            return _inline(block.children).split("\n")
        case Quote():
            return [f"> {line}".rstrip(" ") for line in _join(block.blocks, depth)]
        case List():
            return _list(block, depth)
        case CodeBlock():
            return _code_block(block.text or block.info)
        case Table():
            return _code_block("\n".join(_table(block)))
        case Rule():
            return ["———"]
        case _:
            assert_never(block)


def _code_block(text: str) -> list[str]:
    return ["```", *_FENCE.sub(f"`{_GAP}", escape(text)).split("\n"), "```"]


def _table(table: Table) -> list[str]:
    """The rows with aligned columns."""
    rows = [[inline_text(cell).replace("\n", " ") for cell in row] for row in (table.head, *table.rows)]
    widths = [max((len(row[at]) for row in rows if at < len(row)), default=0) for at in range(len(table.head))]
    lines = [" | ".join(_aligned(cell, width) for cell, width in zip(row, widths, strict=False)) for row in rows]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return [line.rstrip(" ") for line in lines]


def _aligned(cell: str, width: int) -> str:
    return cell.ljust(width)


def _list(block: List, depth: int) -> list[str]:
    found: list[str] = []
    for number, item in enumerate(block.items):
        if number and not block.tight:
            found.append("")
        bullet = _BULLETS[min(depth, len(_BULLETS) - 1)]
        mark = f"{bullet} " if block.start is None else f"{block.start + number}. "
        found.extend(_item(item, mark, depth, tight=block.tight))
    return found


def _item(item: Item, mark: str, depth: int, *, tight: bool) -> list[str]:
    lines = _join(item.blocks, depth + 1, tight=tight) or [""]
    if lines[0] == "```":  # a fence has to stand at the begin of a line
        return [mark.rstrip(" "), *lines]
    indent = "    "
    return [(mark + lines[0]).rstrip(" "), *((indent + line).rstrip(" ") for line in lines[1:])]


def _inline(children: Sequence[Inline], *, bold: bool = False) -> str:
    parts: list[str] = []
    marked = False
    for child in children:
        part, is_marked = _span(child, bold=bold)
        if not part:
            continue
        last = parts[-1][-1] if parts else ""
        if (is_marked and last.isalnum()) or (marked and part[0].isalnum()):
            parts.append(_GAP)
        parts.append(part)
        marked = is_marked
    return "".join(parts)


def _span(child: Inline, *, bold: bool) -> tuple[str, bool]:
    """The text of a span, and whether it begins and ends with a mark of formatting."""
    match child:
        case Text():
            return _text(child.text), False
        case Code():
            whole = bool(child.text.strip()) and "`" not in child.text  # a code span of Slack holds no backtick
            return f"`{escape(child.text)}`" if whole else escape(child.text), whole
        case Break():
            return "\n", False
        case Strong():
            words = _inline(child.children, bold=True)
            return (words, False) if bold else (_marked("*", words), True)
        case Emphasis():
            return _marked("_", _inline(child.children, bold=bold)), True
        case Strike():
            return _marked("~", _inline(child.children, bold=bold)), True
        case Link() | Image():
            return _link_of(child), False
        case _:
            assert_never(child)


def _text(text: str) -> str:
    """Words; a link that is in Slack's own form already (`<https://…|label>`) stays one."""
    found: list[str] = []
    at = 0
    for link in _OWN_LINK.finditer(text):
        found += [escape(text[at : link.start()]), _link(link[1], link[2])]
        at = link.end()
    return "".join([*found, escape(text[at:])])


def _link_of(child: Link | Image) -> str:
    if isinstance(child, Image):
        return _link(child.src, child.alt)
    if child.bare:
        href, _, label = child.href.partition("|")
        return _link(href, label)
    return _link(child.href, inline_text(child.children))


def _marked(mark: str, text: str) -> str:
    """Every line by itself: Slack's marks do not reach over the end of a line."""
    return "\n".join(f"{mark}{line}{mark}" if line.strip() else line for line in text.split("\n"))


def _link(href: str, label: str) -> str:
    words = " ".join(label.split())
    if not _LINKABLE.match(href):
        shown = f"{words} ({href})" if words and href and words != href else words or href
        return escape(shown)
    address = escape(href.replace("<", "%3C").replace(">", "%3E").replace("|", "%7C"))
    address = re.sub(r"\s", "%20", address)
    if not words or words == href:
        return f"<{address}>"
    return f"<{address}|{escape(words)}>"


# what people write --------------------------------------------------------------------------------

_TOKEN = re.compile(r"<([^<>]*)>")


def unescape(text: str) -> str:
    """The reverse of `escape`."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def readable(text: str, name: Callable[[str], str | None]) -> str:
    """Text as Slack sends it, as people see it. `name` gives the name of a person, or None.

    Mentions become `@name`, channels `#name`, links their label with the address in brackets.
    """
    found: list[str] = []
    at = 0
    for token in _TOKEN.finditer(text):
        found.append(unescape(text[at : token.start()]))
        found.append(_token(token[1], name))
        at = token.end()
    found.append(unescape(text[at:]))
    return "".join(found)


def _token(inner: str, name: Callable[[str], str | None]) -> str:
    target, _, label = inner.partition("|")
    label = unescape(label)
    if target.startswith("@"):
        return "@" + (label.removeprefix("@") or name(target[1:]) or target[1:])
    if target.startswith("#"):
        return "#" + (label.removeprefix("#") or target[1:])
    if target.startswith("!"):
        word = target[1:].partition("^")[0]
        if label:
            return label if word == "date" or label.startswith("@") else f"@{label}"
        return "@" + target[1:].replace("subteam^", "")
    address = unescape(target)
    if not label or label == address or address in (f"mailto:{label}", f"tel:{label}", f"http://{label}"):
        return label or address
    return f"{label} ({address})"


def mentions(text: str, person: str) -> bool:
    """Whether the raw text holds a mention of the person: a typed `<@…>` comes escaped, so only real ones do."""
    return f"<@{person}>" in text or f"<@{person}|" in text


def without_leading_mention(text: str, person: str) -> str:
    """The raw text without a mention of the person at its begin."""
    return re.sub(rf"^\s*<@{re.escape(person)}(?:\|[^<>]*)?>[\s:,]*", "", text)
