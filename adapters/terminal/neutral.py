"""Takes the power out of text that others wrote, before a terminal shows it.

An escape sequence in an answer could move the cursor, change the title, write to the clipboard or make
one command look like another. Characters that scripts and emoji need (joiners, marks) stay.
"""

from __future__ import annotations

_TABLE: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
_TABLE[0x7F] = "\u2421"
_TABLE |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# overrides and isolates of the writing direction: they can show a text in another order than it has
_TABLE |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_TABLE |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_TABLE |= {0x2028: "\n", 0x2029: "\n"}
for _kept in "\n\t":
    del _TABLE[ord(_kept)]
_LINE = {**_TABLE, 0x0A: " ", 0x09: " ", 0x2028: " ", 0x2029: " "}


def neutral(text: str) -> str:
    """`text` with control characters as visible signs; line breaks and tabs stay. Never raises."""
    return text.replace("\r\n", "\n").translate(_TABLE)


def one_line(text: str) -> str:
    """The same in one line."""
    return text.replace("\r\n", "\n").translate(_LINE).strip()
