"""Numbered migrations, forward only. `PRAGMA user_version` is the number of the last one applied.

An empty database is made from schema.sql, which is the sum of all migrations (a test compares them).
"""

from __future__ import annotations

import re
import sqlite3
from importlib import resources

from state.errors import StoreCorrupt, StoreTooNew, StoreUnusable

_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")


def available() -> list[tuple[int, str]]:
    """The migrations in order, as (number, SQL). Numbers start at 1 and leave no gap."""
    found = []
    for entry in (resources.files("state") / "migrations").iterdir():
        match = _NAME.match(entry.name)
        if match:
            found.append((int(match[1]), entry.read_text(encoding="utf-8")))
    found.sort()
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise StoreUnusable("the migrations of this installation are incomplete; install Tidings again")
    return found


def schema() -> str:
    """The whole schema as SQL."""
    return (resources.files("state") / "schema.sql").read_text(encoding="utf-8")


def version(connection: sqlite3.Connection) -> int:
    """The number of the last migration in the database; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the database up to date in one transaction and return its version.

    A newer database is left as it is. Raises StoreTooNew where this program may not use it (`compatibility`), and
    a sqlite3 error where the lock is not free.
    """
    newest = len(available())
    found = version(connection)
    if found == newest or _is_newer(connection, found, newest):
        return found
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have migrated it meanwhile.
        found = version(connection)
        if _is_newer(connection, found, newest):
            connection.execute("ROLLBACK")
            return found
        if found == 0:
            _refuse_foreign(connection)
            run_script(connection, schema())
        else:
            for number, text in available()[found:]:
                run_script(connection, text)
                connection.execute(f"PRAGMA user_version={number}")
        connection.execute(f"PRAGMA user_version={newest}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return newest


def run_script(connection: sqlite3.Connection, text: str) -> None:
    """Run each statement in the open transaction (`executescript` would commit it first)."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    if statement.strip():
        connection.execute(statement)


def _refuse_foreign(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
        raise StoreCorrupt("the database holds tables that are not ours")


def _is_newer(connection: sqlite3.Connection, found: int, newest: int) -> bool:
    """True for a database of a newer program that says that this one may use it, too: its migrations only add.

    Raises StoreTooNew where it may not.
    """
    if found <= newest:
        return False
    try:
        row = connection.execute("SELECT usable_from FROM compatibility").fetchone()
    except sqlite3.OperationalError:
        row = None
    if row is None or int(row[0]) > newest:
        raise StoreTooNew(f"the database has version {found}; this program knows versions up to {newest}")
    return True
