"""Limits of a platform, in its own unit of length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Unit = Literal["utf16", "codepoints", "bytes"]


def length_in(unit: Unit) -> Callable[[str], int]:
    """The function that measures a text in `unit`."""
    return _MEASURES[unit]


def _utf16(text: str) -> int:
    return len(text) + sum(1 for ch in text if ord(ch) > 0xFFFF) if not text.isascii() else len(text)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


_MEASURES: dict[Unit, Callable[[str], int]] = {"utf16": _utf16, "codepoints": len, "bytes": _bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`text` is the length of one message in `unit`; None means without limit.

    `edit_every` is the least time between two edits of a streamed draft, in seconds; `room_edit_every` the
    same in a chat with others, where that is longer (None: it is not).
    `chat_every` is the time that one call to a chat costs in the long run, of which `chat_burst` may
    come at once; `account_every` is the same for all chats of the account together, with
    `account_burst`. Zero means that the platform sets no such limit.
    """

    text: int | None
    unit: Unit = "codepoints"
    edit_every: float = 1.5
    room_edit_every: float | None = None
    chat_every: float = 0.0
    chat_burst: int = 1
    account_every: float = 0.0
    account_burst: int = 1

    def edits_in(self, kind: str) -> float:
        """The least time between two edits in a chat of that kind."""
        return self.edit_every if kind == "private" or self.room_edit_every is None else self.room_edit_every
