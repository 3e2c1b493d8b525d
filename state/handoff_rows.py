"""Hand-offs within a transaction: which of them still count."""

from __future__ import annotations

import sqlite3

from state import owners
from state.clock import Clock
from state.ids import HandoffId, Owner, SessionId


def is_valid(row: sqlite3.Row, clock: Clock) -> bool:
    """Whether the claim, or where nobody has claimed it the request, has not expired."""
    if row["claim_boot"] is None or row["claim_expires"] is None:
        return False
    return bool(row["claim_boot"] == clock.boot_id() and row["claim_expires"] > clock.boot())


def end_dead(
    tx: sqlite3.Connection,
    clock: Clock,
    now: int,
    *,
    session_id: SessionId | None = None,
    handoff_id: HandoffId | None = None,
) -> list[HandoffId]:
    """Open hand-offs (all; of a session; one) that nobody carries out any more become FAILED; which these are."""
    over = []
    query = (
        "SELECT * FROM handoffs WHERE state IN ('pending', 'running')"
        " AND (?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR id = ?2) ORDER BY seq"
    )
    for row in tx.execute(query, (session_id, handoff_id)).fetchall():
        claimed = row["state"] == "running"
        if is_valid(row, clock) and not (claimed and owners.is_alive(Owner(row["owner"])) is False):
            continue
        reason = "the claim expired" if claimed else "nobody took it in time"
        tx.execute(
            "UPDATE handoffs SET state = 'failed', reason = ?, ended_at = ? WHERE id = ?", (reason, now, row["id"])
        )
        over.append(HandoffId(row["id"]))
    return over
