"""Texts as Telegram has them: a string and entities counted in UTF-16 code units.

`parse_html` follows the Bot API's own parser (TDLib's `parse_html`): the same tags, the same descriptions, byte
offsets in UTF-8, and an entity it does not know (`&nbsp;`) stays what it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Entity = dict[str, Any]

MOST_ENTITIES = 100
"""Telegram keeps so many entities of a message and lets the others go without a word."""

TAGS = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    **dict.fromkeys(("tg-spoiler", "span"), "spoiler"),
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
    "a": "text_link",
    "pre": "pre",
    "code": "code",
    "blockquote": "blockquote",
}

_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|([A-Za-z]+));?")
_SPACE = frozenset(" \t\r\n\v\0")
_FOUND = re.compile(
    r"(?P<url>(?:https?://|tg://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]}'])"
    r"|(?P<email>\b[\w.+-]+@[\w-]+\.[\w.-]*\w)"
    r"|(?P<mention>(?<![\w@/])@[A-Za-z]\w{3,31}\b)"
    r"|(?P<bot_command>(?<![\w/<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z]\w{3,31})?\b)"
    r"|(?P<hashtag>(?<![\w#])#\w*[^\W\d]\w*)"
)


class BadText(Exception):
    """The text is not what its parse mode asks for; the words are Telegram's."""


@dataclass(slots=True)
class _Open:
    tag: str
    offset: int
    begin: int
    argument: str = ""


def units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def is_blank(text: str) -> bool:
    """Is there nothing to see: space and characters without width?"""
    return all(char.isspace() or unicodedata.category(char) == "Cf" for char in text)


def covered(text: str, entity: Entity) -> str:
    """The part of `text` that `entity` covers."""
    raw = text.encode("utf-16-le")
    begin = entity["offset"] * 2
    return raw[begin : begin + entity["length"] * 2].decode("utf-16-le", "replace")


def detect(text: str) -> list[Entity]:
    """The entities Telegram finds by itself: links, addresses, mentions, commands, hashtags."""
    found: list[Entity] = []
    for match in _FOUND.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        found.append({"type": kind, "offset": units(text[: match.start()]), "length": units(match[0])})
    return found


def with_detected(text: str, entities: list[Entity]) -> list[Entity]:
    """`entities` and what Telegram finds besides, in order; nothing is found inside code, links and mentions."""
    closed = [(one["offset"], one["offset"] + one["length"]) for one in entities if one["type"] in _CLOSED]
    more = [
        one
        for one in detect(text)
        if not any(begin < one["offset"] + one["length"] and one["offset"] < end for begin, end in closed)
    ]
    ordered = sorted([*entities, *more], key=lambda one: (one["offset"], -one["length"]))
    return ordered[:MOST_ENTITIES]


_CLOSED = frozenset({"pre", "code", "text_link", "text_mention", "mention", "url", "bot_command", "custom_emoji"})


def trimmed(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Without space at the end, and at the beginning as far as no entity covers it."""
    text = text.replace("\r", "")
    first = min((one["offset"] for one in entities), default=units(text))
    lead = 0
    while lead < len(text) and text[lead] in " \n\t" and lead < first:
        lead += 1
    text = text[lead:].rstrip()
    left = units(text)
    kept: list[Entity] = []
    for one in entities:
        begin = one["offset"] - lead
        length = min(begin + one["length"], left) - begin
        if length > 0:
            kept.append({**one, "offset": begin, "length": length})
    return text, kept


def _reference(text: str, at: int) -> tuple[str, int] | None:
    """The character of the reference at `at` and where it ends; None where Telegram leaves it as it is."""
    match = _REFERENCE.match(text, at)
    if match is None:
        return None
    if match[3] is not None:
        char = _NAMED.get(match[3])
        return (char, match.end()) if char is not None else None
    code = int(match[1], 16) if match[1] is not None else int(match[2])
    if code == 0 or code >= 0x10FFFF or len(match[0].rstrip(";")) >= 10:
        return None
    if 0xD800 <= code <= 0xDFFF:
        raise BadText("Text contains invalid Unicode characters after decoding HTML entities, check for unmatched "
                      "surrogate code units")  # fmt: skip
    return chr(code), match.end()


class _Html:
    """One run over a text."""

    def __init__(self, source: str) -> None:
        self.text = source + "\0"
        self.at = 0
        self.out: list[str] = []
        self.offset = 0
        self.open: list[_Open] = []
        self.entities: list[Entity] = []

    def byte(self, at: int) -> int:
        return len(self.text[:at].encode("utf-8", "surrogatepass"))

    def run(self) -> tuple[str, list[Entity]]:
        while self.at < len(self.text) - 1:
            char = self.text[self.at]
            if char == "<":
                if self.text[self.at + 1] == "/":
                    self.end()
                else:
                    self.start()
                continue
            step = self.at + 1
            if char == "&" and (reference := _reference(self.text, self.at)):
                char, step = reference
            self.out.append(char)
            self.offset += units(char)
            self.at = step
        if self.open:
            raise BadText(f'Can\'t find end tag corresponding to start tag "{self.open[-1].tag}"')
        for one in self.entities:
            if one["type"] == "code":
                one.pop("language", None)
        self.entities.sort(key=lambda one: (one["offset"], -one["length"]))
        return "".join(self.out), self.entities

    def skip_space(self) -> None:
        while self.text[self.at] != "\0" and self.text[self.at] in _SPACE:
            self.at += 1

    def start(self) -> None:
        begin = self.at
        where = f"at byte offset {self.byte(begin)}"
        self.at += 1
        while self.text[self.at] not in _SPACE and self.text[self.at] != ">":
            self.at += 1
        if self.text[self.at] == "\0":
            raise BadText(f"Unclosed start tag {where}")
        tag = self.text[begin + 1 : self.at].lower()
        if tag not in TAGS:
            raise BadText(f'Unsupported start tag "{tag}" {where}')
        attributes = dict(self.attributes(tag, where))
        self.at += 1
        if tag == "span" and attributes.get("class") != "tg-spoiler":
            raise BadText(f'Tag "span" must have class "tg-spoiler" {where}')
        language = attributes.get("class", "") if tag == "code" else ""
        argument = {
            "a": attributes.get("href", ""),
            "code": language.removeprefix("language-") if language.startswith("language-") else "",
            "tg-emoji": attributes.get("emoji-id", ""),
            "tg-time": attributes.get("unix", ""),
            "blockquote": "1" if "expandable" in attributes else "",
        }.get(tag, "")
        self.open.append(_Open(tag, self.offset, len(self.out), argument))

    def attributes(self, tag: str, where: str) -> Iterator[tuple[str, str]]:
        while True:
            self.skip_space()
            if self.text[self.at] == ">":
                return
            begin = self.at
            while self.text[self.at] not in _SPACE and self.text[self.at] not in "=>/\"'":
                self.at += 1
            name = self.text[begin : self.at]
            if not name:
                raise BadText(f'Empty attribute name in the tag "{tag}" {where}')
            self.skip_space()
            if self.text[self.at] == "\0":
                raise BadText(f'Unclosed start tag "{tag}" {where}')
            if self.text[self.at] != "=":
                yield name, ""
                continue
            self.at += 1
            self.skip_space()
            if self.text[self.at] == "\0":
                raise BadText(f'Unclosed start tag "{tag}" {where}')
            yield name, self.value(where)

    def value(self, where: str) -> str:
        begin = self.at
        quote = self.text[begin]
        if quote not in "'\"":
            while self.text[self.at].isascii() and (self.text[self.at].isalnum() or self.text[self.at] in ".-"):
                self.at += 1
            if self.text[self.at] not in _SPACE and self.text[self.at] != ">":
                raise BadText(f"Unexpected end of name token at byte offset {self.byte(begin)}")
            found = self.text[begin : self.at].lower()
        else:
            self.at += 1
            parts: list[str] = []
            while self.text[self.at] not in (quote, "\0"):
                if self.text[self.at] == "&" and (reference := _reference(self.text, self.at)):
                    char, self.at = reference
                    parts.append(char)
                    continue
                parts.append(self.text[self.at])
                self.at += 1
            if self.text[self.at] == quote:
                self.at += 1
            found = "".join(parts)
        if self.text[self.at] == "\0":
            raise BadText(f"Unclosed start tag {where}")
        return found

    def end(self) -> None:
        begin = self.at
        where = f"at byte offset {self.byte(begin)}"
        if not self.open:
            raise BadText(f"Unexpected end tag {where}")
        self.at += 2
        while self.text[self.at] not in _SPACE and self.text[self.at] != ">":
            self.at += 1
        name = self.text[begin + 2 : self.at].lower()
        self.skip_space()
        if self.text[self.at] != ">":
            raise BadText(f"Unclosed end tag {where}")
        self.at += 1
        opened = self.open.pop()
        if name and name != opened.tag:
            raise BadText(f'Unmatched end tag {where}, expected "</{opened.tag}>", found "</{name}>"')
        if self.offset > opened.offset:
            self.close(opened)

    def close(self, opened: _Open) -> None:
        entity: Entity = {
            "type": TAGS[opened.tag],
            "offset": opened.offset,
            "length": self.offset - opened.offset,
        }
        last = self.entities[-1] if self.entities else {}
        same = {key: last.get(key) for key in ("offset", "length")} == {
            key: entity[key] for key in ("offset", "length")
        }
        if opened.tag == "tg-emoji":
            if not opened.argument.isdigit() or int(opened.argument) == 0:
                raise BadText("Invalid custom emoji identifier specified")
            entity["custom_emoji_id"] = opened.argument
        elif opened.tag == "tg-time":
            if not opened.argument.isdigit():
                raise BadText("Invalid date_time entity specified")
            entity["unix_time"] = int(opened.argument)
        elif opened.tag == "a":
            url = _checked_link(opened.argument or "".join(self.out[opened.begin :]))
            if not url:
                return
            if match := re.fullmatch(r"tg://user\?id=(\d+)", url):
                entity |= {"type": "text_mention", "user": {"id": int(match[1]), "is_bot": False, "first_name": "?"}}
            else:
                entity["url"] = url
        elif opened.tag == "pre" and same and last.get("type") == "code" and last.get("language"):
            last["type"] = "pre"
            return
        elif opened.tag == "code":
            if same and last.get("type") == "pre" and opened.argument:
                last["language"] = opened.argument
                return
            if opened.argument:
                entity["language"] = opened.argument
        elif opened.tag == "blockquote" and opened.argument:
            entity["type"] = "expandable_blockquote"
        self.entities.append(entity)


def _checked_link(url: str) -> str:
    """The link Telegram makes of it; empty where it makes none, and the text stays plain."""
    url = url.strip()
    if re.match(r"(?i)(https?|tg|ton|tonsite)://\S", url):
        return url
    if re.fullmatch(r"(?i)[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?", url):
        return f"http://{url}/" if "/" not in url else f"http://{url}"
    return ""


def parse_html(source: str) -> tuple[str, list[Entity]]:
    """The text and its entities; raises `BadText`."""
    return _Html(source).run()
