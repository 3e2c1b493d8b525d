"""The inbox: every event that a platform told us, and how it ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state import outbox_rows, rows, transcript_rows
from state.codec import clean, flag, marks, to_micros
from state.database import require
from state.errors import Conflict
from state.ids import EventId, Owner, SessionId, SessionKey, TurnId
from state.records import AcceptedRow, Fate, InboxEvent, NewDelivery, NewEvent
from state.repository import Repository

_OPEN = "fate IN ('waiting', 'running')"


class Inbox(Repository):
    """Events in order of acceptance. An open event is WAITING or RUNNING; a final fate never changes."""

    async def accept(self, new: NewEvent) -> AcceptedRow:
        """Recognise the event by (platform, account, dedup_id), or insert it WAITING. On the disk on return.

        It belongs to this process (`owner`) until it is released, or the process is gone.
        """
        return await self._db.write(lambda tx: _insert(tx, new, self._owner), full=True)

    async def accept_failed(self, new: NewEvent, detail: str) -> AcceptedRow:
        """As `accept`, but what is new has FAILED already: it is kept, and nothing is done with it."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> AcceptedRow:
            row = _insert(tx, new, self._owner)
            if row.is_new:
                settle(tx, row.event_id, Fate.FAILED, detail, None, now)
            return row

        return await self._db.write(run, full=True)

    async def get(self, event_id: EventId) -> InboxEvent | None:
        """The event, or None."""
        found = await self._select("id = ?", (event_id,))
        return found[0] if found else None

    async def find(
        self, platform: str, account: str, message_id: str, *, key: SessionKey | None = None
    ) -> list[InboxEvent]:
        """All events about that platform message (itself, its edits, its deletion), newest first."""
        where = "platform = ? AND account = ? AND message_id = ?"
        if key is None:
            return await self._select(where, (platform, account, message_id), order="id DESC")
        return await self._select(f"{where} AND key = ?", (platform, account, message_id, key), order="id DESC")

    async def open_events(self, *, platforms: Sequence[str] | None = None) -> list[InboxEvent]:
        """Everything WAITING or RUNNING, in order; of `platforms` only where that is given."""
        if platforms is None:
            return await self._select(_OPEN, ())
        return await self._select(f"{_OPEN} AND platform IN ({marks(len(platforms))})", tuple(platforms))

    async def waiting(self, key: SessionKey) -> list[InboxEvent]:
        """What waits on a session key, in order."""
        return await self._select("key = ? AND fate = 'waiting'", (key,))

    async def settle(self, event_id: EventId, fate: Fate, detail: str = "", *, turn_id: TurnId | None = None) -> bool:
        """Give an open event its fate. False (and nothing written) where it had a final one. On the disk on return."""
        return await self.settle_many([event_id], fate, detail, turn_id=turn_id) == 1

    async def settle_many(
        self, event_ids: Sequence[EventId], fate: Fate, detail: str = "", *, turn_id: TurnId | None = None
    ) -> int:
        """As `settle` for several in one transaction; returns how many were open."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> int:
            return sum(settle(tx, one, fate, detail, turn_id, now) for one in event_ids)

        return await self._db.write(run, full=True)

    async def conclude(
        self,
        event_id: EventId,
        fate: Fate,
        detail: str = "",
        *,
        turn_id: TurnId | None = None,
        delivery: NewDelivery | None = None,
        undo: tuple[SessionId, TurnId] | None = None,
    ) -> bool:
        """End an event outside a turn in one transaction with what is said about it. On the disk on return.

        `undo` takes that turn out of the context as well (Conflict where a turn runs on its session).
        False, and nothing written, where the event had ended before.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> bool:
            if not settle(tx, event_id, fate, detail, turn_id, now):
                return False
            if delivery is not None:
                outbox_rows.insert(tx, delivery, now, turn_id=turn_id, event_id=event_id)
            if undo is not None:
                transcript_rows.deactivate_turn(tx, *undo, self._clock)
            return True

        return await self._db.write(run, full=True)

    async def replace_payload(self, event_id: EventId, payload: str) -> bool:
        """Put an edited event in the place of the original. False where it does not wait any more."""

        def run(tx: sqlite3.Connection) -> bool:
            return flag(
                tx.execute("UPDATE inbox SET payload = ? WHERE id = ? AND fate = 'waiting'", (clean(payload), event_id))
            )

        return await self._db.write(run, full=True)

    async def of_turn(self, turn_id: TurnId) -> list[InboxEvent]:
        """The events that a turn works or worked on, in order."""
        return await self._select("turn_id = ?", (turn_id,))

    async def counts(self) -> dict[Fate, int]:
        """How many events stand where. Every fate is in it."""

        def run(tx: sqlite3.Connection) -> dict[Fate, int]:
            found = dict.fromkeys(Fate, 0)
            for row in tx.execute("SELECT fate, count(*) AS n FROM inbox GROUP BY fate"):
                found[Fate(row["fate"])] = row["n"]
            return found

        return await self._db.read(run)

    async def release(self, event_ids: Sequence[EventId]) -> int:
        """Leave WAITING events of this process to whoever takes them; returns how many. On the disk on return."""

        def run(tx: sqlite3.Connection) -> int:
            query = "UPDATE inbox SET owner = NULL WHERE id = ? AND fate = 'waiting' AND owner = ?"
            return sum(flag(tx.execute(query, (one, self._owner))) for one in event_ids)

        return await self._db.write(run, full=True)

    async def has_elder(self, key: SessionKey, before: EventId, owner: Owner) -> bool:
        """Whether an open event of that owner came before this one in the same conversation."""
        query = f"SELECT 1 FROM inbox WHERE {_OPEN} AND id < ? AND key = ? AND owner = ? LIMIT 1"
        return await self._db.read(lambda tx: tx.execute(query, (before, key, owner)).fetchone() is not None)

    async def elders(self, key: SessionKey, before: EventId) -> list[InboxEvent]:
        """The open events of other processes that came before this one in the same conversation, in order."""
        where = f"{_OPEN} AND id < ? AND key = ? AND owner IS NOT ?"
        return await self._select(where, (before, key, self._owner))

    async def open_of(self, owner: Owner) -> int:
        """How many open events belong to that process."""
        query = f"SELECT count(*) FROM inbox WHERE {_OPEN} AND owner = ?"
        return await self._db.read(lambda tx: int(tx.execute(query, (owner,)).fetchone()[0]))

    async def orphans(self) -> list[InboxEvent]:
        """RUNNING events without a turn, or whose turn has ended: something forgot their fate."""
        return await self._select(
            "fate = 'running' AND NOT EXISTS"
            " (SELECT 1 FROM turns WHERE turns.id = inbox.turn_id AND turns.state = 'running')",
            (),
        )

    async def recent(self, key: SessionKey, limit: int) -> list[InboxEvent]:
        """The latest events of a session key, newest first."""
        return await self._select("key = ?", (key,), order="id DESC", limit=limit)

    async def of_room(self, room: str, after: EventId, before: EventId, limit: int) -> list[InboxEvent]:
        """The silent events of every key that begins with `room` (which ends in a colon), between two
        events, newest first."""
        return await self._select(
            "key >= ? AND key < ? AND id > ? AND id < ? AND fate = 'silent'",
            (room, room[:-1] + ";", after, before),
            order="id DESC",
            limit=limit,
        )

    async def _select(
        self, where: str, values: Sequence[object], *, order: str = "id", limit: int = -1
    ) -> list[InboxEvent]:
        query = f"SELECT * FROM inbox WHERE {where} ORDER BY {order} LIMIT ?"

        def run(tx: sqlite3.Connection) -> list[InboxEvent]:
            return [rows.event(row) for row in tx.execute(query, (*values, limit))]

        return await self._db.read(run)


def _insert(tx: sqlite3.Connection, new: NewEvent, owner: Owner) -> AcceptedRow:
    identity = (new.platform, new.account, clean(new.dedup_id))
    known = tx.execute("SELECT id FROM inbox WHERE platform = ? AND account = ? AND dedup_id = ?", identity).fetchone()
    if known is not None:
        return AcceptedRow(event_id=known["id"], is_new=False)
    cursor = tx.execute(
        "INSERT INTO inbox"
        " (platform, account, dedup_id, kind, key, message_id, sender_id, payload, received_at, owner)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *identity,
            new.kind,
            clean(new.key),
            clean(new.message_id),
            clean(new.sender_id),
            clean(new.payload),
            to_micros(new.received_at),
            owner,
        ),
    )
    return AcceptedRow(event_id=EventId(cursor.lastrowid or 0), is_new=True)


def settle(
    tx: sqlite3.Connection, event_id: EventId, fate: Fate, detail: str, turn_id: TurnId | None, now: int
) -> bool:
    """Within a transaction: compare-and-set from an open fate."""
    return flag(
        tx.execute(
            "UPDATE inbox SET fate = ?, detail = ?, turn_id = coalesce(?, turn_id), settled_at = ?"
            f" WHERE id = ? AND {_OPEN}",
            (fate, clean(detail), turn_id, None if fate.is_open else now, event_id),
        )
    )


def take(tx: sqlite3.Connection, event_ids: Sequence[EventId], turn_id: TurnId, owner: Owner) -> None:
    """Within a transaction: WAITING events become RUNNING in `turn_id`. Conflict where one is not free.

    An event that is RUNNING counts as free where its turn has ended or is this one.
    """
    for event_id in event_ids:
        row = require(
            tx.execute(
                "SELECT fate, turn_id, (SELECT state FROM turns WHERE turns.id = inbox.turn_id) AS turn_state"
                " FROM inbox WHERE id = ?",
                (event_id,),
            ).fetchone(),
            f"event {event_id}",
        )
        free = row["fate"] == "waiting" or (
            row["fate"] == "running" and (row["turn_id"] == turn_id or row["turn_state"] != "running")
        )
        if not free:
            raise Conflict(f"event {event_id} is {row['fate']} (turn {row['turn_id']})")
        tx.execute(
            "UPDATE inbox SET fate = 'running', turn_id = ?, owner = ?, attempts = attempts + 1 WHERE id = ?",
            (turn_id, owner, event_id),
        )
