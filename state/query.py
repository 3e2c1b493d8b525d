"""What a person typed into the search, as terms. Pure; nothing that is typed is an error.

`OR` between two terms is an operator, and quotation marks hold words together; everything else is
text to be found as it stands, "AND", "NEAR(" and a lone quotation mark included.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

MOST_TERMS = 32
"""Terms of one query; what is typed beyond them is left out."""


@dataclass(frozen=True, slots=True)
class Term:
    """A text that a row must contain, case aside."""

    text: str

    @property
    def folded(self) -> str:
        """The text as it is compared with a folded row."""
        return self.text.casefold()

    @property
    def is_short(self) -> bool:
        """True below three characters: too short for a trigram."""
        return len(self.text) < 3

    @property
    def is_wordlike(self) -> bool:
        """True where the word index can rank it: letters and digits of scripts that part words by spaces."""
        return any(char.isalnum() for char in self.text) and not any(joins_words(char) for char in self.text)


def joins_words(char: str) -> bool:
    """True for characters of scripts that put no spaces between words (CJK, kana, Thai, Lao, Khmer, Burmese)."""
    point = ord(char)
    return (
        0x3040 <= point <= 0x30FF
        or 0x3400 <= point <= 0x9FFF
        or 0xF900 <= point <= 0xFAFF
        or 0x20000 <= point <= 0x3FFFF
        or 0x0E00 <= point <= 0x0EFF
        or 0x1780 <= point <= 0x17FF
        or 0x1000 <= point <= 0x109F
        or 0xAC00 <= point <= 0xD7AF
    )


def parse(query: str) -> list[list[Term]]:
    """The query as alternatives, each a list of terms that a row must contain all of; empty for no term."""
    words = _words(query)
    groups: list[list[Term]] = [[]]
    for place, (word, quoted) in enumerate(words):
        between = 0 < place < len(words) - 1
        if word == "OR" and not quoted and between and groups[-1]:
            groups.append([])
        else:
            groups[-1].append(Term(word))
    if len(groups) > 1 and not groups[-1]:
        # "a OR OR": the second one stood where a term was due.
        groups[-1].append(Term("OR"))
    flat = 0
    kept: list[list[Term]] = []
    for group in groups:
        room = group[: max(0, MOST_TERMS - flat)]
        flat += len(room)
        if room:
            kept.append(room)
    return kept


def trigrams(text: str) -> list[str]:
    """Every run of three characters, each once, in order."""
    return list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))


def _words(query: str) -> list[tuple[str, bool]]:
    """Pieces between spaces; a pair of quotation marks around a piece makes one piece of what is inside."""
    text = "".join(char if unicodedata.category(char) not in ("Cc", "Cs") else " " for char in query)
    found: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end = text.find('"', at + 1) if text[at] == '"' else -1
        if end > at + 1 and (end + 1 == len(text) or text[end + 1].isspace()) and text[at + 1 : end].strip():
            found.append((text[at + 1 : end].strip(), True))
            at = end + 1
            continue
        stop = at
        while stop < len(text) and not text[stop].isspace():
            stop += 1
        found.append((text[at:stop], False))
        at = stop
    return found
