"""kill -9 in the middle of turns: every transaction is there whole or not at all (P1, P4)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from state.owners import this_process
from state.store import Store

ROOT = Path(__file__).parents[3]
CHILD = """
import asyncio, sys
from pathlib import Path
from state.owners import this_process
from state.store import Store
from tests.unit.state.rig import Rig
async def main():
    async with Store.open(Path(sys.argv[1]), owner=this_process("child")) as store:
        rig = Rig(store)
        rig.count = int(sys.argv[2])
        session = await rig.session()
        for n in range(100000):
            await rig.turn(f"question {n} 桂林", f"answer {n}", session=session)
            print(n, flush=True)
asyncio.run(main())
"""


async def test_turns_are_whole_or_absent_after_kill_9(tmp_path: Path) -> None:
    path, rng = tmp_path / "home" / "tidings.db", random.Random(3)
    told = 0
    for attempt in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(attempt * 100_000)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        await asyncio.sleep(rng.uniform(0.01, 0.08))
        os.kill(child.pid, signal.SIGKILL)
        rest, _ = await asyncio.to_thread(child.communicate)
        told += 1 + rest.count("\n")
        _look(path)
    async with Store.open(path, owner=this_process("after")) as store:
        assert await store.check() == []
        turns = await store.leases.dead_turns()
        assert len(turns) <= 4, "one turn at most dies with each child"
        for turn in turns:
            lease = await store.leases.acquire(turn.session_id, turn.id)
            _, rows = await store.turns.resume(lease, turn.id)
            assert [row.role for row in rows] == ["user"]
            assert len(await store.inbox.of_turn(turn.id)) == 1
            await store.leases.release(lease)
        assert await store.inbox.orphans() == []
        assert len(await store.search.find("桂林", persons=None, limit=10_000)) >= told


def _look(path: Path) -> None:
    """Compare what one transaction wrote together, in the file as the crash left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        torn = db.execute(
            "SELECT t.id FROM turns t WHERE (t.state = 'answered') <> (SELECT count(*) = 2 FROM transcript r"
            " WHERE r.turn_id = t.id)"
            " OR (t.state = 'answered') <> EXISTS (SELECT 1 FROM outbox o WHERE o.turn_id = t.id)"
            " OR (t.state = 'answered') <> EXISTS"
            " (SELECT 1 FROM inbox i WHERE i.turn_id = t.id AND i.fate = 'answered')"
        ).fetchall()
        assert torn == []
        for table in ("search_words", "search_grams"):
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
