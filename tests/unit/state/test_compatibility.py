"""Two versions over one database: migrations that only add can be lived with, others are found out before."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from state import migrate, rehearse
from state.database import open_database
from state.errors import StoreTooNew
from state.ids import SessionKey, new_turn_id
from state.owners import this_process
from state.records import NewMessage
from state.store import Store
from tests.unit.state.rig import Rig, event

REAL = migrate.available()


def newer(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """A next version of the program, with one more migration."""
    more = [*REAL, (len(REAL) + 1, sql)]
    monkeypatch.setattr(migrate, "available", lambda: more)
    monkeypatch.setattr(rehearse, "available", lambda: more)


async def used(path: Path) -> None:
    """This version at work: it accepts, and searches, and knows what it knew."""
    async with Store.open(path, owner=this_process("test")) as store:
        count = len(await store.inbox.open_events())
        await store.inbox.accept(event(count + 1))
        assert len(await store.inbox.open_events()) == count + 1


async def test_a_database_of_a_newer_version_that_only_adds_can_be_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await used(path)
    add = "ALTER TABLE inbox ADD COLUMN mood TEXT;\nCREATE TABLE moods (id INTEGER PRIMARY KEY, mood TEXT NOT NULL);\n"
    with monkeypatch.context() as patch:
        newer(patch, add)
        assert rehearse.migration_faults(path) == []
        await used(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(REAL) + 1,)
    await used(path)  # the previous one again
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(REAL) + 1,), "it is left as it is"
        db.execute("UPDATE compatibility SET usable_from = ?", (len(REAL) + 1,))
    with pytest.raises(StoreTooNew):
        await used(path)


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("DROP TABLE holds;", "the table holds is gone"),
        ("ALTER TABLE inbox DROP COLUMN detail;", "the column inbox.detail is gone"),
        ("ALTER TABLE inbox RENAME COLUMN detail TO reason;", "the column inbox.detail is gone"),
        (
            "DROP TABLE homes;\nCREATE TABLE homes (platform TEXT PRIMARY KEY, address_json TEXT NOT NULL,"
            " set_by TEXT NOT NULL, room TEXT NOT NULL) WITHOUT ROWID;",
            "the column homes.room must be given, and the previous version does not know it",
        ),
        ("SELECT * FROM nowhere;", "a migration fails: no such table: nowhere"),
    ],
)
async def test_a_migration_that_takes_away_is_found_out_before_it_is_applied(
    path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, fault: str
) -> None:
    await used(path)
    newer(monkeypatch, sql)
    assert fault in rehearse.migration_faults(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(REAL),)


async def test_every_migration_since_the_first_that_may_be_lived_with_only_adds(path: Path) -> None:
    async with open_database(path):
        pass
    with sqlite3.connect(path) as db:
        (usable_from,) = db.execute("SELECT usable_from FROM compatibility").fetchone()
    for number, _ in REAL[usable_from:]:
        before = path.with_name(f"{number}.db")
        with sqlite3.connect(before, isolation_level=None) as db:
            for step, text in REAL[: number - 1]:
                migrate.run_script(db, text)
                db.execute(f"PRAGMA user_version={step}")
        assert rehearse.migration_faults(before) == []


async def test_what_is_recorded_is_read_without_a_trace(path: Path) -> None:
    long = "a long message, so that its wire form is packed with its own words; " * 20
    async with Store.open(path, owner=this_process("test")) as store:
        rig = Rig(store)
        session = await rig.session()
        accepted = await store.inbox.accept(event(1))
        lease = await store.leases.acquire(session.id, new_turn_id())
        row = NewMessage(role="user", content=long, wire=json.dumps({"role": "user", "content": long}))
        await store.turns.begin(lease, SessionKey("k"), [accepted.event_id], [row])
    found = rehearse.recorded(path)
    assert [row.id for row in found.events] == [1]
    assert found.answers == []
    assert [json.loads(wire)["content"] for wire in found.wires] == [long]
