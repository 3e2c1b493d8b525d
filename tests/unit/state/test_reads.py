"""The reads that people and commands see: sessions, bindings, rows around a row."""

from __future__ import annotations

import pytest

from state.clock import SteppedClock
from state.errors import Conflict, NotFound
from state.ids import SessionId, SessionKey
from state.records import BindingState, HandoffState, NewMessage, ToolProcess
from tests.unit.state.rig import ADDRESS, KEY, Rig, event, said

OTHER = SessionKey("p:a:~:other:~:~")


async def test_sessions_are_listed_by_their_last_activity_and_not_by_the_clock(rig: Rig, clock: SteppedClock) -> None:
    first = await rig.session()
    clock.step_wall(-86400)
    second = await rig.session(OTHER)
    assert [one.id for one in await rig.store.sessions.list_for("p:u")] == [second.id, first.id]
    await rig.turn("hi", session=first)
    assert [one.id for one in await rig.store.sessions.list_for("p:u")] == [first.id, second.id]
    assert [one.id for one in await rig.store.sessions.list_all(limit=1)] == [first.id]
    assert await rig.store.sessions.list_for("p:nobody") == []


async def test_a_session_is_found_by_its_title_for_its_person(rig: Rig) -> None:
    session = await rig.session()
    await rig.store.sessions.set_title(session.id, "Trip to Rome")
    assert [one.id for one in await rig.store.sessions.by_title("p:u", "trip to rome")] == [session.id]
    assert [one.id for one in await rig.store.sessions.by_title(None, "Trip to Rome")] == [session.id]
    assert await rig.store.sessions.by_title("p:other", "Trip to Rome") == []
    with pytest.raises(NotFound):
        await rig.store.sessions.set_title(SessionId("none"), "x")


async def test_the_last_binding_on_a_platform(rig: Rig) -> None:
    first = await rig.session()
    await rig.session(OTHER)
    await rig.turn("hi", session=first)
    found = await rig.store.sessions.last_on("p")
    assert found is not None
    assert found.key == KEY
    assert await rig.store.sessions.last_on("elsewhere") is None
    await rig.store.sessions.close_binding(KEY, "there", found.version)
    found = await rig.store.sessions.last_on("p")
    assert found is not None
    assert (found.key, found.state) == (KEY, BindingState.CLOSED)


async def test_a_move_closes_every_other_place(rig: Rig) -> None:
    first = await rig.session()
    moved = await rig.store.sessions.move(first.id, OTHER, "{}", moved_to="there")
    assert (moved.key, moved.session_id, moved.state) == (OTHER, first.id, BindingState.ACTIVE)
    closed = await rig.store.sessions.binding(KEY)
    assert closed is not None
    assert (closed.state, closed.moved_to) == (BindingState.CLOSED, "there")
    await rig.store.handoffs.request(first.id, OTHER, "x", "p:u")
    with pytest.raises(Conflict):
        await rig.store.sessions.move(first.id, KEY, "{}", moved_to="back")


async def test_rows_around_a_row_stay_in_their_session(rig: Rig) -> None:
    session, other = await rig.session(), await rig.session(OTHER)
    for number in range(4):
        await rig.store.transcript.append_raw(session.id, [said(f"a{number}")])
        await rig.store.transcript.append_raw(other.id, [said(f"b{number}")])
    rows = await rig.store.transcript.load(session.id)
    found = await rig.store.transcript.around(rows[2].id, 1)
    assert [row.content for row in found] == ["a1", "a2", "a3"]


async def test_a_platform_message_leads_to_its_row(rig: Rig) -> None:
    session = await rig.session()
    await rig.store.transcript.append_raw(
        session.id, [NewMessage(role="user", content="x", wire="{}", platform_message_id="m5")]
    )
    found = await rig.store.transcript.by_platform_message(session.id, "m5")
    assert found is not None
    assert found.content == "x"
    assert await rig.store.transcript.by_platform_message(session.id, "m6") is None


async def test_the_last_turns_are_those_with_rows_in_the_context(rig: Rig) -> None:
    session = await rig.session()
    turns = [await rig.turn(f"t{n}", session=session) for n in range(3)]
    assert await rig.store.transcript.last_turn_ids(session.id, 2) == [turns[2], turns[1]]
    await rig.store.transcript.deactivate_turn(session.id, turns[2])
    assert await rig.store.transcript.last_turn_ids(session.id, 5) == [turns[1], turns[0]]
    assert len(await rig.store.transcript.rows_of(turns[2], include_inactive=True)) == 2
    assert await rig.store.transcript.rows_of(turns[2]) == []


async def test_a_grandchild_sees_what_each_ancestor_lends(rig: Rig) -> None:
    session = await rig.session()
    rows = await rig.store.transcript.append_raw(session.id, [said(f"a{n}") for n in range(4)])
    child = await rig.store.sessions.fork(session.id, rows[2], person="p:u", reason="fork", since=rows[1])
    own = await rig.store.transcript.append_raw(child.id, [said("b0"), said("b1")])
    grandchild = await rig.store.sessions.fork(child.id, own[0], person="p:u", reason="fork")
    await rig.store.transcript.append_raw(grandchild.id, [said("c0")])
    assert await rig.texts(child.id) == ["a1", "a2", "b0", "b1"]
    assert await rig.texts(grandchild.id) == ["a1", "a2", "b0", "c0"]
    assert await rig.store.sessions.lineage(grandchild.id) == [session.id, child.id, grandchild.id]
    empty = await rig.store.sessions.fork(grandchild.id, None, person="p:u", reason="fork")
    assert await rig.texts(empty.id) == ["a1", "a2", "b0", "c0"]


async def test_a_handoff_moves_the_session_in_one_step(rig: Rig) -> None:
    session, handoffs = await rig.session(), rig.store.handoffs
    before = await rig.session(OTHER)
    asked = await handoffs.request(session.id, KEY, "there", "p:u")
    with pytest.raises(Conflict):
        await handoffs.request(session.id, KEY, "elsewhere", "p:u")
    assert [one.id for one in await handoffs.pending()] == [asked.id]
    token = await handoffs.claim(asked.id, rig.store.owner)
    await handoffs.set_thread(asked.id, token, "thread-1")
    with pytest.raises(Conflict):
        await handoffs.rebind_done(asked.id, "a guess", OTHER, ADDRESS, moved_to="there")
    lease = await rig.lease(session)
    with pytest.raises(Conflict):
        await handoffs.rebind_done(asked.id, token, OTHER, ADDRESS, moved_to="there")
    unmoved = await rig.store.sessions.binding(KEY)
    assert unmoved is not None
    assert unmoved.state is BindingState.ACTIVE
    await rig.store.leases.release(lease)
    bound = await handoffs.rebind_done(asked.id, token, OTHER, ADDRESS, moved_to="there")
    assert bound.session_id == session.id
    source = await rig.store.sessions.binding(KEY)
    assert source is not None
    assert (source.state, source.moved_to) == (BindingState.CLOSED, "there")
    done = await handoffs.get(asked.id)
    assert done is not None
    assert (done.state, done.thread_id) == (HandoffState.DONE, "thread-1")
    assert await handoffs.open_for(session.id) is None
    assert await rig.store.sessions.get(before.id) is not None


async def test_a_cancelled_turn_ends_its_questions(rig: Rig) -> None:
    session = await rig.session()
    lease = await rig.lease(session)
    asked = await rig.store.approvals.create("clarify", session.id, lease.turn_id, "c", "p:u", "{}", 60)
    assert await rig.store.approvals.cancel_turn(lease.turn_id) == 1
    with pytest.raises(Conflict, match="cancelled"):
        await rig.store.approvals.answer(asked.id, approve=True, answer="x", by="p:u")
    assert not await rig.store.approvals.use(asked.id)


async def test_only_the_processes_of_dead_owners_are_reaped(rig: Rig, clock: SteppedClock) -> None:
    parts = rig.store.owner.split(":")
    dead = ":".join([*parts[:4], "1", *parts[5:]])
    lease = await rig.lease()
    for pgid, owner, boot in ((1, dead, clock.boot_id()), (2, rig.store.owner, clock.boot_id()), (3, dead, "old boot")):
        await rig.store.processes.add(
            ToolProcess(pgid=pgid, started=1, boot_id=boot, turn_id=lease.turn_id, call_id="c", owner=owner)  # type: ignore[arg-type]
        )
    assert [one.pgid for one in await rig.store.processes.of_dead_owners()] == [1]


async def test_events_about_one_message_are_found_newest_first(rig: Rig) -> None:
    first = await rig.store.inbox.accept(event(1))
    edit = event(1)
    changed = type(edit)(**{f: getattr(edit, f) for f in edit.__slots__} | {"dedup_id": "d1:e1", "kind": "edit"})
    second = await rig.store.inbox.accept(changed)
    found = await rig.store.inbox.find("p", "a", "m1", key=KEY)
    assert [row.id for row in found] == [second.event_id, first.event_id]
    assert await rig.store.inbox.find("p", "a", "m1", key=OTHER) == []
