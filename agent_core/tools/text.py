"""Small helpers for what people and models read: one safe line, bounded texts, no secrets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_SECRETS = re.compile(
    r"(?i)\b(?:sk|ghp|gho|ghs|github_pat|glpat|xox[abeprs]|AKIA|AIza|hf)[-_]?[A-Za-z0-9_-]{12,}"
    r"|\b\d{6,12}:[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|(?<=bearer )[^\s\"']{6,}|(?<=basic )[^\s\"']{6,}"
    r"|(?<=://)[^\s/@\"']{1,200}(?=@)"
)
_NAMED = re.compile(
    r"(?i)([\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key)[\w-]{0,40}[\"']?\s{0,3}[=:]\s{0,3})[^\s&]{1,500}"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|[@-Z\\^_])")
_HIDING = frozenset(
    "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)


def redact(text: str) -> str:
    """The text with what looks like a key or a password replaced. A help, not a promise."""
    return _NAMED.sub(r"\1[…]", _SECRETS.sub("[…]", text))


def line(text: str, limit: int = 160) -> str:
    """One line for people: no control or hiding characters, no secrets, at most `limit` characters."""
    flat = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text[: 4 * limit])
    return cut(" ".join(redact(flat).split()), limit)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with a mark where it is longer than `limit`."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def argument(arguments: Mapping[str, Any], name: str) -> str:
    """An argument as text, whatever it is: for `describe`, which never raises."""
    value = arguments.get(name, "")
    return value if isinstance(value, str) else repr(value)[:200]


def hiding(text: str) -> str | None:
    """The name of the first character that makes a text look other than it is (direction marks,
    characters without width, controls but line ends and tabs), or None."""
    for one in text:
        if one in _HIDING or (unicodedata.category(one) == "Cc" and one not in "\n\t"):
            return f"U+{ord(one):04X}"
    return None


def plain(text: str) -> str:
    """The output of a program without terminal control: escape sequences, controls, overwritten lines."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "".join(one for one in text if one in "\n\t\r" or unicodedata.category(one) != "Cc")


def count(number: int, noun: str) -> str:
    """`1 byte`, `2,345 bytes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
