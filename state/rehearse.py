"""What a new version can be tried on without touching anything: recorded events and answers, and the migrations that
it would apply, on a copy of the schema in memory."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from state import rows
from state.codec import unpack
from state.errors import StateError
from state.failures import translate
from state.migrate import available, run_script, version
from state.records import InboxEvent

EVENTS = 200
ANSWERS = 50
SESSIONS = 20
_SHADOWS = ("_data", "_idx", "_content", "_docsize", "_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The newest of everything. `answers` are (platform, blocks), `prompts` frozen prompts, `wires` what was sent."""

    events: Sequence[InboxEvent]
    answers: Sequence[tuple[str, str]]
    prompts: Sequence[str]
    wires: Sequence[str]


def recorded(path: Path) -> Recorded:
    """Read them. Blocking; changes nothing. Raises a `StateError`."""
    with _reading(path) as db:
        events = [rows.event(row) for row in db.execute("SELECT * FROM inbox ORDER BY id DESC LIMIT ?", (EVENTS,))]
        answers = [
            (str(row["platform"]), unpack(row["blocks"]) or "")
            for row in db.execute("SELECT platform, blocks FROM outbox ORDER BY seq DESC LIMIT ?", (ANSWERS,))
        ]
        prompts = [
            unpack(row["prompt"]) or ""
            for row in db.execute(
                "SELECT prompt FROM sessions WHERE prompt IS NOT NULL ORDER BY seq DESC LIMIT ?", (SESSIONS,)
            )
        ]
        wires = [
            rows.message(row).wire or ""
            for row in db.execute(
                "SELECT * FROM transcript WHERE wire IS NOT NULL ORDER BY id DESC LIMIT ?", (EVENTS,)
            )
        ]
    return Recorded(events=events, answers=answers, prompts=prompts, wires=wires)


def migration_faults(path: Path) -> list[str]:
    """Why the previous version could not go on beside, or after, the migrations that this one would apply. Empty
    where it can: they only add. Blocking; changes nothing. Raises a `StateError`."""
    with _reading(path) as db:
        found = version(db)
        pending = available()[found:] if found else []
        if not pending:
            return []
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            for (sql,) in db.execute(
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
                " ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'view' THEN 1 ELSE 2 END, rowid"
            ).fetchall():
                if not _is_shadow(sql):
                    copy.execute(sql)
            before = _shape(copy)
            try:
                for _, text in pending:
                    run_script(copy, text)
            except sqlite3.Error as error:
                return [f"a migration fails: {error}"]
            return _losses(before, _shape(copy))


def _is_shadow(sql: str) -> bool:
    """Tables that an FTS table makes for itself."""
    head = sql.split("(", 1)[0].replace("'", "").replace('"', "").split()
    return len(head) == 3 and head[1].upper() == "TABLE" and head[2].endswith(_SHADOWS)


_Column = tuple[str, bool, bool, bool]


def _shape(db: sqlite3.Connection) -> dict[str, dict[str, _Column]]:
    """The tables and views with their columns: type, must be given, has a default, is of the key."""
    found: dict[str, dict[str, _Column]] = {}
    names = db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    for (name,) in names:
        found[name] = {
            str(row[1]): (str(row[2]), bool(row[3]), row[4] is not None, bool(row[5]))
            for row in db.execute("SELECT * FROM pragma_table_info(?)", (name,))
        }
    return found


def _losses(before: dict[str, dict[str, _Column]], after: dict[str, dict[str, _Column]]) -> list[str]:
    faults = []
    for table, columns in before.items():
        if table not in after:
            faults.append(f"the table {table} is gone")
            continue
        faults += [f"the column {table}.{name} is gone" for name in columns if name not in after[table]]
        for name, (kind, must, default, key) in after[table].items():
            if name not in columns and (must or key) and not default:
                faults.append(f"the column {table}.{name} must be given, and the previous version does not know it")
            elif name in columns and (kind, must, key) != (columns[name][0], columns[name][1], columns[name][3]):
                faults.append(f"the column {table}.{name} is another one")
    return faults


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA query_only=1")
            yield db
    except sqlite3.Error as error:
        raise translate(error, path) from error


__all__ = ["Recorded", "StateError", "migration_faults", "recorded"]
