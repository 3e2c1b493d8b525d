"""Replay of a session: its active rows in order, with those that were read before kept at hand.

Reading a row back (unpacking its bytes, making the record) costs some 40 µs, which a long conversation would pay
for every row at every turn. Rows are immutable but for two things, and the kept part excludes both: a tool's
row is completed once (nothing from the first incomplete row on is kept), and rows are taken out of the context
(the count of inactive rows only grows, and is compared at every load). Other processes write too: that is why
the store is asked each time, and only what it cannot have changed is spared.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from state import rows
from state.ids import RowId, SessionId
from state.records import ToolStatus, TranscriptMessage
from state.transcript_rows import segments

KEPT_BYTES = 12_000_000
"""Of all sessions together, roughly; the least recently used one goes first."""
ROW = 800
"""What a row takes beside its texts."""
IDLE = 300.0
"""Seconds after which an unused session is let go: reading it anew costs little, and memory that only grows a lot."""
ALL = 2**62
_OPEN = frozenset({ToolStatus.PLANNED, ToolStatus.STARTED, ToolStatus.UNKNOWN})


@dataclass(frozen=True, slots=True)
class _Kept:
    upto: RowId
    inactive: int
    messages: tuple[TranscriptMessage, ...]
    size: int
    used: float


class Replay:
    """The kept rows of one store. Called from several reader threads."""

    def __init__(self, bound: int = KEPT_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._bound = bound
        self._clock = clock
        self._kept: OrderedDict[SessionId, _Kept] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def load(self, tx: sqlite3.Connection, session_id: SessionId) -> list[TranscriptMessage]:
        """The active rows of a session and of what it inherits, in replay order. NotFound."""
        found: list[TranscriptMessage] = []
        for owner, first, last in segments(tx, session_id):
            if first == 0 and last == ALL:
                found.extend(self._own(tx, owner))
            else:
                found.extend(_read(tx, owner, first, last))
        return found

    def _own(self, tx: sqlite3.Connection, session_id: SessionId) -> list[TranscriptMessage]:
        inactive: int = tx.execute(
            "SELECT count(*) FROM transcript WHERE session_id = ? AND active = 0", (session_id,)
        ).fetchone()[0]
        with self._lock:
            kept = self._kept.get(session_id)
        if kept is None or kept.inactive != inactive:
            messages = _read(tx, session_id, 0, ALL)
        else:
            messages = [*kept.messages, *_read(tx, session_id, kept.upto + 1, ALL)]
        self._keep(session_id, inactive, messages)
        return messages

    def _keep(self, session_id: SessionId, inactive: int, messages: list[TranscriptMessage]) -> None:
        end = next((n for n, one in enumerate(messages) if _incomplete(one)), len(messages))
        stable = tuple(messages[:end])
        size = sum(len(one.content) + len(one.wire or "") + ROW for one in stable)
        now = self._clock()
        with self._lock:
            old = self._kept.pop(session_id, None)
            if old is not None:
                self._size -= old.size
            if stable and size <= self._bound:
                self._kept[session_id] = _Kept(stable[-1].id, inactive, stable, size, now)
                self._size += size
            while self._kept and (self._size > self._bound or self._oldest() < now - IDLE):
                _, gone = self._kept.popitem(last=False)
                self._size -= gone.size

    def _oldest(self) -> float:
        return next(iter(self._kept.values())).used


def _incomplete(message: TranscriptMessage) -> bool:
    return message.tool_status in _OPEN and message.wire is None


def _read(tx: sqlite3.Connection, session_id: SessionId, first: int, last: int) -> list[TranscriptMessage]:
    query = "SELECT * FROM transcript WHERE session_id = ? AND active = 1 AND id BETWEEN ? AND ? ORDER BY id"
    return [rows.message(row) for row in tx.execute(query, (session_id, first, last))]
