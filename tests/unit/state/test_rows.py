"""Inbox, sessions, outbox, approvals, hand-offs, replay and the small tables."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from state.clock import SteppedClock
from state.errors import Conflict
from state.ids import SessionKey, new_turn_id
from state.owners import describe, is_alive, this_process
from state.records import (
    ApprovalState,
    BindingState,
    ChunkState,
    DeliveryState,
    Fate,
    HandoffState,
    NewUsage,
    ToolProcess,
    ToolStatus,
)
from state.store import Store
from tests.unit.state.rig import ADDRESS, KEY, Rig, asks, delivery, event, said


async def test_an_event_is_recognised_by_its_identity_only(store: Store) -> None:
    first = await store.inbox.accept(event(1, text="yes"))
    again = await store.inbox.accept(event(1, text="yes"))
    same_words = await store.inbox.accept(event(2, text="yes"))
    assert (first.is_new, again.is_new, same_words.is_new) == (True, False, True)
    assert again.event_id == first.event_id


async def test_a_fate_is_final(store: Store) -> None:
    row = await store.inbox.accept(event(1))
    assert await store.inbox.settle(row.event_id, Fate.SILENT, "why")
    assert not await store.inbox.settle(row.event_id, Fate.ANSWERED)
    counts = await store.inbox.counts()
    assert (counts[Fate.SILENT], counts[Fate.ANSWERED]) == (1, 0)
    assert not await store.inbox.replace_payload(row.event_id, "late")


async def test_a_conclusion_is_said_once(rig: Rig) -> None:
    event_id = await rig.event()
    assert await rig.store.inbox.conclude(event_id, Fate.COMMAND, "/x", delivery=delivery("d-e1", "done"))
    assert not await rig.store.inbox.conclude(event_id, Fate.COMMAND, "/x", delivery=delivery("d-e2", "done"))
    assert await rig.store.outbox.get("d-e2") is None  # type: ignore[arg-type]


async def test_two_processes_that_claim_a_key_make_one_session(store: Store, path: Path, clock: SteppedClock) -> None:
    async with Store.open(path, owner=this_process("other"), clock=clock) as other:
        mine, theirs = await asyncio.gather(
            store.sessions.claim(KEY, store.owner, ADDRESS), other.sessions.claim(KEY, other.owner, ADDRESS)
        )
        assert mine.claim_owner == theirs.claim_owner
        winner, loser = (store, other) if mine.claim_owner == store.owner else (other, store)
        binding, session = await winner.sessions.activate(KEY, mine.version, person="p:u")
        with pytest.raises(Conflict):
            await loser.sessions.activate(KEY, theirs.version, person="p:u")
        seen = await loser.sessions.claim(KEY, loser.owner, ADDRESS)
        assert (seen.state, seen.session_id) == (BindingState.ACTIVE, session.id)
        assert binding.session_id == session.id


async def test_an_expired_claim_is_taken_over(store: Store, path: Path, clock: SteppedClock) -> None:
    async with Store.open(path, owner=this_process("other"), clock=clock) as other:
        await other.sessions.claim(KEY, other.owner, ADDRESS)
        assert (await store.sessions.claim(KEY, store.owner, ADDRESS)).claim_owner == other.owner
        clock.advance(60)
        assert (await store.sessions.claim(KEY, store.owner, ADDRESS)).claim_owner == store.owner


async def test_a_stale_binding_is_never_written_over_a_newer_one(rig: Rig) -> None:
    """B61: the version is compared."""
    first = await rig.session()
    binding = await rig.store.sessions.binding(KEY)
    assert binding is not None
    other = await rig.session(SessionKey("other"))
    await rig.store.sessions.rebind(KEY, other.id, expect_version=binding.version)
    with pytest.raises(Conflict):
        await rig.store.sessions.rebind(KEY, first.id, expect_version=binding.version)


async def test_rotate_leaves_the_old_session_to_be_resumed(rig: Rig) -> None:
    first = await rig.session()
    await rig.turn("old", session=first)
    _, second = await rig.store.sessions.rotate(KEY, person="p:u", reason="/new")
    assert second.id != first.id
    assert {one.id for one in await rig.store.sessions.list_for("p:u")} == {first.id, second.id}
    assert await rig.store.sessions.list_for("p:someone-else") == []


async def test_a_fork_refers_and_copies_nothing(rig: Rig) -> None:
    parent = await rig.session()
    await rig.turn("one", "1", parent)
    rows = await rig.store.transcript.load(parent.id)
    await rig.turn("two", "2", parent)
    child = await rig.store.sessions.fork(parent.id, rows[-1].id, person="p:u", reason="fork")
    assert await rig.texts(child.id) == ["one", "1"]
    await rig.turn("three", "3", child)
    assert await rig.texts(child.id) == ["one", "1", "three", "3"]
    assert await rig.texts(parent.id) == ["one", "1", "two", "2"]
    assert await rig.store.sessions.lineage(child.id) == [parent.id, child.id]


async def test_what_replay_keeps_follows_every_change(rig: Rig, path: Path, clock: SteppedClock) -> None:
    """Two stores over one file: appended rows, completed calls and taken-back turns are seen by both."""
    session = await rig.session()
    async with Store.open(path, owner=this_process("other"), clock=clock) as other:

        async def both() -> list[str]:
            mine = [row.content for row in await rig.store.transcript.load(session.id)]
            theirs = [row.content for row in await other.transcript.load(session.id)]
            assert mine == theirs
            return mine

        await rig.turn("one", "1", session)
        assert await both() == ["one", "1"]
        lease, _ = await rig.begin("two", session)
        _, call = await rig.store.turns.append(lease, asks("tool"))
        assert await both() == ["one", "1", "two", "", ""]
        await rig.store.turns.start_call(lease, call)
        assert [row.tool_status for row in await other.transcript.load(session.id)][-1] is ToolStatus.STARTED
        await rig.store.turns.finish_call(lease, call, ToolStatus.DONE, content="found", wire="{}")
        assert await both() == ["one", "1", "two", "", "found"]
        await rig.store.turns.append(lease, [said("2", role="assistant")])
        await rig.store.leases.release(lease)
        assert await both() == ["one", "1", "two", "", "found", "2"]
        await other.transcript.deactivate_turn(session.id, lease.turn_id)
        assert await both() == ["one", "1"]


async def test_the_outbox_goes_in_order_and_a_sent_chunk_is_never_sent_again(rig: Rig) -> None:
    outbox = rig.store.outbox
    for name in ("d1", "d2"):
        assert await outbox.enqueue(delivery(name, "a", "b"))
    assert not await outbox.enqueue(delivery("d1", "again"))
    due = await outbox.due([("p", "a")])
    assert due[0].id == "d1"
    first = due[0].chunks[0].id
    assert await outbox.sending(first)
    assert not await outbox.sending(first)
    await outbox.sent(first, ["m1"])
    assert not await outbox.sending(first)
    second = due[0].chunks[1].id
    assert await outbox.sending(second)
    await outbox.back(second, not_before=None, error="wait")
    assert await outbox.sending(second)
    await outbox.sent(second, ["m2"])
    done = await outbox.get("d1")  # type: ignore[arg-type]
    assert done is not None
    assert done.state is DeliveryState.SENT
    found = await outbox.by_message("p", "a", "m2")
    assert found is not None
    assert found.id == "d1"


async def test_a_chunk_in_the_air_when_the_process_dies_is_unknown(rig: Rig) -> None:
    await rig.store.outbox.enqueue(delivery("d1", "a"))
    assert await rig.store.outbox.sending("d1.1")  # type: ignore[arg-type]
    assert await rig.store.outbox.recover(lambda _: True) == 0
    assert await rig.store.outbox.recover(lambda _: False) == 1
    stored = await rig.store.outbox.get("d1")  # type: ignore[arg-type]
    assert stored is not None
    assert stored.chunks[0].state is ChunkState.UNKNOWN
    assert await rig.store.outbox.sending("d1.1")  # type: ignore[arg-type]
    again = await rig.store.outbox.get("d1")  # type: ignore[arg-type]
    assert again is not None
    assert again.chunks[0].tries == 1


async def test_a_refused_chunk_ends_its_delivery(rig: Rig) -> None:
    await rig.store.outbox.enqueue(delivery("d1", "a", "b"))
    await rig.store.outbox.enqueue(delivery("d2", "a"))
    for name, parked in (("d1", False), ("d2", True)):
        assert await rig.store.outbox.sending(f"{name}.1")  # type: ignore[arg-type]
        await rig.store.outbox.failed(f"{name}.1", "no", park=parked)  # type: ignore[arg-type]
    one, two = await rig.store.outbox.get("d1"), await rig.store.outbox.get("d2")  # type: ignore[arg-type]
    assert one is not None
    assert two is not None
    assert (one.state, two.state) == (DeliveryState.FAILED, DeliveryState.PARKED)
    assert [chunk.state for chunk in one.chunks] == [ChunkState.FAILED, ChunkState.DROPPED]


async def test_an_approval_is_answered_once_and_used_once(rig: Rig, clock: SteppedClock) -> None:
    session, approvals = await rig.session(), rig.store.approvals
    turn = new_turn_id()
    asked = await approvals.create("approval", session.id, turn, "c1", "p:u", "{}", 60)
    assert (await approvals.create("approval", session.id, turn, "c1", "p:u", "{}", 60)).id == asked.id
    assert not await approvals.use(asked.id)
    assert (await approvals.answer(asked.id, approve=True, answer="approve", by="p:o")).state is ApprovalState.APPROVED
    with pytest.raises(Conflict):
        await approvals.answer(asked.id, approve=False, answer="deny", by="p:o")
    assert [await approvals.use(asked.id), await approvals.use(asked.id)] == [True, False]
    late = await approvals.create("approval", session.id, turn, "c2", "p:u", "{}", 60)
    clock.advance(61)
    assert (await approvals.answer(late.id, approve=True, answer="approve", by="p:o")).state is ApprovalState.EXPIRED
    boot = await approvals.create("approval", session.id, turn, "c3", "p:u", "{}", 600)
    clock.boot_name = "another"
    assert [one.id for one in await approvals.expire()] == [boot.id]


async def test_of_two_claims_of_a_handoff_one_wins_and_its_end_is_final(rig: Rig, clock: SteppedClock) -> None:
    """B87: completion and failure are compare-and-set on the token."""
    session, handoffs = await rig.session(), rig.store.handoffs
    asked = await handoffs.request(session.id, KEY, "p:a:c", "p:u")
    token = await handoffs.claim(asked.id, rig.store.owner)
    with pytest.raises(Conflict):
        await handoffs.claim(asked.id, rig.store.owner)
    assert not await handoffs.cancel_pending(asked.id, "too long")
    clock.advance(120)
    assert [one.id for one in await handoffs.sweep()] == [asked.id]
    with pytest.raises(Conflict):
        await handoffs.fail(asked.id, token, "late")
    found = await handoffs.get(asked.id)
    assert found is not None
    assert found.state is HandoffState.FAILED


async def test_a_handoff_that_nobody_takes_is_over_and_in_nobodys_way(rig: Rig, clock: SteppedClock) -> None:
    """Its asker was killed, no daemon ran: it neither happens days later, nor keeps the session from moving."""
    session, store = await rig.session(), rig.store
    first = await store.handoffs.request(session.id, KEY, "p:a:c", "p:u")
    with pytest.raises(Conflict):
        await store.sessions.move(session.id, KEY, ADDRESS, moved_to="x")
    clock.advance(601)
    with pytest.raises(Conflict, match="too long ago"):
        await store.handoffs.claim(first.id, store.owner)
    assert (await store.sessions.move(session.id, KEY, ADDRESS, moved_to="x")).session_id == session.id
    second = await store.handoffs.request(session.id, KEY, "p:a:c", "p:u")
    clock.advance(601)
    assert [one.reason for one in await store.handoffs.sweep()] == ["nobody took it in time"]
    third = await store.handoffs.request(session.id, KEY, "p:a:c", "p:u")
    await store.handoffs.claim(third.id, store.owner)
    clock.boot_name = "another"  # its claimer is gone with the boot, and no daemon is there to sweep
    assert (await store.sessions.move(session.id, KEY, ADDRESS, moved_to="x")).session_id == session.id
    ends = [await store.handoffs.get(one.id) for one in (first, second, third)]
    assert [one and one.state for one in ends] == [HandoffState.FAILED] * 3


async def test_the_small_tables(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    await rig.store.usage.add(session.id, None, NewUsage(model="m", input_tokens=5, output_tokens=2, cached_tokens=3))
    await rig.store.usage.add(session.id, None, NewUsage(model="m", input_tokens=1))
    total = await rig.store.usage.of_session(session.id)
    assert (total.calls, total.input_tokens, total.cached_tokens) == (2, 6, 3)
    await rig.store.holds.set("p:a:c", clock.utc() + timedelta(seconds=30), "429")
    assert [hold.chat for hold in await rig.store.holds.active()] == ["p:a:c"]
    clock.advance(31)
    assert await rig.store.holds.active() == []
    process = ToolProcess(pgid=4, started=5, boot_id="b", turn_id=new_turn_id(), call_id="c", owner=rig.store.owner)
    await rig.store.processes.add(process)
    assert await rig.store.processes.of_turn(process.turn_id) == [process]
    await rig.store.processes.remove(4, 5)
    assert await rig.store.processes.of_turn(process.turn_id) == []


def test_an_owner_tells_whether_it_lives() -> None:
    me = this_process("daemon")
    assert is_alive(me) is True
    parts = me.split(":")
    assert is_alive(":".join([*parts[:4], "1", *parts[5:]])) is False  # type: ignore[arg-type]
    assert "daemon" in describe(me)
