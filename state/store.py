"""The store: one facade over the repositories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from state.approvals import Approvals
from state.clock import SYSTEM, Clock
from state.handoffs import Handoffs
from state.holds import Holds
from state.inbox import Inbox
from state.errors import StoreClosed
from state.database import Database
from state.ids import Owner
from state.leases import Leases
from state.outbox import Outbox
from state.processes import Processes
from state.search import Search
from state.sessions import Sessions
from state.transcript import Transcript
from state.turns import Turns
from state.usage import Usage


class Store:
    """The repositories over one database file. Every method may raise a `StateError`."""

    def __init__(self, db: Database, path: Path, owner: Owner, clock: Clock) -> None:
        self._db = db
        self.path = path
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

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, owner: Owner, readers: int = 2, clock: Clock = SYSTEM
    ) -> AsyncIterator[Store]:
        """Open (and make or migrate) the database at `path`; close it with a final checkpoint."""
        yield cls(Database(), path, owner, clock)

    @property
    def journal_mode(self) -> str:
        """The effective journal mode: "wal", or "delete" where the file system cannot do WAL."""
        return "wal"

    async def check(self) -> list[str]:
        """The findings of an integrity check; empty when the file is sound."""
        raise StoreClosed

    async def checkpoint(self) -> None:
        """Move the WAL into the database as far as no reader is in the way."""
        raise StoreClosed

    async def backup(self, target: Path) -> None:
        """Copy the database, consistent while others write, to `target` (made anew, mode 0600)."""
        raise StoreClosed

    async def prune(self, *, older_than: timedelta) -> int:
        """Drop bulky payloads of what ended longer ago; identities and fates stay."""
        raise StoreClosed
