"""Deliveries and chunks within a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from state import rows
from state.codec import clean, pack
from state.errors import Conflict, NotFound
from state.ids import ChunkId, DeliveryId, EventId, SessionId, TurnId
from state.records import Chunk, ChunkState, NewChunk, NewDelivery, StoredDelivery

FULL_KINDS = frozenset({"final", "approval", "notice"})
"""Kinds whose loss a person would notice: on the disk before anything else happens."""


def insert(
    tx: sqlite3.Connection,
    new: NewDelivery,
    now: int,
    *,
    session_id: SessionId | None = None,
    turn_id: TurnId | None = None,
    event_id: EventId | None = None,
    state: str = "ready",
) -> bool:
    """Add a delivery with its chunks and adopt its draft. False where the id is there already."""
    if tx.execute("SELECT 1 FROM outbox WHERE id = ?", (new.id,)).fetchone() is not None:
        return False
    tx.execute(
        "INSERT INTO outbox (id, platform, account, chat, address_json, kind, state, session_id, turn_id, event_id,"
        " reply_to, blocks, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id,
            new.platform,
            new.account,
            new.chat,
            clean(new.address_json),
            new.kind,
            # Without a chunk there is nothing to send: it has been said.
            state if new.chunks else "sent",
            session_id,
            turn_id,
            event_id,
            new.reply_to,
            pack(clean(new.blocks)),
            now,
        ),
    )
    heir = None if new.adopts is None else _take_over(tx, new.adopts, bool(new.chunks))
    for number, one in enumerate(new.chunks, 1):
        chunk_id, edits, chunk_state = ChunkId(f"{new.id}.{number}"), None, ChunkState.READY
        if number == 1:
            edits = new.edits
            if heir is not None:
                chunk_id, edits, chunk_state = heir[0] or chunk_id, heir[1] or edits, heir[2]
        insert_chunk(tx, chunk_id, new.id, number, one, state=chunk_state, edits=edits)
    return True


def insert_chunk(
    tx: sqlite3.Connection,
    chunk_id: ChunkId,
    delivery_id: DeliveryId,
    number: int,
    new: NewChunk,
    *,
    state: ChunkState = ChunkState.READY,
    edits: str | None = None,
) -> None:
    """Add one chunk. The payload is packed against its plain text, which it mostly repeats."""
    plain = clean(new.plain)
    tx.execute(
        "INSERT INTO chunks (id, delivery_id, number, payload, plain, state, edits) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (chunk_id, delivery_id, number, pack(new.payload, plain), pack(plain), state, edits),
    )


def _take_over(
    tx: sqlite3.Connection, draft_id: DeliveryId, needed: bool
) -> tuple[ChunkId | None, str | None, ChunkState] | None:
    """End a draft in favour of a final: what the final's first chunk inherits (id, edits, state).

    A draft whose message is known is edited. One that may have been sent without our knowing hands
    its own id on, which is its idempotency key, so that looking it up or sending it again finds it.
    """
    row = tx.execute(
        "SELECT c.id, c.state, c.message_ids FROM outbox o JOIN chunks c ON c.delivery_id = o.id"
        " WHERE o.id = ? AND o.state = 'draft' ORDER BY c.number LIMIT 1",
        (draft_id,),
    ).fetchone()
    if row is None:
        return None
    tx.execute("UPDATE outbox SET state = 'dropped' WHERE id = ?", (draft_id,))
    if not needed:
        return None
    known = json.loads(row["message_ids"])
    if known:
        return None, known[-1], ChunkState.READY
    if row["state"] in (ChunkState.SENDING, ChunkState.UNKNOWN):
        tx.execute("DELETE FROM chunks WHERE id = ?", (row["id"],))
        return ChunkId(row["id"]), None, ChunkState.UNKNOWN
    return None


def drop_drafts(tx: sqlite3.Connection, turn_id: TurnId) -> None:
    """No draft outlives its turn."""
    tx.execute("UPDATE outbox SET state = 'dropped' WHERE turn_id = ? AND state = 'draft'", (turn_id,))


def the_chunk(tx: sqlite3.Connection, chunk_id: ChunkId) -> sqlite3.Row:
    """The chunk with the columns of its delivery that matter. Raises NotFound."""
    row: sqlite3.Row | None = tx.execute(
        "SELECT c.*, o.platform, o.account, o.chat, o.state AS delivery_state"
        " FROM chunks c JOIN outbox o ON o.id = c.delivery_id WHERE c.id = ?",
        (chunk_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no chunk {chunk_id}")
    return row


def move(tx: sqlite3.Connection, chunk_id: ChunkId, allowed: Sequence[ChunkState], to: ChunkState) -> sqlite3.Row:
    """Compare-and-set of a chunk's state; returns the chunk as it was. Raises Conflict and NotFound."""
    row = the_chunk(tx, chunk_id)
    if row["state"] not in allowed:
        raise Conflict(f"chunk {chunk_id} is {row['state']}")
    tx.execute("UPDATE chunks SET state = ? WHERE id = ?", (to, chunk_id))
    return row


def record_receipt(tx: sqlite3.Connection, chunk: sqlite3.Row, message_ids: Sequence[str]) -> None:
    """Remember which messages of the platform the chunk has become."""
    tx.execute("UPDATE chunks SET message_ids = ? WHERE id = ?", (json.dumps(list(message_ids)), chunk["id"]))
    tx.executemany(
        "INSERT OR REPLACE INTO receipts (platform, account, message_id, chat, delivery_id) VALUES (?, ?, ?, ?, ?)",
        [
            (chunk["platform"], chunk["account"], message_id, chunk["chat"], chunk["delivery_id"])
            for message_id in message_ids
        ],
    )


def settle_delivery(tx: sqlite3.Connection, delivery_id: DeliveryId) -> None:
    """READY -> SENT when no chunk is open any more and one has arrived; the wait of the last error is over."""
    tx.execute(
        "UPDATE outbox SET not_before = NULL, state = CASE WHEN EXISTS"
        " (SELECT 1 FROM chunks WHERE delivery_id = outbox.id"
        " AND state IN ('ready', 'sending', 'unknown')) THEN state ELSE 'sent' END WHERE id = ? AND state = 'ready'",
        (delivery_id,),
    )


def load(tx: sqlite3.Connection, where: str, values: Sequence[object], limit: int = -1) -> list[StoredDelivery]:
    """Deliveries in order of insertion, each with its chunks."""
    found = tx.execute(f"SELECT * FROM outbox WHERE {where} ORDER BY seq LIMIT ?", (*values, limit)).fetchall()
    return [rows.delivery(row, _chunks(tx, row["id"])) for row in found]


def _chunks(tx: sqlite3.Connection, delivery_id: str) -> list[Chunk]:
    found = tx.execute("SELECT * FROM chunks WHERE delivery_id = ? ORDER BY number", (delivery_id,))
    return [rows.chunk(row) for row in found]
