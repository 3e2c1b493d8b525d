"""The search index agrees with the rows after every kind of change, and no query scans (B53)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state import search, search_index
from state.database import Database
from state.owners import this_process
from state.query import parse
from state.records import ToolStatus
from state.store import Store
from tests.unit.state.rig import Rig, asks, said

ALPHABET = 'abAB 1-"%_桂林漓江早茶あいกข้ üß.'
PIECE = st.text(ALPHABET, min_size=1, max_size=14)


@asynccontextmanager
async def _fresh() -> AsyncIterator[Rig]:
    with TemporaryDirectory() as folder:
        async with Store.open(Path(folder) / "tidings.db", owner=this_process("test")) as store:
            yield Rig(store)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(PIECE, min_size=1, max_size=12), terms=st.lists(PIECE, min_size=1, max_size=8))
async def test_B53_any_terms_give_the_set_of_a_scan(texts: list[str], terms: list[str]) -> None:
    """Each alternative is a list of terms that must all be in the row; accents may be found beyond the scan."""
    async with _fresh() as rig:
        session = await rig.session()
        await rig.store.transcript.append_raw(session.id, [said(text) for text in texts])
        for query in [*terms, " OR ".join(terms), " ".join(terms[:2])]:
            groups = parse(query)
            hits = {hit.row_id for hit in await rig.store.search.find(query, persons=None, limit=500)}
            for row in await rig.store.transcript.load(session.id):
                text = row.content.casefold()
                wanted = any(all(term.folded in text for term in group) for group in groups)
                if groups and wanted:
                    assert row.id in hits, (query, row.content)
                elif groups and not any(char in row.content for char in "üß"):
                    assert row.id not in hits or _as_words(groups, text), (query, row.content)


def _as_words(groups: object, text: str) -> bool:
    """The word index reads "a-b" as the words a and b, one after the other, as a person may."""
    bare = "".join(char if char.isalnum() else " " for char in text).split()
    for group in groups:  # type: ignore[attr-defined]
        words = ["".join(char if char.isalnum() else " " for char in term.folded).split() for term in group]
        if all(any(bare[at : at + len(run)] == run for at in range(len(bare))) for run in words):
            return True
    return False


async def test_the_index_agrees_with_the_rows_after_every_change(rig: Rig) -> None:
    session = await rig.session()
    lease, _ = await rig.begin("first 桂林")
    rows = await rig.store.turns.append(lease, asks("terminal", "read"))
    await _verify(rig)
    for row in rows[1:]:
        await rig.store.turns.start_call(lease, row)
    await rig.store.turns.finish_call(lease, rows[1], ToolStatus.DONE, content="out", wire="{}", extract="ran ls")
    await rig.store.turns.finish_call(lease, rows[2], ToolStatus.UNKNOWN, content="", wire=None)
    await _verify(rig)
    await rig.store.turns.finish_call(lease, rows[2], ToolStatus.UNKNOWN, content="who knows", wire="{}")
    await _verify(rig)

    def change(tx: sqlite3.Connection) -> None:
        tx.execute("UPDATE transcript SET content = 'changed' WHERE role = 'user'")
        tx.execute("DELETE FROM transcript WHERE id = ?", (rows[1],))

    await _db(rig).write(change)
    await _verify(rig)
    assert await rig.store.search.find("桂林", persons=None) == []
    assert [hit.session_id for hit in await rig.store.search.find("changed", persons=None)] == [session.id]


async def test_undone_rows_are_not_found(rig: Rig) -> None:
    session = await rig.session()
    turn = await rig.turn("zebra", "crossing", session=session)
    assert len(await rig.store.search.find("zebra", persons=None)) == 1
    await rig.store.transcript.deactivate_turn(session.id, turn)
    assert await rig.store.search.find("zebra", persons=None) == []


async def test_many_commits_are_merged_and_still_found(path: Path) -> None:
    """Each commit adds a segment; tending the index brings them together."""
    async with Store.open(path, owner=this_process("test")) as store:
        rig = Rig(store)
        lease, _ = await rig.begin("start")
        for number in range(40):
            await store.turns.append(lease, [said(f"text number{number} 漓江")])
        await _db(rig).write(search_index.tend_index)
        await _verify(rig)
        segments = await _db(rig).read(
            lambda tx: tx.execute("SELECT count(DISTINCT segid) FROM search_words_idx").fetchone()[0]
        )
        assert segments < 20
        assert len(await store.search.find("漓江", persons=None)) == 40
        await _db(rig).write(search_index.optimize)
        await _verify(rig)


@pytest.mark.parametrize("query", ["漓", "漓江", "桂林漓江", "fox", "ox", "quick fox", "a OR 桂林", "x"])
async def test_B53_no_query_scans_the_transcript(rig: Rig, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.turn("fox 桂林漓江")
    plans: list[str] = []

    class Explained:
        def __init__(self, tx: sqlite3.Connection) -> None:
            self._tx = tx

        def execute(self, sql: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
            plans.extend(str(row[3]) for row in self._tx.execute("EXPLAIN QUERY PLAN " + sql, values))
            return self._tx.execute(sql, values)

    def explained(tx: sqlite3.Connection, *args: object, **more: object) -> object:
        return find(Explained(tx), *args, **more)  # type: ignore[arg-type]

    find = search._find
    monkeypatch.setattr(search, "_find", explained)
    await rig.store.search.find(query, persons=["p:u"])
    assert plans
    # Every path begins at an index and goes to the rows by their ids.
    assert not [plan for plan in plans if plan.startswith(("SCAN transcript", "SCAN t"))]


async def test_recent_gives_the_newest_row_of_each_session(rig: Rig) -> None:
    from state.ids import SessionKey

    await rig.turn("one", "first answer")
    other = await rig.session(SessionKey("k2"), person="p:other")
    await rig.turn("two", "second answer", session=other)
    found = await rig.store.search.recent(None)
    assert [hit.snippet for hit in found] == ["second answer", "first answer"]
    assert [hit.snippet for hit in await rig.store.search.recent("p:u")] == ["first answer"]
    assert [hit.snippet for hit in await rig.store.search.find("  ", persons=["p:other"])] == ["second answer"]


async def _verify(rig: Rig) -> None:
    """FTS5's own comparison of an index with its content; raises where they differ."""

    def run(tx: sqlite3.Connection) -> None:
        for table in ("search_words", "search_grams"):
            tx.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")

    await _db(rig).write(run)


def _db(rig: Rig) -> Database:
    return rig.store.inbox._db
