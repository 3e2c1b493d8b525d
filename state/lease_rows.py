"""Leases within a transaction: the check that every write of a turn carries."""

from __future__ import annotations

import sqlite3

from state import owners
from state.clock import Clock
from state.errors import Conflict, LeaseLost
from state.ids import SessionId
from state.records import TurnLease


def is_live(row: sqlite3.Row, clock: Clock) -> bool:
    """True where the lease is held, unexpired, of this boot, and not of a provably dead owner."""
    return (
        bool(row["held"])
        and row["boot_id"] == clock.boot_id()
        and row["expires_at"] > clock.boot()
        and owners.is_alive(row["owner"]) is not False
    )


def find(tx: sqlite3.Connection, session_id: SessionId) -> sqlite3.Row | None:
    """The lease row of a session, live or not."""
    row: sqlite3.Row | None = tx.execute("SELECT * FROM leases WHERE session_id = ?", (session_id,)).fetchone()
    return row


def guard(tx: sqlite3.Connection, lease: TurnLease, clock: Clock) -> None:
    """Raise LeaseLost unless `lease` is still the session's. Runs in the transaction that it guards.

    An expired lease counts as lost although nobody has taken it yet: somebody may be about to.
    """
    row = find(tx, lease.session_id)
    if row is None or not row["held"]:
        raise LeaseLost(f"the lease on {lease.session_id} was given up")
    if (row["fence"], row["turn_id"], row["owner"]) != (lease.fence, lease.turn_id, lease.owner):
        raise LeaseLost(f"the lease on {lease.session_id} went to {row['owner']} (turn {row['turn_id']})")
    if row["boot_id"] != clock.boot_id() or row["expires_at"] <= clock.boot():
        raise LeaseLost(f"the lease on {lease.session_id} has expired")


def refuse_leased(tx: sqlite3.Connection, session_id: SessionId, clock: Clock) -> None:
    """Raise Conflict where a turn runs on the session."""
    row = find(tx, session_id)
    if row is not None and is_live(row, clock):
        raise Conflict(f"turn {row['turn_id']} runs on session {session_id}")


def let_go(tx: sqlite3.Connection, lease: TurnLease) -> None:
    """Give the lease up; nothing happens where it was lost. The fence stays and goes on growing."""
    tx.execute(
        "UPDATE leases SET held = 0 WHERE session_id = ? AND turn_id = ? AND owner = ? AND fence = ?",
        (lease.session_id, lease.turn_id, lease.owner, lease.fence),
    )
