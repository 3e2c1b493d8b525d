"""A memory file as entries, and back. Pure.

Entries are separated by lines that hold nothing but `§`. Such a line inside an entry is kept as `\\§`, so that every
text can be an entry, and comes back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "§"
_ESCAPED = re.compile(r"(?m)^(\\*)§[ \t]*$")
_SEPARATOR = re.compile(r"(?m)^§[ \t]*$\n?")
_WORD = re.compile(r"\w+")
ALIKE = 0.5


def parse(text: str) -> list[str]:
    """The entries of a file, in order; blank ones are none."""
    found = [part.strip("\n").strip() for part in _SEPARATOR.split(text.replace("\r\n", "\n"))]
    return [_ESCAPED.sub(lambda one: one[0][1:], part) for part in found if part]


def join(entries: Sequence[str]) -> str:
    """The file of these entries; the reverse of `parse` for stripped, non-empty texts."""
    parts = [_ESCAPED.sub(lambda one: "\\" + one[0], entry) for entry in entries]
    return f"\n{MARK}\n".join(parts) + ("\n" if parts else "")


def find(entries: Sequence[str], part: str) -> list[int]:
    """The places of the entries that hold `part`; an entry that is `part` wins alone."""
    exact = [place for place, entry in enumerate(entries) if entry == part.strip()]
    return exact[:1] or [place for place, entry in enumerate(entries) if part in entry]


def rivals(entry: str, others: Sequence[str]) -> list[str]:
    """Entries that speak of much the same and say something else: they may contradict each other."""
    words = _words(entry)
    found = []
    for other in others:
        theirs = _words(other)
        both = len(words & theirs)
        if other != entry and both and both / min(len(words), len(theirs)) >= ALIKE and words != theirs:
            found.append(other)
    return found


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if len(word) > 2 or not word.isascii()}
