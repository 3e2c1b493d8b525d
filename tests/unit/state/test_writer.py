"""The writer thread under pressure: bounds, the WAL's size, forward migrations."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from state import connections, migrate, writer
from state.database import open_database
from state.errors import Conflict, StoreBusy, StoreCorrupt


async def test_the_wal_stays_bounded_while_writes_never_pause(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_CHECKPOINT_BUSY", 400_000)
    monkeypatch.setattr(connections, "WAL_KEPT", 200_000)
    wal = path.with_name(path.name + "-wal")
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))
        worst = 0
        for _ in range(400):
            await db.write(lambda tx: tx.execute("INSERT INTO t VALUES (zeroblob(9000))"))
            worst = max(worst, wal.stat().st_size)
    assert worst < 1_500_000, "3.6 MB were written; the WAL must have started over"


async def test_a_lock_that_never_ends_is_told_within_the_bound(path: Path) -> None:
    async with open_database(path, busy_bound=0.2) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))
        foreign = sqlite3.connect(path, isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            await db.write(lambda tx: tx.execute("INSERT INTO t VALUES (1)"))
        assert time.monotonic() - began < 3
        foreign.execute("ROLLBACK")
        foreign.close()
        await db.write(lambda tx: tx.execute("INSERT INTO t VALUES (2)"))
        assert await db.read(lambda tx: [row[0] for row in tx.execute("SELECT x FROM t")]) == [2]


async def test_a_job_that_fails_after_it_wrote_leaves_nothing(path: Path) -> None:
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))

        def half(tx: sqlite3.Connection) -> None:
            tx.execute("INSERT INTO t VALUES ('half')")
            raise Conflict("on purpose")

        with pytest.raises(Conflict):
            await db.write(half)
        jobs = [db.write(half), db.write(lambda tx: tx.execute("INSERT INTO t VALUES ('whole')")), db.write(half)]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        assert [isinstance(one, Conflict) for one in results] == [True, False, True]
        assert await db.read(lambda tx: [row[0] for row in tx.execute("SELECT x FROM t")]) == ["whole"]


async def test_a_reader_cannot_write(path: Path) -> None:
    async with open_database(path) as db:
        with pytest.raises(Exception, match="readonly"):
            await db.read(lambda tx: tx.execute("CREATE TABLE t (x)"))


async def test_what_was_queued_before_the_close_is_written(path: Path) -> None:
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))
        tasks = [
            asyncio.create_task(db.write(lambda tx, n=n: tx.execute("INSERT INTO t VALUES (?)", (n,))))  # type: ignore[misc]
            for n in range(200)
        ]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    with sqlite3.connect(path) as again:
        assert again.execute("SELECT count(*) FROM t").fetchone() == (200,)
    again.close()


def _at(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_migrations_go_forward_and_keep_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(1, "CREATE TABLE t (x);"), (2, "ALTER TABLE t ADD COLUMN y DEFAULT 7;\nCREATE INDEX i ON t (y);")]
    monkeypatch.setattr(migrate, "schema", lambda: "CREATE TABLE t (x);")
    monkeypatch.setattr(migrate, "available", lambda: steps[:1])
    db = _at(tmp_path / "old.db")
    assert migrate.migrate(db) == 1
    db.execute("INSERT INTO t VALUES (1)")
    monkeypatch.setattr(migrate, "available", lambda: steps)
    assert migrate.migrate(db) == 2
    assert db.execute("SELECT x, y FROM t").fetchall() == [(1, 7)]
    assert migrate.migrate(db) == 2
    db.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "schema", lambda: "CREATE TABLE t (x);")
    monkeypatch.setattr(migrate, "available", lambda: [(1, "")])
    db = _at(tmp_path / "old.db")
    migrate.migrate(db)
    monkeypatch.setattr(migrate, "available", lambda: [(1, ""), (2, "CREATE TABLE u (x);\nCREATE TABLE t (x);")])
    with pytest.raises(sqlite3.OperationalError):
        migrate.migrate(db)
    assert [row[0] for row in db.execute("SELECT name FROM sqlite_master")] == ["t"]
    assert migrate.version(db) == 1
    db.close()


async def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    foreign = _at(path)
    foreign.execute("CREATE TABLE precious (x)")
    with pytest.raises(StoreCorrupt, match="not ours"):
        async with open_database(path):
            pass
    assert [row[0] for row in foreign.execute("SELECT name FROM sqlite_master")] == ["precious"]
    foreign.close()
