"""Readable text out of a page: linear in its length, whatever is malformed in it.

The parser of the standard library looks for the end of a broken construct again and again; a page can make
that quadratic. Here every search moves forward.
"""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

_SKIPPED = ("script", "style", "template", "noscript", "svg", "iframe", "object", "head", "select")
_RAW = ("script", "style", "textarea", "title", "iframe", "noscript", "template")
_BLOCK = re.compile(
    r"/?(?:address|article|aside|blockquote|br|d[dlt]|div|fieldset|fig(?:caption|ure)|footer|form|h[1-6]|header|hr|li|main"
    r"|nav|ol|option|p|pre|section|summary|table|t(?:body|head|r)|title|ul)"
)
_NAME = re.compile(r"/?[a-zA-Z][^\s/>]{0,60}")
_HREF = re.compile(r"""(?i)(?<=\s)href\s{0,20}=\s{0,20}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))""")
_QUOTE = re.compile(r"=\s{0,5}([\"'])")
_CLOSERS = {name: re.compile(f"(?i)</{name}(?=[\\s/>])") for name in {*_RAW, *_SKIPPED}}
_KEPT = "\ue000"
"""Stands for a blank that is kept (inside of `pre`) until the rows are made."""
_MAX_TAG = 20_000
"""Longer tags are cut here; nobody writes such, but data in attributes may be long."""


def readable(page: str, base: str) -> tuple[str, str]:
    """The title and the text of an HTML page. Links become `text <address>`, made absolute by `base`."""
    maker = _Maker(base)
    place = 0
    while place < len(page):
        start = page.find("<", place)
        if start < 0:
            maker.text(page[place:])
            break
        maker.text(page[place:start])
        place = maker.markup(page, start)
    return maker.title.strip(), maker.result()


class _Maker:
    def __init__(self, base: str) -> None:
        self.base = base
        self.title = ""
        self.parts: list[str] = []
        self.link: str | None = None
        self.in_pre = 0
        self.unclosed: set[str] = set()

    def text(self, raw: str) -> None:
        """Characters between tags."""
        if raw:
            words = html.unescape(raw) if "&" in raw else raw
            self.parts.append(words.replace(" ", _KEPT) if self.in_pre else re.sub(r"\s+", " ", words))

    def markup(self, page: str, start: int) -> int:
        """Handle what begins with `<` at `start`; gives the place after it."""
        if page.startswith("<!--", start):
            return _after(page, "-->", start + 4)
        if page.startswith(("<!", "<?"), start):
            return _after(page, ">", start + 2)
        named = _NAME.match(page, start + 1)
        if named is None:
            self.text("<")
            return start + 1
        end = _tag_end(page, named.end())
        name = named[0].lower()
        self.tag(name, page[named.end() : end])
        end = min(end + 1, len(page))
        if name in _RAW or name in _SKIPPED:
            return self.contents(page, name, end)
        return end

    def contents(self, page: str, name: str, start: int) -> int:
        """The contents of an element that is skipped or holds no tags."""
        found = None if name in self.unclosed else _CLOSERS[name].search(page, start)
        if found is None:
            self.unclosed.add(name)  # not looked for again: that would make many open tags quadratic
        if found is None and name in {"head", "select", "svg", "object"}:
            return start  # never closed: better its text than nothing
        end = found.start() if found else len(page)
        if name == "head":
            title = re.compile(r"(?i)<title[^>]{0,200}>").search(page, start, end)
            if title is not None:
                close = _CLOSERS["title"].search(page, title.end(), end)
                self.title = self.title or html.unescape(page[title.end() : close.start() if close else end])[:500]
        elif name == "title":
            self.title = self.title or html.unescape(page[start:end])[:500]
        elif name == "textarea":
            self.text(page[start:end])
        return end

    def tag(self, name: str, rest: str) -> None:
        """A tag without its contents."""
        if name in {"pre", "/pre"}:
            self.in_pre = max(0, self.in_pre + (1 if name == "pre" else -1))
        if _BLOCK.fullmatch(name):
            self.parts.append("\n")
            if name == "li":
                self.parts.append("- ")
            elif re.fullmatch(r"h[1-6]", name):
                self.parts.append("#" * int(name[1]) + " ")
        elif name in {"/td", "/th"}:
            self.parts.append("\t")
        elif name == "a":
            found = _HREF.search(rest)
            self.link = _absolute(self.base, html.unescape(next(filter(None, found.groups()), ""))) if found else None
        elif name == "/a" and self.link is not None:
            self.parts.append(f" <{self.link}>")
            self.link = None

    def result(self) -> str:
        """The text, with blank lines and blanks collapsed."""
        rows: list[str] = []
        for row in "".join(self.parts).split("\n"):
            one = row.strip().replace(_KEPT, " ").rstrip()
            if one or (rows and rows[-1]):
                rows.append(one)
        return "\n".join(rows).strip()


def _after(page: str, end: str, start: int) -> int:
    found = page.find(end, start)
    return len(page) if found < 0 else found + len(end)


def _tag_end(page: str, start: int) -> int:
    """The place of the `>` that ends a tag; quoted values may hold one."""
    limit = min(len(page), start + _MAX_TAG)
    place = start
    while True:
        end = page.find(">", place, limit)
        if end < 0:
            return limit
        quote = _QUOTE.search(page, place, end)
        if quote is None:
            return end
        close = page.find(quote[1], quote.end(), limit)
        if close < 0:
            return end
        place = close + 1


def _absolute(base: str, href: str) -> str | None:
    try:
        found = urljoin(base, href.strip())
    except ValueError:
        return None
    return found if found.startswith(("http://", "https://")) and len(found) <= 2000 else None
