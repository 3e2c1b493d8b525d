"""What the memory inside the daemon holds. The texts are found by their vectors, which are ranked outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from state.codec import clean, flag, marks
from state.ids import SessionId
from state.repository import Repository

MOST = 50_000
"""Vectors that one recall looks at: the newest. They are 75 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLocalMemory:
    """A text to be kept. The same key at the same place is the same text."""

    place: str
    key: str
    session_id: SessionId
    text: str
    space: str
    vector: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVector:
    """The vector of a text."""

    id: int
    vector: bytes


class LocalMemories(Repository):
    """One row a text."""

    async def add(self, new: NewLocalMemory) -> bool:
        """Keep a text, on the disk on return; False where it is kept already."""
        values = (new.place, new.key, new.session_id, clean(new.text), new.space, new.vector, self._now())

        def run(tx: sqlite3.Connection) -> bool:
            return flag(
                tx.execute(
                    "INSERT OR IGNORE INTO local_memories"
                    " (place, idem, session_id, text, space, vector, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    values,
                )
            )

        return await self._db.write(run, full=True)

    async def vectors(self, places: Sequence[str], space: str) -> list[LocalVector]:
        """The newest vectors of these places, in one space."""

        def run(tx: sqlite3.Connection) -> list[LocalVector]:
            rows = tx.execute(
                f"SELECT id, vector FROM local_memories WHERE place IN ({marks(len(places))}) AND space = ?"
                " ORDER BY id DESC LIMIT ?",
                (*places, space, MOST),
            )
            return [LocalVector(id=row["id"], vector=row["vector"]) for row in rows]

        return await self._db.read(run)

    async def texts(self, ids: Sequence[int]) -> list[str]:
        """The texts of these rows, in this order; those that are gone are left out."""

        def run(tx: sqlite3.Connection) -> list[str]:
            found = dict(
                tx.execute(
                    f"SELECT id, text FROM local_memories WHERE id IN ({marks(len(ids))})", tuple(ids)
                ).fetchall()
            )
            return [found[one] for one in ids if one in found]

        return await self._db.read(run)

    async def forget_session(self, session_id: SessionId) -> int:
        """Forget what was said in a session; how many texts that were."""
        return await self._db.write(
            lambda tx: tx.execute("DELETE FROM local_memories WHERE session_id = ?", (session_id,)).rowcount, full=True
        )
