"""The steps that the transactions of a turn are made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state import rows
from state.errors import Conflict, NotFound
from state.ids import RowId, TurnId
from state.records import ToolStatus, Turn, TurnLease, TurnState


def find_turn(tx: sqlite3.Connection, turn_id: TurnId) -> Turn | None:
    """The turn, or None."""
    row = tx.execute("SELECT * FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return None if row is None else rows.turn(row)


def running_turn(tx: sqlite3.Connection, turn_id: TurnId) -> Turn:
    """The turn. Raises NotFound, and Conflict where it has ended."""
    found = find_turn(tx, turn_id)
    if found is None:
        raise NotFound(f"there is no turn {turn_id}")
    if found.state is not TurnState.RUNNING:
        raise Conflict(f"turn {turn_id} has ended ({found.state})")
    return found


def start_again(tx: sqlite3.Connection, lease: TurnLease) -> Turn:
    """Put the turn and its events under a new lease, count the attempt, and call started calls unknown."""
    running_turn(tx, lease.turn_id)
    tx.execute("UPDATE turns SET fence = ?, attempts = attempts + 1 WHERE id = ?", (lease.fence, lease.turn_id))
    tx.execute(
        "UPDATE inbox SET owner = ?, attempts = attempts + 1 WHERE turn_id = ? AND fate = 'running'",
        (lease.owner, lease.turn_id),
    )
    _move_calls(tx, lease, ToolStatus.STARTED, ToolStatus.UNKNOWN)
    return running_turn(tx, lease.turn_id)


def close_calls(tx: sqlite3.Connection, lease: TurnLease) -> None:
    """At the end of a turn no call stays open: a planned one was never begun, a started one is unknown."""
    _move_calls(tx, lease, ToolStatus.PLANNED, ToolStatus.FAILED)
    _move_calls(tx, lease, ToolStatus.STARTED, ToolStatus.UNKNOWN)


def _move_calls(tx: sqlite3.Connection, lease: TurnLease, before: ToolStatus, after: ToolStatus) -> None:
    tx.execute(
        "UPDATE transcript SET tool_status = ? WHERE session_id = ? AND active = 1 AND turn_id = ? AND tool_status = ?"
        " AND id >= (SELECT first_row FROM turns WHERE id = ?)",
        (after, lease.session_id, lease.turn_id, before, lease.turn_id),
    )


def call_status(tx: sqlite3.Connection, lease: TurnLease, row_id: RowId) -> tuple[ToolStatus, bool]:
    """The status of a call of this turn and whether its result is stored. Conflict where it is none."""
    row = tx.execute(
        "SELECT tool_status, wire IS NOT NULL AS complete FROM transcript"
        " WHERE id = ? AND session_id = ? AND turn_id = ?",
        (row_id, lease.session_id, lease.turn_id),
    ).fetchone()
    if row is None or row["tool_status"] is None:
        raise Conflict(f"row {row_id} is no call of turn {lease.turn_id}")
    return ToolStatus(row["tool_status"]), bool(row["complete"])


def deactivate_rows(tx: sqlite3.Connection, lease: TurnLease, row_ids: Sequence[RowId]) -> None:
    """Take single rows of the session out of the context."""
    tx.executemany(
        "UPDATE transcript SET active = 0 WHERE id = ? AND session_id = ?",
        [(row_id, lease.session_id) for row_id in row_ids],
    )


def free_events(tx: sqlite3.Connection, turn_id: TurnId) -> None:
    """A planned stop is no crash: the attempt that it ends does not count."""
    tx.execute("UPDATE turns SET attempts = max(attempts - 1, 0) WHERE id = ?", (turn_id,))
    tx.execute("UPDATE inbox SET attempts = max(attempts - 1, 0) WHERE turn_id = ? AND fate = 'running'", (turn_id,))
