"""A backup in the place of the database. What was open when it was made is ended: its messages were answered since,
or their time is over, and nothing may be said or done a second time because of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from state import connections, migrate
from state.clock import SYSTEM, Clock
from state.codec import to_micros
from state.errors import StateError, StoreCorrupt, StoreUnusable
from state.failures import translate

ENDED = "it was open in a backup that was restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What is in the database now. `ended` counts messages that were open in the backup."""

    sessions: int
    messages: int
    ended: int
    version: int


def restore(source: Path, target: Path, *, kept: Path | None, clock: Clock = SYSTEM) -> Restored:
    """Put the backup `source` in the place of the database `target`, in one transaction of it: whoever has it open
    sees the one or the other. Blocking. No daemon may run over it.

    The backup is copied, looked through, migrated and ended first; only then the database is copied to `kept` (None:
    it is not kept) and replaced. Raises a `StateError`, and nothing has changed: StoreCorrupt for a damaged file or one
    that is no database of ours, StoreTooNew, StoreFull, StoreBusy, StoreUnusable.
    """
    draft = target.with_name(f".restore-{secrets.token_hex(4)}.db")
    try:
        connections.prepare_folder(target)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as made:
            made.row_factory = sqlite3.Row
            found = _prepared(source, made, clock)
            if kept is not None and not _keep(target, kept):
                connections.prepare_folder(target)
            with contextlib.closing(connections.connect(target, sqlite3.Connection)) as database:
                made.backup(database, pages=-1)
    except (OSError, sqlite3.Error) as error:
        raise translate(error, source) from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()
    return found


def _prepared(source: Path, made: sqlite3.Connection, clock: Clock) -> Restored:
    if not source.is_file():
        raise StoreUnusable(f"there is no file {source}")
    with contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as backup:
        backup.backup(made)
    findings = [str(row[0]) for row in made.execute("PRAGMA integrity_check(3)")]
    if findings != ["ok"]:
        raise StoreCorrupt(f"{source} is damaged: {findings[0]}")
    if made.execute("SELECT 1 FROM sqlite_master WHERE name = 'transcript'").fetchone() is None:
        raise StoreCorrupt(f"{source} is no database of Tidings")
    version = migrate.migrate(made)
    ended = _end(made, to_micros(clock.utc()))
    made.execute("PRAGMA journal_mode = WAL")

    def count(table: str) -> int:
        return int(made.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    return Restored(sessions=count("sessions"), messages=count("transcript"), ended=ended, version=version)


def _end(db: sqlite3.Connection, now: int) -> int:
    """End what is open. How many messages that were."""
    db.execute("BEGIN IMMEDIATE")
    ended = db.execute(
        "UPDATE inbox SET fate = 'cancelled', detail = ?, settled_at = ? WHERE fate IN ('waiting', 'running')",
        (ENDED, now),
    ).rowcount
    db.execute(
        "UPDATE turns SET state = 'interrupted', detail = ?, ended_at = ? WHERE state = 'running'", (ENDED, now)
    )
    db.execute("UPDATE leases SET held = 0")
    db.execute("UPDATE chunks SET state = 'dropped' WHERE state IN ('ready', 'sending', 'unknown')")
    db.execute("UPDATE outbox SET state = 'dropped' WHERE state IN ('ready', 'draft', 'parked')")
    db.execute("UPDATE approvals SET state = 'cancelled' WHERE state = 'pending'")
    db.execute(
        "UPDATE handoffs SET state = 'failed', reason = ?, ended_at = ? WHERE state IN ('pending', 'running')",
        (ENDED, now),
    )
    # from a cursor of then everything since would be fetched and answered again
    for table in ("cursors", "processes", "pairing_codes"):
        db.execute(f"DELETE FROM {table}")
    db.execute("COMMIT")
    return ended


def _keep(target: Path, kept: Path) -> bool:
    """Copy the database. False where it is damaged: then it was moved away as it is, and nothing is in its place."""
    os.close(os.open(kept, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        with (
            contextlib.closing(connections.connect(target, sqlite3.Connection)) as database,
            contextlib.closing(sqlite3.connect(kept)) as copy,
        ):
            database.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as error:
        if not isinstance(translate(error, target), StoreCorrupt):
            raise
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                target.with_name(target.name + suffix).replace(kept.with_name(kept.name + suffix))
        return False
    return True


__all__ = ["ENDED", "Restored", "StateError", "restore"]
