"""Transcript rows within a transaction. Order is the row id, always; no query here reads the clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from state import rows
from state.clock import Clock
from state.codec import clean, dump_calls, pack
from state.errors import NotFound
from state.ids import RowId, SessionId, TurnId
from state.lease_rows import refuse_leased
from state.records import NewMessage, TranscriptMessage

_INSERT = (
    "INSERT INTO transcript (session_id, turn_id, fence, role, content, wire, tool_calls, tool_call_id, tool_name,"
    " tool_status, reasoning, finish_reason, platform_message_id, author, audience, extract, created_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def insert(
    tx: sqlite3.Connection, session_id: SessionId, turn_id: TurnId, fence: int, new: Sequence[NewMessage], now: int
) -> list[RowId]:
    """Add rows at the end of the session, in the order given."""
    made = []
    for one in new:
        content = clean(one.content)
        calls = dump_calls(one.tool_calls)
        calls = None if calls is None else clean(calls)
        reasoning = None if one.reasoning is None else clean(one.reasoning)
        cursor = tx.execute(
            _INSERT,
            (
                session_id,
                turn_id,
                fence,
                one.role,
                content,
                pack(one.wire, reasoning, calls, content),
                calls,
                one.tool_call_id,
                one.tool_name,
                one.tool_status,
                reasoning,
                one.finish_reason,
                one.platform_message_id,
                one.author,
                one.audience,
                None if one.extract is None else clean(one.extract),
                now,
            ),
        )
        made.append(RowId(cursor.lastrowid or 0))
    return made


def set_result(
    tx: sqlite3.Connection, row_id: RowId, status: str, *, content: str, wire: str | None, extract: str | None
) -> None:
    """Complete a tool row. Its wire form is packed anew, because the content is its dictionary."""
    row = tx.execute("SELECT reasoning, tool_calls FROM transcript WHERE id = ?", (row_id,)).fetchone()
    stored = clean(content)
    tx.execute(
        "UPDATE transcript SET tool_status = ?, content = ?, wire = ?, extract = ? WHERE id = ?",
        (
            status,
            stored,
            pack(wire, row["reasoning"], row["tool_calls"], stored),
            None if extract is None else clean(extract),
            row_id,
        ),
    )


def of_turn(tx: sqlite3.Connection, turn_id: TurnId, *, inactive: bool = False) -> list[TranscriptMessage]:
    """The rows of a turn in order; the inactive ones too where asked."""
    turn = tx.execute("SELECT session_id, first_row FROM turns WHERE id = ?", (turn_id,)).fetchone()
    if turn is None:
        return []
    found: list[TranscriptMessage] = []
    for active in (1, 0) if inactive else (1,):
        # Two queries, as each has an index of its own; `first_row` spares the rows before the turn.
        found.extend(
            rows.message(row)
            for row in tx.execute(
                f"SELECT * FROM transcript WHERE session_id = ? AND active = {active} AND id >= ? AND turn_id = ?"
                " ORDER BY id",
                (turn["session_id"], turn["first_row"], turn_id),
            )
        )
    found.sort(key=lambda message: message.id)
    return found


def segments(tx: sqlite3.Connection, session_id: SessionId) -> list[tuple[SessionId, int, int]]:
    """The session and its ancestors, the root first, each with the first and last row id that it lends."""
    first, last = 0, 2**62
    found: list[tuple[SessionId, int, int]] = []
    current: SessionId | None = session_id
    seen: set[str] = set()
    while current is not None and current not in seen:
        seen.add(current)
        row = tx.execute("SELECT parent_id, parent_from, parent_upto FROM sessions WHERE id = ?", (current,)).fetchone()
        if row is None:
            if not found:
                raise NotFound(f"there is no session {session_id}")
            break
        found.append((current, first, last))
        first = max(first, row["parent_from"] or 0)
        last = min(last, row["parent_upto"] if row["parent_upto"] is not None else last)
        current = row["parent_id"]
    found.reverse()
    return found


def replay(tx: sqlite3.Connection, session_id: SessionId) -> Iterator[sqlite3.Row]:
    """The active rows of a session in replay order, those of its ancestors first."""
    for owner, first, last in segments(tx, session_id):
        yield from tx.execute(
            "SELECT * FROM transcript WHERE session_id = ? AND active = 1 AND id BETWEEN ? AND ? ORDER BY id",
            (owner, first, last),
        )


def deactivate_turn(tx: sqlite3.Connection, session_id: SessionId, turn_id: TurnId, clock: Clock) -> int:
    """Take a turn out of the context; returns how many rows. Conflict where a turn runs on the session."""
    refuse_leased(tx, session_id, clock)
    turn = tx.execute("SELECT first_row FROM turns WHERE id = ? AND session_id = ?", (turn_id, session_id)).fetchone()
    if turn is None:
        return 0
    return tx.execute(
        "UPDATE transcript SET active = 0 WHERE session_id = ? AND active = 1 AND id >= ? AND turn_id = ?",
        (session_id, turn["first_row"], turn_id),
    ).rowcount
