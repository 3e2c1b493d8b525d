"""What is to be said, chunk by chunk, and what has arrived."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

from state import outbox_rows as table
from state.codec import clean, to_micros
from state.errors import Conflict
from state.ids import ChunkId, DeliveryId, EventId, Owner, SessionId, TurnId
from state.lease_rows import guard
from state.records import ChunkState, NewChunk, NewDelivery, StoredDelivery, TurnLease
from state.repository import Repository

_HEADS = 8
"""Deliveries of one chat in one answer of `due`: a chat with a backlog must not hide the others."""


class Outbox(Repository):
    """A chunk is committed before it is sent, and its states change by compare-and-set only."""

    async def enqueue(
        self, delivery: NewDelivery, *, session_id: SessionId | None = None, turn_id: TurnId | None = None
    ) -> bool:
        """Commit a delivery READY. False where its id is known already. Finals, approvals and notices: on the disk."""
        now = self._now()
        return await self._db.write(
            lambda tx: table.insert(tx, delivery, now, session_id=session_id, turn_id=turn_id),
            full=delivery.kind in table.FULL_KINDS,
        )

    async def open_draft(self, lease: TurnLease, delivery: NewDelivery) -> ChunkId:
        """Commit a DRAFT whose one chunk is SENDING: the first message of a stream is about to be sent.

        Raises LeaseLost, and Conflict where the delivery exists or has not exactly one chunk.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> ChunkId:
            guard(tx, lease, self._clock)
            made = len(delivery.chunks) == 1 and table.insert(
                tx, delivery, now, session_id=lease.session_id, turn_id=lease.turn_id, state="draft"
            )
            if not made:
                raise Conflict(f"delivery {delivery.id} cannot be a draft")
            chunk_id = ChunkId(f"{delivery.id}.1")
            tx.execute("UPDATE chunks SET state = 'sending', owner = ? WHERE id = ?", (self._owner, chunk_id))
            return chunk_id

        return await self._db.write(run, full=True)

    async def draft_sent(self, delivery_id: DeliveryId, message_id: str) -> None:
        """The draft has this message now. Where a final has adopted it meanwhile, the final edits it."""
        chunk_id = ChunkId(f"{delivery_id}.1")

        def run(tx: sqlite3.Connection) -> None:
            chunk = table.the_chunk(tx, chunk_id)
            if chunk["delivery_id"] != delivery_id:
                # The final's first chunk carries the draft's id until its outcome is known: it is, now.
                tx.execute(
                    "UPDATE chunks SET state = 'ready', edits = ? WHERE id = ? AND state = 'unknown'",
                    (message_id, chunk_id),
                )
                return
            table.record_receipt(tx, chunk, [message_id])
            tx.execute("UPDATE chunks SET state = 'sent', owner = NULL WHERE id = ?", (chunk_id,))

        await self._db.write(run, full=True)

    async def due(self, platforms_accounts: Sequence[tuple[str, str]], *, limit: int = 200) -> list[StoredDelivery]:
        """READY deliveries of these (platform, account) pairs that need not wait, in order of insertion.

        At most the first few of a chat, and none behind an earlier one of its chat that has to wait.
        """
        now = self._now()
        ranked = (
            "SELECT seq, row_number() OVER (PARTITION BY platform, account, chat ORDER BY seq) AS place,"
            " max(CASE WHEN not_before > ? THEN 1 ELSE 0 END)"
            " OVER (PARTITION BY platform, account, chat ORDER BY seq) AS blocked"
            " FROM outbox WHERE state = 'ready' AND platform = ? AND account = ?"
        )

        def run(tx: sqlite3.Connection) -> list[StoredDelivery]:
            found: list[StoredDelivery] = []
            for platform, account in platforms_accounts:
                found += table.load(
                    tx,
                    f"seq IN (SELECT seq FROM ({ranked}) WHERE blocked = 0 AND place <= ?)",
                    (now, platform, account, _HEADS),
                    limit,
                )
            found.sort(key=lambda one: one.seq)
            return found[:limit]

        return await self._db.read(run)

    async def get(self, delivery_id: DeliveryId) -> StoredDelivery | None:
        """The delivery, or None."""
        found = await self._load("id = ?", (delivery_id,))
        return found[0] if found else None

    async def of_turn(self, turn_id: TurnId) -> list[StoredDelivery]:
        """Everything that a turn said or will say, in order."""
        return await self._load("turn_id = ?", (turn_id,))

    async def of_event(self, event_id: EventId) -> StoredDelivery | None:
        """What was said when the event was ended by `inbox.conclude`; None where that was nothing."""
        found = await self._load("event_id = ?", (event_id,))
        return found[-1] if found else None

    async def by_message(
        self, platform: str, account: str, message_id: str, *, chat: str | None = None
    ) -> StoredDelivery | None:
        """The newest delivery that became this message; `chat` where the platform counts messages by chat."""
        found = await self._load(
            "id IN (SELECT delivery_id FROM receipts WHERE platform = ? AND account = ? AND message_id = ?"
            " AND (? IS NULL OR chat = ?))",
            (platform, account, message_id, chat, chat),
        )
        return found[-1] if found else None

    async def drafts_of(self, turn_id: TurnId) -> list[StoredDelivery]:
        """The open drafts of a turn."""
        return await self._load("turn_id = ? AND state = 'draft'", (turn_id,))

    async def sending(self, chunk_id: ChunkId) -> bool:
        """READY or UNKNOWN -> SENDING, on the disk on return: only now may it be sent. False otherwise.

        A send after an unknown outcome is counted in `tries`.
        """

        def run(tx: sqlite3.Connection) -> bool:
            done = tx.execute(
                "UPDATE chunks SET tries = tries + (state = 'unknown'), state = 'sending', owner = ?"
                " WHERE id = ? AND state IN ('ready', 'unknown')",
                (self._owner, chunk_id),
            )
            return done.rowcount > 0

        return await self._db.write(run, full=True)

    async def sent(self, chunk_id: ChunkId, message_ids: Sequence[str]) -> None:
        """The chunk has arrived (sent now, or found by looking it up); the delivery is SENT with its last one.

        On the disk on return. Saying it twice does no harm.
        """

        def run(tx: sqlite3.Connection) -> None:
            chunk = table.the_chunk(tx, chunk_id)
            tx.execute("UPDATE chunks SET state = 'sent', owner = NULL, error = NULL WHERE id = ?", (chunk_id,))
            table.record_receipt(tx, chunk, message_ids)
            table.settle_delivery(tx, chunk["delivery_id"])

        await self._db.write(run, full=True)

    async def back(self, chunk_id: ChunkId, *, not_before: datetime | None, error: str) -> None:
        """SENDING -> READY: it has surely not arrived; the delivery waits until `not_before`. Conflict otherwise."""

        def run(tx: sqlite3.Connection) -> None:
            chunk = table.move(tx, chunk_id, (ChunkState.SENDING,), ChunkState.READY)
            tx.execute("UPDATE chunks SET error = ?, owner = NULL WHERE id = ?", (clean(error), chunk_id))
            tx.execute(
                "UPDATE outbox SET not_before = ? WHERE id = ?",
                (None if not_before is None else to_micros(not_before), chunk["delivery_id"]),
            )

        await self._db.write(run)

    async def unknown(self, chunk_id: ChunkId, error: str) -> None:
        """SENDING -> UNKNOWN: nobody knows whether it arrived. Conflict otherwise. On the disk on return."""

        def run(tx: sqlite3.Connection) -> None:
            table.move(tx, chunk_id, (ChunkState.SENDING,), ChunkState.UNKNOWN)
            tx.execute("UPDATE chunks SET error = ?, owner = NULL WHERE id = ?", (clean(error), chunk_id))

        await self._db.write(run, full=True)

    async def failed(self, chunk_id: ChunkId, error: str, *, park: bool = False) -> None:
        """The chunk is refused for good: those after it are DROPPED and the delivery is FAILED.

        `park`: its chat is gone or its platform refuses us; nothing is dropped, the delivery waits
        PARKED until `unparked`. Raises Conflict where the chunk is final.
        """
        open_states = (ChunkState.READY, ChunkState.SENDING, ChunkState.UNKNOWN)

        def run(tx: sqlite3.Connection) -> None:
            to = ChunkState.READY if park else ChunkState.FAILED
            chunk = table.move(tx, chunk_id, open_states, to)
            tx.execute("UPDATE chunks SET error = ?, owner = NULL WHERE id = ?", (clean(error), chunk_id))
            if not park:
                tx.execute(
                    "UPDATE chunks SET state = 'dropped' WHERE delivery_id = ? AND state IN ('ready', 'unknown')",
                    (chunk["delivery_id"],),
                )
            tx.execute(
                "UPDATE outbox SET state = ?, not_before = NULL WHERE id = ?",
                ("parked" if park else "failed", chunk["delivery_id"]),
            )

        await self._db.write(run, full=True)

    async def unedit(self, chunk_id: ChunkId) -> None:
        """SENDING -> READY without `edits`: the message to be edited is gone, it is sent as a new one. Conflict."""

        def run(tx: sqlite3.Connection) -> None:
            table.move(tx, chunk_id, (ChunkState.SENDING,), ChunkState.READY)
            tx.execute("UPDATE chunks SET edits = NULL, owner = NULL WHERE id = ?", (chunk_id,))

        await self._db.write(run)

    async def resplit(self, chunk_id: ChunkId, parts: Sequence[NewChunk]) -> None:
        """Put smaller parts in the place of a SENDING chunk that the platform calls too long. Conflict otherwise.

        The chunk is DROPPED; the parts are READY with ids of their own; the later chunks stay behind them.
        The first part takes the chunk's edit over.
        """

        def run(tx: sqlite3.Connection) -> None:
            chunk = table.move(tx, chunk_id, (ChunkState.SENDING,), ChunkState.DROPPED)
            tx.execute(
                "UPDATE chunks SET number = number + ? WHERE delivery_id = ? AND number > ?",
                (len(parts), chunk["delivery_id"], chunk["number"]),
            )
            for place, part in enumerate(parts, 1):
                table.insert_chunk(
                    tx,
                    ChunkId(f"{chunk_id}.{place}"),
                    chunk["delivery_id"],
                    chunk["number"] + place,
                    part,
                    edits=chunk["edits"] if place == 1 else None,
                )

        await self._db.write(run, full=True)

    async def drop(self, delivery_id: DeliveryId) -> None:
        """An open delivery is not needed any more: it and its open chunks are DROPPED. Else nothing happens."""

        def run(tx: sqlite3.Connection) -> None:
            dropped = tx.execute(
                "UPDATE outbox SET state = 'dropped' WHERE id = ? AND state IN ('ready', 'draft', 'parked')",
                (delivery_id,),
            )
            if dropped.rowcount:
                tx.execute(
                    "UPDATE chunks SET state = 'dropped' WHERE delivery_id = ? AND state IN ('ready', 'unknown')",
                    (delivery_id,),
                )

        await self._db.write(run)

    async def recover(self, owner_alive: Callable[[Owner], bool | None]) -> int:
        """SENDING -> UNKNOWN for every chunk whose owner is not known to live; returns how many.

        `owner_alive` is called on the writer thread: it must be quick. True keeps the chunk as it is.
        """

        def run(tx: sqlite3.Connection) -> int:
            found = tx.execute("SELECT id, owner FROM chunks WHERE state = 'sending'").fetchall()
            dead = [row["id"] for row in found if row["owner"] is None or not owner_alive(Owner(row["owner"]))]
            tx.executemany("UPDATE chunks SET state = 'unknown', owner = NULL WHERE id = ?", [(one,) for one in dead])
            return len(dead)

        return await self._db.write(run, full=True)

    async def pending(self, platform: str, account: str, chat: str | None = None) -> list[StoredDelivery]:
        """READY deliveries of the account (of one chat where given) in order, waiting ones included."""
        where = "state = 'ready' AND platform = ? AND account = ?"
        if chat is None:
            return await self._load(where, (platform, account))
        return await self._load(f"{where} AND chat = ?", (platform, account, chat))

    async def counts(self) -> dict[str, int]:
        """How many deliveries stand where, and how many chunks are UNKNOWN (key `unknown`)."""

        def run(tx: sqlite3.Connection) -> dict[str, int]:
            found = {row[0]: row[1] for row in tx.execute("SELECT state, count(*) FROM outbox GROUP BY state")}
            found["unknown"] = tx.execute("SELECT count(*) FROM chunks WHERE state = 'unknown'").fetchone()[0]
            return found

        return await self._db.read(run)

    async def unparked(self, platform: str, account: str) -> int:
        """PARKED -> READY for an account that works again; returns how many."""

        def run(tx: sqlite3.Connection) -> int:
            return tx.execute(
                "UPDATE outbox SET state = 'ready' WHERE state = 'parked' AND platform = ? AND account = ?",
                (platform, account),
            ).rowcount

        return await self._db.write(run)

    async def _load(self, where: str, values: Sequence[object]) -> list[StoredDelivery]:
        return await self._db.read(lambda tx: table.load(tx, where, values))
