"""The right to run a turn on a session, across processes."""

from __future__ import annotations

import sqlite3

from state import owners, rows
from state.errors import LeaseHeld, NotFound
from state.ids import Owner, SessionId, TurnId
from state.lease_rows import find, guard, is_live, let_go
from state.records import Turn, TurnLease
from state.repository import Repository


class Leases(Repository):
    """One lease a session. Expiries are in seconds of the boot clock; another boot id means expired."""

    async def acquire(self, session_id: SessionId, turn_id: TurnId, *, ttl: float = 30.0) -> TurnLease:
        """Take the lease, with a fence above every earlier one. LeaseHeld where a live one exists.

        A lease that has expired, is of another boot, or whose owner is provably dead is taken over.
        Raises NotFound where there is no such session.
        """

        def run(tx: sqlite3.Connection) -> TurnLease:
            if tx.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is None:
                raise NotFound(f"there is no session {session_id}")
            boot = self._clock.boot()
            row = find(tx, session_id)
            if row is not None and is_live(row, self._clock):
                raise LeaseHeld(owners.describe(row["owner"]), row["turn_id"], row["expires_at"] - boot)
            fence = 1 if row is None else row["fence"] + 1
            tx.execute(
                "INSERT INTO leases (session_id, turn_id, owner, fence, held, boot_id, acquired_at, expires_at)"
                " VALUES (?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET turn_id = excluded.turn_id,"
                " owner = excluded.owner, fence = excluded.fence, held = 1, boot_id = excluded.boot_id,"
                " acquired_at = excluded.acquired_at, expires_at = excluded.expires_at",
                (session_id, turn_id, self._owner, fence, self._clock.boot_id(), boot, boot + ttl),
            )
            return TurnLease(
                session_id=session_id,
                turn_id=turn_id,
                owner=self._owner,
                fence=fence,
                acquired_at=boot,
                expires_at=boot + ttl,
            )

        return await self._db.write(run)

    async def renew(self, lease: TurnLease, *, ttl: float = 30.0) -> TurnLease:
        """Put the expiry off to `ttl` from now. LeaseLost where it has expired or gone to somebody else."""

        def run(tx: sqlite3.Connection) -> TurnLease:
            guard(tx, lease, self._clock)
            tx.execute(
                "UPDATE leases SET expires_at = ? WHERE session_id = ?", (self._clock.boot() + ttl, lease.session_id)
            )
            row = find(tx, lease.session_id)
            assert row is not None
            return rows.lease(row)

        return await self._db.write(run)

    async def release(self, lease: TurnLease) -> None:
        """Give the lease up. Idempotent; says nothing where it was lost."""
        await self._db.write(lambda tx: let_go(tx, lease))

    async def holder(self, session_id: SessionId) -> TurnLease | None:
        """The live lease of a session, or None."""

        def run(tx: sqlite3.Connection) -> TurnLease | None:
            row = find(tx, session_id)
            return rows.lease(row) if row is not None and is_live(row, self._clock) else None

        return await self._db.read(run)

    async def dead_turns(self, *, exclude_owner: Owner | None = None) -> list[Turn]:
        """RUNNING turns that nobody runs: without a lease of their own, or with one that is not live.

        Turns under a held lease of `exclude_owner` are left out even where it has expired.
        """

        def run(tx: sqlite3.Connection) -> list[Turn]:
            found = []
            for row in tx.execute("SELECT * FROM turns WHERE state = 'running' ORDER BY seq").fetchall():
                lease = find(tx, row["session_id"])
                held = lease is not None and lease["turn_id"] == row["id"] and lease["held"]
                if lease is None or not held or not (lease["owner"] == exclude_owner or is_live(lease, self._clock)):
                    found.append(rows.turn(row))
            return found

        return await self._db.read(run)
