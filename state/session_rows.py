"""Sessions and bindings within a transaction: what several repositories share."""

from __future__ import annotations

import sqlite3

from state import rows
from state.codec import clean
from state.errors import Conflict, NotFound
from state.ids import SessionId, SessionKey, new_session_id
from state.records import Session, SessionBinding


def find_session(tx: sqlite3.Connection, session_id: SessionId) -> Session:
    """The session. Raises NotFound."""
    row = tx.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no session {session_id}")
    return rows.session(row)


def find_binding(tx: sqlite3.Connection, key: SessionKey) -> SessionBinding | None:
    """The binding of a key, or None."""
    row = tx.execute("SELECT * FROM bindings WHERE key = ?", (key,)).fetchone()
    return None if row is None else rows.binding(row)


def the_binding(tx: sqlite3.Connection, key: SessionKey, expect_version: int | None = None) -> SessionBinding:
    """The binding of a key. Raises NotFound, and Conflict where it has another version than expected."""
    found = find_binding(tx, key)
    if found is None:
        raise NotFound(f"the key {key} is not bound")
    if expect_version is not None and found.version != expect_version:
        raise Conflict(f"the binding of {key} has version {found.version}, not {expect_version}")
    return found


def last_row(tx: sqlite3.Connection) -> int:
    """The newest row id of all transcripts: what "newest activity" is counted by, as no clock is."""
    return int(tx.execute("SELECT coalesce(max(id), 0) FROM transcript").fetchone()[0])


def touch(tx: sqlite3.Connection, session_id: SessionId, now: int) -> None:
    """Something has happened in the session just now."""
    tx.execute("UPDATE sessions SET updated_at = ?, activity = ? WHERE id = ?", (now, last_row(tx), session_id))


def make_session(
    tx: sqlite3.Connection,
    now: int,
    *,
    person: str,
    reason: str,
    model: str | None = None,
    title: str | None = None,
    parent: Session | None = None,
    since: int | None = None,
    upto: int | None = None,
) -> Session:
    """Insert a session; with `parent` a child that refers to its rows from `since` up to `upto`."""
    new_id = new_session_id()
    lineage = new_id
    if parent is not None:
        lineage = tx.execute("SELECT lineage FROM sessions WHERE id = ?", (parent.id,)).fetchone()[0]
    tx.execute(
        "INSERT INTO sessions (id, person, title, model, parent_id, parent_from, parent_upto, lineage, reason,"
        " created_at, updated_at, activity) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new_id,
            person,
            None if title is None else clean(title),
            model,
            None if parent is None else parent.id,
            since,
            upto,
            lineage,
            clean(reason),
            now,
            now,
            last_row(tx),
        ),
    )
    return find_session(tx, new_id)


def bind(
    tx: sqlite3.Connection, key: SessionKey, session_id: SessionId, now: int, address_json: str | None
) -> SessionBinding:
    """Make the key lead to the session, whatever it led to; the version grows."""
    tx.execute(
        "INSERT INTO bindings (key, session_id, state, address_json, updated_at) VALUES (?, ?, 'active', ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id, state = 'active', claim_owner = NULL,"
        " claim_boot = NULL, claim_expires = NULL, moved_to = NULL, version = version + 1,"
        " updated_at = excluded.updated_at, address_json = coalesce(?, address_json)",
        (key, session_id, "{}" if address_json is None else clean(address_json), now, address_json),
    )
    return the_binding(tx, key)


def close_others(tx: sqlite3.Connection, session_id: SessionId, key: SessionKey, moved_to: str, now: int) -> None:
    """Every key but `key` that leads to the session is closed."""
    query = "SELECT key FROM bindings WHERE session_id = ? AND state = 'active' AND key <> ?"
    for row in tx.execute(query, (session_id, key)).fetchall():
        close(tx, row["key"], moved_to, now)


def close(tx: sqlite3.Connection, key: SessionKey, moved_to: str, now: int) -> None:
    """The session of the key has moved away; the row remembers which it was."""
    tx.execute(
        "UPDATE bindings SET state = 'closed', moved_to = ?, version = version + 1, updated_at = ? WHERE key = ?",
        (clean(moved_to), now, key),
    )
