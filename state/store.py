"""The store: one facade over the repositories."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from state.approvals import Approvals
from state.clock import SYSTEM, Clock
from state.codec import to_micros, unpack
from state.database import Database, open_database
from state.directory import Directory
from state.errors import StoreUnusable
from state.failures import translate
from state.handoffs import Handoffs
from state.holds import Holds
from state.ids import Owner
from state.inbox import Inbox
from state.leases import Leases
from state.local_memories import LocalMemories
from state.memory_outbox import MemoryOutbox
from state.outbox import Outbox
from state.pairings import Pairings
from state.places import Places
from state.processes import Processes
from state.search import Search
from state.sessions import Sessions
from state.transcript import Transcript
from state.turns import Turns
from state.usage import Usage

KEPT_AT_LEAST = timedelta(days=7)
"""Nothing younger is ever pruned: platforms tell again what is days old."""


class Store:
    """The repositories over one database file. Every method may raise a `StateError`."""

    def __init__(self, db: Database, owner: Owner, clock: Clock) -> None:
        self._db = db
        self.path = db.path
        self.owner = owner
        self.clock = clock
        self.inbox = Inbox(db, clock, owner)
        self.sessions = Sessions(db, clock, owner)
        self.transcript = Transcript(db, clock, owner)
        self.leases = Leases(db, clock, owner)
        self.turns = Turns(db, clock, owner)
        self.outbox = Outbox(db, clock, owner)
        self.approvals = Approvals(db, clock, owner)
        self.handoffs = Handoffs(db, clock, owner)
        self.search = Search(db, clock, owner)
        self.usage = Usage(db, clock, owner)
        self.processes = Processes(db, clock, owner)
        self.holds = Holds(db, clock, owner)
        self.places = Places(db, clock, owner)
        self.pairings = Pairings(db, clock, owner)
        self.directory = Directory(db, clock, owner)
        self.memory_outbox = MemoryOutbox(db, clock, owner)
        self.local_memories = LocalMemories(db, clock, owner)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, owner: Owner, readers: int = 2, clock: Clock = SYSTEM) -> AsyncIterator[Store]:
        """Open (and make or migrate) the database at `path`; close it with a final checkpoint.

        Raises StoreTooNew, StoreCorrupt, StoreFull, StoreBusy or StoreUnusable.
        """
        async with open_database(path, readers=readers) as db:
            yield cls(db, owner, clock)

    def measure(self, timed: Callable[[float], None]) -> None:
        """Tell `timed` the seconds of each committed write, from its call on. It must not block or raise."""
        self._db.timed = timed

    @property
    def journal_mode(self) -> str:
        """The effective journal mode: "wal", or "delete" where the file system cannot do WAL."""
        return self._db.journal_mode

    async def check(self) -> list[str]:
        """The findings of an integrity check; empty when the file is sound. Reads the whole file."""

        def run(tx: sqlite3.Connection) -> list[str]:
            found = [str(row[0]) for row in tx.execute("PRAGMA integrity_check(100)")]
            broken = [
                f"{row[0]} row {row[1]} refers to nothing in {row[2]}" for row in tx.execute("PRAGMA foreign_key_check")
            ]
            return [line for line in found if line != "ok"] + broken

        return await self._db.read(run)

    async def checkpoint(self) -> None:
        """Move the WAL into the database as far as no reader is in the way."""
        await self._db.checkpoint()

    async def backup(self, target: Path) -> None:
        """Copy the database, consistent while others write, to `target` (mode 0600, replaced at the end only).

        Raises StoreUnusable where `target` is the database itself or cannot be written, and StoreFull.
        """
        if await asyncio.to_thread(_same_file, self.path, target):
            raise StoreUnusable(f"{target} is the database itself")
        await self._db.read(lambda tx: _copy(tx, target))

    async def prune(self, *, older_than: timedelta) -> int:
        """Delete events and deliveries that ended before that (seven days at least); returns how many.

        The transcripts stay. Small steps, so that nobody waits long behind one.
        """
        before = to_micros(self.clock.utc() - max(older_than, KEPT_AT_LEAST))
        # the oldest rows only are looked at in each step: nothing scans, and what is open among them stays
        statements = (
            "DELETE FROM inbox WHERE id IN (SELECT id FROM (SELECT id, settled_at FROM inbox ORDER BY id LIMIT 1000)"
            " WHERE settled_at < ?)",
            "DELETE FROM outbox WHERE seq IN (SELECT seq FROM (SELECT seq, created_at, state FROM outbox ORDER BY seq"
            " LIMIT 1000) WHERE created_at < ? AND state IN ('sent', 'failed', 'dropped'))",
        )
        total = 0
        for statement in statements:
            gone = -1
            while gone:
                gone = await self._db.write(lambda tx, text=statement: tx.execute(text, (before,)).rowcount)  # type: ignore[misc]
                total += gone
        return total

    async def open_texts(self) -> str:
        """Everything that waits (open events, deliveries that are not out), as one text: what is not named in it, no
        one will want any more."""

        def run(tx: sqlite3.Connection) -> str:
            events = tx.execute("SELECT payload FROM inbox WHERE fate IN ('waiting', 'running')")
            texts = [str(row[0]) for row in events]
            blocks = tx.execute("SELECT blocks FROM outbox WHERE state IN ('ready', 'draft', 'parked')")
            texts += [unpack(row[0]) or "" for row in blocks]
            return "\n".join(texts)

        return await self._db.read(run)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False


def _copy(source: sqlite3.Connection, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    try:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(partial)) as copy:
            source.backup(copy, pages=1024)
            copy.execute("PRAGMA journal_mode=DELETE")
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(target)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise translate(error, target) from error
