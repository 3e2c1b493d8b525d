"""The one writer: whole transactions, whatever is cancelled, locked, full or killed (B66, B67, B68)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state import connections, migrate
from state.database import open_database
from state.errors import StateError, StoreCorrupt, StoreFull, StoreTooNew, StoreUnusable
from state.owners import this_process
from state.store import Store
from tests.unit.state.rig import Rig, event

ROOT = Path(__file__).parents[3]


async def test_one_bad_job_in_a_group_harms_only_itself(path: Path) -> None:
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)"))

        def insert(number: int) -> object:
            return lambda tx: tx.execute("INSERT INTO t VALUES (?)", (number,))

        numbers = [1, 2, 2, 3, 3, 4]
        results = await asyncio.gather(*(db.write(insert(n)) for n in numbers), return_exceptions=True)  # type: ignore[arg-type]
        assert [isinstance(one, Exception) for one in results] == [False, False, True, False, True, False]
        assert await db.read(lambda tx: [row[0] for row in tx.execute("SELECT x FROM t")]) == [1, 2, 3, 4]


async def test_a_storm_of_cancels_leaves_nothing_half_done(path: Path) -> None:
    """Hundreds of cancels at random moments: no transaction stays open, no pair is torn."""
    rng = random.Random(7)
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE pair (id INTEGER, half TEXT)"))

        def both(number: int) -> object:
            def run(tx: sqlite3.Connection) -> None:
                tx.execute("INSERT INTO pair VALUES (?, 'a')", (number,))
                time.sleep(rng.random() * 0.0005)
                tx.execute("INSERT INTO pair VALUES (?, 'b')", (number,))

            return run

        async def victim(number: int) -> None:
            await db.write(both(number), full=number % 3 == 0)  # type: ignore[arg-type]

        tasks = []
        for number in range(600):
            task = asyncio.create_task(victim(number))
            tasks.append(task)
            asyncio.get_running_loop().call_later(rng.random() * 0.02, task.cancel)
            if number % 20 == 0:
                await asyncio.sleep(rng.random() * 0.004)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(task.cancelled() for task in tasks) > 100, "the storm was no storm"
        await db.write(both(10_000))  # type: ignore[arg-type]
        torn = await db.read(lambda tx: tx.execute("SELECT id FROM pair GROUP BY id HAVING count(*) <> 2").fetchall())
        assert torn == []
        done = await db.read(lambda tx: {row[0] for row in tx.execute("SELECT id FROM pair")})
        for number, task in enumerate(tasks):
            if not task.cancelled():
                assert number in done


async def test_the_file_and_its_folder_are_private(store: Store) -> None:
    await store.inbox.accept(event(1))
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    for suffix in ("", "-wal", "-shm"):
        file = store.path.with_name(store.path.name + suffix)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_newer_database_is_refused(path: Path) -> None:
    async with open_database(path):
        pass
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")
        db.execute("UPDATE compatibility SET usable_from = 999")
    with pytest.raises(StoreTooNew):
        async with open_database(path):
            pass


async def test_a_damaged_file_is_told_as_what_it_is(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreCorrupt):
        async with open_database(path):
            pass


async def test_a_place_that_cannot_hold_a_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnusable):
        async with open_database(tmp_path / "file" / "tidings.db"):
            pass


def test_the_schema_is_the_sum_of_the_migrations(tmp_path: Path) -> None:
    def shape(text: list[str]) -> list[tuple[str, str]]:
        with sqlite3.connect(":memory:") as db:
            for script in text:
                db.executescript(script)
            found = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        return [(name, " ".join(sql.split())) for name, sql in found]

    whole = shape([migrate.schema()])
    assert whole
    assert shape([text for _, text in migrate.available()]) == whole


@pytest.mark.parametrize("kind", ["nfs4", "9p", "virtiofs"])
async def test_B66_a_file_system_without_wal_gets_a_rollback_journal(path: Path, kind: str) -> None:
    async with open_database(path, filesystem=lambda _: kind) as db:
        assert db.journal_mode == "delete"
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))
        assert await db.read(lambda tx: tx.execute("PRAGMA journal_mode").fetchone()[0]) == "delete"
        assert not path.with_name(path.name + "-wal").exists()


class _NoWal(sqlite3.Connection):
    """A SQLite whose file system answers as NFS does."""

    def execute(self, sql: str, *args: object) -> sqlite3.Cursor:  # type: ignore[override]
        if "journal_mode" in sql.lower() and "wal" in sql.lower():
            raise sqlite3.OperationalError("locking protocol")
        return super().execute(sql, *args)  # type: ignore[arg-type]


async def test_B66_a_refused_wal_is_no_silent_loss(path: Path) -> None:
    async with open_database(path, kind=_NoWal) as db:
        assert db.journal_mode == "delete"
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))


def test_B66_the_kind_of_file_system_is_known() -> None:
    assert connections.filesystem_type(Path("/proc")) == "proc"


WRITER = """
import asyncio, sys
from pathlib import Path
from state.owners import this_process
from state.store import Store
from tests.unit.state.rig import event
async def main(path, me, count):
    async with Store.open(Path(path), owner=this_process("writer")) as store:
        for n in range(int(count)):
            await store.inbox.accept(event(int(me) * 100000 + n))
asyncio.run(main(*sys.argv[1:]))
"""


async def test_B67_twelve_writers_at_once_lose_nothing_and_meet_no_error(store: Store) -> None:
    def run(number: int) -> subprocess.CompletedProcess[str]:
        args = [sys.executable, "-c", WRITER, str(store.path), str(number), "40"]
        return subprocess.run(args, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)

    done = await asyncio.gather(*(asyncio.to_thread(run, n) for n in range(1, 13)))
    assert [one.returncode for one in done] == [0] * 12, [one.stderr[-300:] for one in done if one.returncode]
    assert len(await store.inbox.open_events()) == 12 * 40


async def test_B67_a_foreign_lock_fails_nothing_and_stalls_no_loop(store: Store, path: Path) -> None:
    await store.inbox.accept(event(1))
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    writes = [asyncio.create_task(store.inbox.accept(event(n))) for n in range(2, 12)]
    worst, ends = 0.0, time.monotonic() + 2.0
    while time.monotonic() < ends:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - began - 0.01)
        assert len(await store.inbox.open_events()) == 1  # readers do not wait
    assert not any(task.done() for task in writes)
    foreign.execute("COMMIT")
    foreign.close()
    accepted = await asyncio.gather(*writes)
    assert all(one.is_new for one in accepted)
    assert worst < 0.2, f"the event loop stalled {worst:.3f} s"


async def test_B68_a_disk_that_is_really_full(path: Path) -> None:
    async with open_database(path) as db:
        await db.write(lambda tx: tx.execute("CREATE TABLE t (x)"))

        def limit(pages: int) -> object:
            return lambda tx: tx.execute(f"PRAGMA max_page_count = {pages}").fetchone()

        now = await db.read(lambda tx: tx.execute("PRAGMA page_count").fetchone()[0])
        await db.write(limit(now + 2))  # type: ignore[arg-type]
        with pytest.raises(StoreFull):
            await asyncio.gather(
                *(db.write(lambda tx: tx.execute("INSERT INTO t VALUES (zeroblob(8000))")) for _ in range(50))
            )
        before = await db.read(lambda tx: tx.execute("SELECT count(*) FROM t").fetchone()[0])
        with pytest.raises(StoreFull):
            await db.write(lambda tx: tx.executemany("INSERT INTO t VALUES (?)", [(b"x" * 8000,)] * 5))
        assert await db.read(lambda tx: tx.execute("SELECT count(*) FROM t").fetchone()[0]) == before
        await db.write(limit(100_000))  # type: ignore[arg-type]
        await db.write(lambda tx: tx.execute("INSERT INTO t VALUES (zeroblob(8000))"))
        assert await db.read(lambda tx: tx.execute("SELECT count(*) FROM t").fetchone()[0]) == before + 1


async def test_what_the_writer_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """A child says each number that was committed; after kill -9 every one of them is there."""
    path = tmp_path / "home" / "tidings.db"
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom state.owners import this_process\n"
        "from state.store import Store\nfrom tests.unit.state.rig import event\n"
        "async def main():\n"
        "    async with Store.open(Path(sys.argv[1]), owner=this_process('child')) as store:\n"
        "        for n in range(100000):\n"
        "            await store.inbox.accept(event(n))\n"
        "            print(n, flush=True)\n"
        "asyncio.run(main())\n"
    )
    for wait in (0.05, 0.15):
        child = subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        await asyncio.sleep(wait)
        os.kill(child.pid, signal.SIGKILL)
        out, _ = await asyncio.to_thread(child.communicate)
        said_done = [int(line) for line in out.split() if line.isdigit()]
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            kept = {row[0] for row in db.execute("SELECT dedup_id FROM inbox")}
        assert all(f"d{n}" in kept for n in said_done[:-1])  # the last line may be cut


async def test_texts_that_no_utf8_can_hold_are_stored_safely(rig: Rig) -> None:
    session = await rig.session()
    await rig.turn("a\ud800b\x00c", session=session)
    assert (await rig.texts(session.id))[0].startswith("a")


async def test_a_closed_store_says_so(path: Path) -> None:
    async with Store.open(path, owner=this_process("test")) as store:
        pass
    with pytest.raises(StateError):
        await store.inbox.accept(event(1))


async def test_a_backup_is_a_whole_database(rig: Rig, tmp_path: Path) -> None:
    session = await rig.session()
    await rig.turn("keep me", session=session)
    target = tmp_path / "copy.db"
    await rig.store.backup(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    async with Store.open(target, owner=this_process("copy")) as copy:
        assert [row.content for row in await copy.transcript.load(session.id)] == ["keep me", "yes"]
        assert await copy.check() == []
