"""The rows that are kept at hand: bounded by what they really take, and let go where nobody asks for them."""

from __future__ import annotations

from state.ids import SessionKey, new_turn_id
from state.replay import IDLE, ROW, Replay
from tests.unit.state.rig import Rig, said


async def two_sessions(rig: Rig) -> list:  # type: ignore[type-arg]
    found = []
    for name in ("one", "two"):
        session = await rig.session(SessionKey(f"p:a:~:{name}:~:~"))
        lease = await rig.store.leases.acquire(session.id, new_turn_id())
        await rig.store.turns.begin(lease, SessionKey(f"p:a:~:{name}:~:~"), [await rig.event()], [said("hello")])
        await rig.store.leases.release(lease)
        found.append(session.id)
    return found


async def test_a_session_that_nobody_asks_for_is_let_go(rig: Rig) -> None:
    one, two = await two_sessions(rig)
    now = 0.0
    replay = Replay(clock=lambda: now)
    for session in (one, two):
        await rig.store._db.read(lambda tx, session=session: replay.load(tx, session))  # type: ignore[misc]
    assert set(replay._kept) == {one, two}
    now = IDLE
    await rig.store._db.read(lambda tx: replay.load(tx, two))
    now = IDLE + 1
    rows = await rig.store._db.read(lambda tx: replay.load(tx, two))
    assert set(replay._kept) == {two}
    assert replay._size == replay._kept[two].size
    assert [row.content for row in rows] == ["hello"]
    assert [row.content for row in await rig.store._db.read(lambda tx: replay.load(tx, one))] == ["hello"]


async def test_a_row_counts_with_all_that_it_takes(rig: Rig) -> None:
    one, two = await two_sessions(rig)
    replay = Replay(bound=2 * ROW)
    await rig.store._db.read(lambda tx: replay.load(tx, one))
    await rig.store._db.read(lambda tx: replay.load(tx, two))
    assert set(replay._kept) == {two}, "two short rows are more than the bound"
