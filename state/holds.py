"""Waits that platforms have asked for, kept over restarts."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from state.codec import clean, from_micros, to_micros
from state.records import Hold
from state.repository import Repository

MOST = timedelta(hours=24)
"""No hold is longer: a platform's nonsense, or a wall clock that was wrong, must not silence a chat for good."""


class Holds(Repository):
    """One hold a chat (or account). Kept in UTC, as it outlives the boot."""

    async def set(self, chat: str, until: datetime, reason: str) -> None:
        """Say nothing there before `until` (cut to 24 h from now). Replaces an earlier hold."""
        end = min(until, self._clock.utc() + MOST)

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO holds (chat, until, reason) VALUES (?, ?, ?)",
                (chat, to_micros(end), clean(reason)),
            )

        await self._db.write(run)

    async def active(self) -> list[Hold]:
        """The holds that are not over. One further away than 24 h was set under a wrong clock: it is over."""
        now, most = self._now(), to_micros(self._clock.utc() + MOST)

        def run(tx: sqlite3.Connection) -> list[Hold]:
            found = tx.execute("SELECT * FROM holds WHERE until > ? AND until <= ? ORDER BY until", (now, most))
            return [Hold(chat=row["chat"], until=from_micros(row["until"]), reason=row["reason"]) for row in found]

        return await self._db.read(run)

    async def clear(self, chat: str) -> None:
        """The wait is over."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute("DELETE FROM holds WHERE chat = ?", (chat,))

        await self._db.write(run)
