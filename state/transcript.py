"""What was said. Reads, and the few writes that are outside a turn; a turn writes through `turns`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state import rows
from state import transcript_rows as table
from state.clock import Clock
from state.database import Database
from state.ids import Owner, RowId, SessionId, TurnId
from state.lease_rows import refuse_leased
from state.records import NewMessage, TranscriptMessage
from state.replay import Replay
from state.repository import Repository
from state.session_rows import find_session, touch

HISTORY = TurnId("history")
"""The turn of rows that came from outside: no turn of ours made them."""


class Transcript(Repository):
    """Rows in the order of their ids, on every path."""

    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        super().__init__(db, clock, owner)
        self._replay = Replay()

    async def load(self, session_id: SessionId) -> list[TranscriptMessage]:
        """The active rows in replay order, beginning with those that the session inherits. NotFound."""
        return await self._db.read(lambda tx: self._replay.load(tx, session_id))

    async def rows_of(self, turn_id: TurnId, *, include_inactive: bool = False) -> list[TranscriptMessage]:
        """The rows of a turn; empty where there is no such turn."""
        return await self._db.read(lambda tx: table.of_turn(tx, turn_id, inactive=include_inactive))

    async def last_turn_ids(self, session_id: SessionId, n: int) -> list[TurnId]:
        """The latest `n` turns that have rows in the context, newest first."""

        def run(tx: sqlite3.Connection) -> list[TurnId]:
            found = tx.execute(
                "SELECT id FROM turns WHERE session_id = ?1"
                " AND EXISTS (SELECT 1 FROM transcript t WHERE t.session_id = ?1"
                " AND t.active = 1 AND t.id >= turns.first_row AND t.turn_id = turns.id) ORDER BY seq DESC LIMIT ?2",
                (session_id, n),
            )
            return [TurnId(row["id"]) for row in found]

        return await self._db.read(run)

    async def deactivate_turn(self, session_id: SessionId, turn_id: TurnId) -> int:
        """Take a turn out of the context (/undo, /retry). Conflict where a turn runs on the session.

        Sessions that inherit its rows lose them too.
        """
        return await self._db.write(lambda tx: table.deactivate_turn(tx, session_id, turn_id, self._clock))

    async def by_platform_message(self, session_id: SessionId, message_id: str) -> TranscriptMessage | None:
        """The newest row of the session that is this message of the platform."""
        return await self._one(
            "SELECT * FROM transcript WHERE platform_message_id = ? AND session_id = ? ORDER BY id DESC LIMIT 1",
            (message_id, session_id),
        )

    async def around(self, row_id: RowId, n: int) -> list[TranscriptMessage]:
        """The row with up to `n` active rows of its session before and after it, in order; empty for none."""

        def run(tx: sqlite3.Connection) -> list[TranscriptMessage]:
            row = tx.execute("SELECT * FROM transcript WHERE id = ?", (row_id,)).fetchone()
            if row is None:
                return []
            query = "SELECT * FROM transcript WHERE session_id = ? AND active = 1 AND id"
            before = tx.execute(f"{query} < ? ORDER BY id DESC LIMIT ?", (row["session_id"], row_id, n)).fetchall()
            after = tx.execute(f"{query} > ? ORDER BY id LIMIT ?", (row["session_id"], row_id, n)).fetchall()
            return [rows.message(one) for one in (*reversed(before), row, *after)]

        return await self._db.read(run)

    async def get(self, row_id: RowId) -> TranscriptMessage | None:
        """The row, or None."""
        return await self._one("SELECT * FROM transcript WHERE id = ?", (row_id,))

    async def append_raw(self, session_id: SessionId, new: Sequence[NewMessage]) -> list[RowId]:
        """Add rows outside a turn (the history that a stateless client brings), all or none.

        Raises Conflict where a turn runs on the session, and NotFound.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> list[RowId]:
            find_session(tx, session_id)
            refuse_leased(tx, session_id, self._clock)
            made = table.insert(tx, session_id, HISTORY, 0, new, now)
            touch(tx, session_id, now)
            return made

        return await self._db.write(run)

    async def _one(self, query: str, values: Sequence[object]) -> TranscriptMessage | None:
        def run(tx: sqlite3.Connection) -> TranscriptMessage | None:
            row = tx.execute(query, values).fetchone()
            return None if row is None else rows.message(row)

        return await self._db.read(run)
