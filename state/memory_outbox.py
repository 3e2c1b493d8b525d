"""What an external memory has still to be told: durable, in order, at least once.

A row is written in the transaction that ends what it tells of. Its text is read when it is sent, so that what was
undone or forgotten meanwhile is not told any more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state import owners
from state.audience import PUBLIC
from state.codec import clean, flag, from_micros
from state.handoff_rows import is_valid
from state.ids import Owner, SessionId, TurnId
from state.repository import Repository

MOST = 10_000
"""Rows that may wait for one provider; what is more is not taken, and told."""
CLAIM = 120.0
"""Seconds of the boot clock after which a claim is over: longer than any single try takes."""


class WriteKind(StrEnum):
    """What a row tells of."""

    TURN = "turn"
    """A turn that was answered; its texts are in the transcript."""
    MEMORY = "memory"
    """A write to the built-in memory, or a fact that the model wants kept."""
    DELEGATION = "delegation"
    """A task that was given to a subagent, and its result."""
    SESSION_END = "session_end"
    """A session is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemoryWrite:
    """Something to be told. `key` is its identity: the same key twice is one row. `label` is the audience."""

    provider: str
    key: str
    kind: WriteKind
    session_id: SessionId
    label: str
    turn_id: TurnId | None = None
    payload: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWrite:
    """A row that was claimed. `attempts` counts the tries before this one."""

    id: int
    provider: str
    key: str
    kind: WriteKind
    session_id: SessionId
    turn_id: TurnId | None
    label: str
    payload: Mapping[str, str]
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The words of a turn: what people said, and the answer."""

    said: str
    answered: str


def insert(tx: sqlite3.Connection, new: NewMemoryWrite, now: int) -> bool:
    """Add the row; False where it is there already, or too many wait."""
    waiting = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM memory_outbox WHERE provider = ? AND state = 'waiting' LIMIT ?)",
        (new.provider, MOST),
    ).fetchone()[0]
    if waiting >= MOST:
        return False
    payload = json.dumps(dict(new.payload or {}), ensure_ascii=False, separators=(",", ":"))
    return flag(
        tx.execute(
            "INSERT OR IGNORE INTO memory_outbox"
            " (provider, idem, kind, session_id, turn_id, label, payload, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (new.provider, new.key, new.kind, new.session_id, new.turn_id, new.label, clean(payload), now),
        )
    )


class MemoryOutbox(Repository):
    """The rows of all providers. One row of a provider is claimed at a time, the oldest: that keeps the order."""

    async def add(self, new: NewMemoryWrite) -> bool:
        """Add a row by itself, on the disk on return; False where it is there already, or too many wait."""
        now = self._now()
        return await self._db.write(lambda tx: insert(tx, new, now), full=True)

    async def claim(self, provider: str) -> MemoryWrite | None:
        """The oldest waiting row, for this process until the claim ends; None where there is none, or another
        process has it."""

        def run(tx: sqlite3.Connection) -> MemoryWrite | None:
            row = tx.execute(
                "SELECT * FROM memory_outbox WHERE provider = ? AND state = 'waiting' ORDER BY id LIMIT 1", (provider,)
            ).fetchone()
            if row is None or self._is_held(row):
                return None
            tx.execute(
                "UPDATE memory_outbox SET owner = ?, claim_boot = ?, claim_expires = ?, attempts = attempts + 1"
                " WHERE id = ?",
                (self._owner, self._clock.boot_id(), self._clock.boot() + CLAIM, row["id"]),
            )
            return _write(row)

        return await self._db.write(run)

    def _is_held(self, row: sqlite3.Row) -> bool:
        """Another process has it, which is not provably dead."""
        if row["owner"] in (None, self._owner) or not is_valid(row, self._clock):
            return False
        return owners.is_alive(Owner(row["owner"])) is not False

    async def done(self, write: MemoryWrite) -> None:
        """It has arrived, or there is nothing to be told any more."""
        await self._end(write, "DELETE FROM memory_outbox WHERE id = ?1 AND owner = ?2 AND ?3 = ?3", "")

    async def put_back(self, write: MemoryWrite, detail: str) -> None:
        """It is to be tried again; it stays the oldest."""
        text = "UPDATE memory_outbox SET owner = NULL, claim_boot = NULL, detail = ?3 WHERE id = ?1 AND owner = ?2"
        await self._end(write, text, detail)

    async def refuse(self, write: MemoryWrite, detail: str) -> None:
        """The provider does not take it: it is kept for people to look at, and is in nobody's way."""
        text = "UPDATE memory_outbox SET state = 'refused', owner = NULL, detail = ?3 WHERE id = ?1 AND owner = ?2"
        await self._end(write, text, detail)

    async def _end(self, write: MemoryWrite, text: str, detail: str) -> None:
        """A claim that was lost meanwhile changes nothing."""
        values = (write.id, self._owner, clean(detail)[:300])
        await self._db.write(lambda tx: tx.execute(text, values), full=True)

    async def counts(self, provider: str) -> tuple[int, int]:
        """How many rows wait, and how many were refused."""

        def run(tx: sqlite3.Connection) -> tuple[int, int]:
            found = dict(
                tx.execute("SELECT state, count(*) FROM memory_outbox WHERE provider = ? GROUP BY state", (provider,))
                .fetchall()
            )  # fmt: skip
            return int(found.get("waiting", 0)), int(found.get("refused", 0))

        return await self._db.read(run)

    async def exchange(self, session_id: SessionId, turn_id: TurnId, label: str) -> Exchange | None:
        """The words of a turn that are still in the context; None where they are not, or where a row of it says
        that its audience is another than `label`."""

        def run(tx: sqlite3.Connection) -> Exchange | None:
            rows = tx.execute(
                "SELECT role, content, audience FROM transcript WHERE session_id = ?1 AND active = 1 AND turn_id = ?2"
                " AND id >= (SELECT first_row FROM turns WHERE id = ?2)"
                " AND role IN ('user', 'assistant') AND content != '' ORDER BY id",
                (session_id, turn_id),
            ).fetchall()
            if any(row["audience"] not in (None, label, PUBLIC) for row in rows):
                return None
            said = [row["content"] for row in rows if row["role"] == "user"]
            answers = [row["content"] for row in rows if row["role"] == "assistant"]
            return Exchange(said="\n".join(said), answered=answers[-1]) if said and answers else None

        return await self._db.read(run)

    async def drop_session(self, session_id: SessionId) -> int:
        """What is still to be told of a session is not told any more; how many rows that were."""
        return await self._db.write(
            lambda tx: tx.execute("DELETE FROM memory_outbox WHERE session_id = ?", (session_id,)).rowcount, full=True
        )


def _write(row: sqlite3.Row) -> MemoryWrite:
    return MemoryWrite(
        id=row["id"],
        provider=row["provider"],
        key=row["idem"],
        kind=WriteKind(row["kind"]),
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        label=row["label"],
        payload=json.loads(row["payload"]),
        attempts=row["attempts"],
        created_at=from_micros(row["created_at"]),
    )
