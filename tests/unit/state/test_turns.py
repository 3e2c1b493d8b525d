"""The transactions of a turn: fenced, whole, and never twice (P2, P3, P4; B69)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from state.clock import SteppedClock
from state.errors import Conflict, LeaseHeld, LeaseLost
from state.ids import new_turn_id
from state.owners import this_process
from state.records import ChunkState, DeliveryState, Fate, ToolStatus, TurnLease, TurnState
from state.store import Store
from tests.unit.state.rig import KEY, Rig, asks, delivery, said


async def test_a_turn_from_begin_to_end(rig: Rig) -> None:
    session = await rig.session()
    lease, event_id = await rig.begin()
    running = await rig.store.inbox.get(event_id)
    assert running is not None
    assert (running.fate, running.turn_id, running.attempts) == (Fate.RUNNING, lease.turn_id, 1)
    await rig.store.turns.finish(
        lease,
        state=TurnState.ANSWERED,
        rows=[said("hi", role="assistant")],
        fates=[(event_id, Fate.ANSWERED, "")],
        delivery=delivery("d1", "hi", "there"),
    )
    done = await rig.store.inbox.get(event_id)
    turn = await rig.store.turns.get(lease.turn_id)
    assert done is not None
    assert turn is not None
    assert (done.fate, turn.state) == (Fate.ANSWERED, TurnState.ANSWERED)
    assert await rig.store.leases.holder(session.id) is None
    stored = await rig.store.outbox.get("d1")  # type: ignore[arg-type]
    assert stored is not None
    assert [chunk.state for chunk in stored.chunks] == [ChunkState.READY, ChunkState.READY]


async def test_the_end_of_a_turn_is_one_transaction(rig: Rig) -> None:
    """A delivery that exists already makes it fail at the last step: nothing of it may stay."""
    session = await rig.session()
    await rig.store.outbox.enqueue(delivery("taken", "x"))
    lease, event_id = await rig.begin()
    with pytest.raises(Exception, match="exists already"):
        await rig.store.turns.finish(
            lease,
            state=TurnState.ANSWERED,
            rows=[said("lost", role="assistant")],
            fates=[(event_id, Fate.ANSWERED, "")],
            delivery=delivery("taken", "y"),
        )
    turn, row = await rig.store.turns.get(lease.turn_id), await rig.store.inbox.get(event_id)
    assert turn is not None
    assert row is not None
    assert (turn.state, row.fate) == (TurnState.RUNNING, Fate.RUNNING)
    assert await rig.texts(session.id) == ["hello"]
    assert await rig.store.leases.holder(session.id) is not None


def _writes(rig: Rig, lease: TurnLease, row: int) -> list[Callable[[], Awaitable[object]]]:
    turns, outbox = rig.store.turns, rig.store.outbox
    return [
        lambda: turns.append(lease, [said("late", role="assistant")]),
        lambda: turns.start_call(lease, row),  # type: ignore[arg-type]
        lambda: turns.finish_call(lease, row, ToolStatus.DONE, content="late", wire="{}"),  # type: ignore[arg-type]
        lambda: turns.steer(lease, [], [said("late")]),
        lambda: turns.park(lease, "late"),
        lambda: turns.finish(lease, state=TurnState.ANSWERED, rows=[], fates=[], delivery=None),
        lambda: outbox.open_draft(lease, delivery("late-draft", "x")),
        lambda: rig.store.leases.renew(lease),
    ]


async def test_after_the_expiry_no_write_of_the_turn_counts(rig: Rig, clock: SteppedClock) -> None:
    await rig.session()
    lease, _ = await rig.begin()
    row = (await rig.store.turns.append(lease, asks("tool")))[1]
    clock.advance(31)
    for write in _writes(rig, lease, row):
        with pytest.raises(LeaseLost):
            await write()


async def test_a_new_lease_fences_the_old_one_off(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    lease, _ = await rig.begin()
    row = (await rig.store.turns.append(lease, asks("tool")))[1]
    with pytest.raises(LeaseHeld):
        await rig.store.leases.acquire(session.id, new_turn_id())
    clock.advance(31)
    taken = await rig.store.leases.acquire(session.id, lease.turn_id)
    assert taken.fence == lease.fence + 1
    await rig.store.turns.resume(taken, lease.turn_id)
    for write in _writes(rig, lease, row):
        with pytest.raises(LeaseLost):
            await write()
    await rig.store.turns.finish(taken, state=TurnState.FAILED, rows=[], fates=[], delivery=None)


async def test_a_lease_of_another_boot_is_over(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    lease = await rig.lease(session)
    clock.boot_name = "another-boot"
    taken = await rig.store.leases.acquire(session.id, new_turn_id())
    assert taken.fence > lease.fence


async def test_a_lease_of_a_dead_process_is_over_at_once(rig: Rig, path: Path, clock: SteppedClock) -> None:
    """A pid that lives but began at another time is another process (recycled)."""
    session = await rig.session()
    parts = this_process("gone").split(":")
    parts[4] = "1"  # the start time in ticks: no process of this pid began then
    async with Store.open(path, owner=":".join(parts), clock=clock) as dead:  # type: ignore[arg-type]
        old = await dead.leases.acquire(session.id, new_turn_id())
        taken = await rig.store.leases.acquire(session.id, new_turn_id())
        assert taken.fence == old.fence + 1


async def test_release_keeps_the_fence_growing_and_never_fails(rig: Rig) -> None:
    session = await rig.session()
    fences = []
    for _ in range(3):
        lease = await rig.lease(session)
        fences.append(lease.fence)
        await rig.store.leases.release(lease)
        await rig.store.leases.release(lease)
    assert fences == sorted(set(fences))


async def test_tool_calls_go_one_way(rig: Rig) -> None:
    await rig.session()
    lease, _ = await rig.begin()
    turns = rig.store.turns
    _, first, second = await turns.append(lease, asks("one", "two"))
    await turns.start_call(lease, first)
    with pytest.raises(Conflict):
        await turns.start_call(lease, first)
    await turns.finish_call(lease, first, ToolStatus.DONE, content="ok", wire='{"ok":1}')
    with pytest.raises(Conflict):
        await turns.finish_call(lease, first, ToolStatus.FAILED, content="no", wire="{}")
    await turns.finish_call(lease, second, ToolStatus.FAILED, content="refused", wire="{}")
    rows = [row for row in await rig.store.transcript.rows_of(lease.turn_id) if row.role == "tool"]
    assert [(row.tool_status, row.content) for row in rows] == [(ToolStatus.DONE, "ok"), (ToolStatus.FAILED, "refused")]


async def test_a_resume_makes_started_calls_unknown_and_keeps_planned_ones(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    lease, event_id = await rig.begin()
    _, first, _ = await rig.store.turns.append(lease, asks("one", "two"))
    await rig.store.turns.start_call(lease, first)
    clock.advance(31)
    assert [turn.id for turn in await rig.store.leases.dead_turns()] == [lease.turn_id]
    taken = await rig.store.leases.acquire(session.id, lease.turn_id)
    turn, rows = await rig.store.turns.resume(taken, lease.turn_id)
    assert turn.attempts == 2
    assert [row.tool_status for row in rows if row.role == "tool"] == [ToolStatus.UNKNOWN, ToolStatus.PLANNED]
    row = await rig.store.inbox.get(event_id)
    assert row is not None
    assert row.attempts == 2
    await rig.store.turns.finish_call(taken, first, ToolStatus.UNKNOWN, content="not known", wire="{}")


async def test_a_parked_turn_does_not_count_as_a_crash(rig: Rig) -> None:
    session = await rig.session()
    lease, event_id = await rig.begin()
    await rig.store.turns.park(lease, "a stop")
    row, turn = await rig.store.inbox.get(event_id), await rig.store.turns.get(lease.turn_id)
    assert row is not None
    assert turn is not None
    assert (row.fate, row.attempts, turn.state, turn.attempts) == (Fate.RUNNING, 0, TurnState.RUNNING, 0)
    assert await rig.store.leases.holder(session.id) is None
    assert [one.id for one in await rig.store.leases.dead_turns()] == [lease.turn_id]


async def test_an_event_is_begun_once(rig: Rig) -> None:
    await rig.session()
    lease, event_id = await rig.begin()
    await rig.store.turns.finish(
        lease, state=TurnState.ANSWERED, rows=[], fates=[(event_id, Fate.ANSWERED, "")], delivery=None
    )
    again = await rig.lease()
    with pytest.raises(Conflict):
        await rig.store.turns.begin(again, KEY, [event_id], [said("twice")])


async def test_an_event_that_was_cancelled_meanwhile_keeps_that_end(rig: Rig) -> None:
    await rig.session()
    lease, event_id = await rig.begin()
    assert await rig.store.inbox.settle(event_id, Fate.CANCELLED, "deleted")
    await rig.store.turns.finish(
        lease, state=TurnState.ANSWERED, rows=[], fates=[(event_id, Fate.ANSWERED, "")], delivery=None
    )
    row = await rig.store.inbox.get(event_id)
    assert row is not None
    assert row.fate is Fate.CANCELLED


async def test_steering_is_a_row_and_a_fate_together(rig: Rig) -> None:
    session = await rig.session()
    lease, _ = await rig.begin()
    other = await rig.event()
    await rig.store.turns.steer(lease, [other], [said("and this")])
    row = await rig.store.inbox.get(other)
    assert row is not None
    assert (row.fate, row.turn_id) == (Fate.STEERED, lease.turn_id)
    with pytest.raises(Conflict):
        await rig.store.turns.steer(lease, [other], [said("twice")])
    assert await rig.texts(session.id) == ["hello", "and this"]


async def test_B69_the_order_of_replay_is_the_order_of_insertion(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    for number in range(5):
        await rig.turn(f"q{number}", f"a{number}", session)
        clock.step_wall(-3600 if number % 2 else 0)  # the wall clock steps back an hour, or stands still
    assert await rig.texts(session.id) == [text for n in range(5) for text in (f"q{n}", f"a{n}")]
    assert [hit.row_id for hit in await rig.store.search.find("", persons=None)]


@pytest.mark.parametrize("sent", [False, True])
async def test_a_final_answer_takes_its_draft_over(rig: Rig, sent: bool) -> None:
    await rig.session()
    lease, event_id = await rig.begin()
    chunk = await rig.store.outbox.open_draft(lease, delivery("draft", "hal"))
    if sent:
        await rig.store.outbox.draft_sent("draft", "msg-7")  # type: ignore[arg-type]
    await rig.store.turns.finish(
        lease,
        state=TurnState.ANSWERED,
        rows=[],
        fates=[(event_id, Fate.ANSWERED, "")],
        delivery=delivery("final", "half and whole", "rest", adopts="draft"),
    )
    final = await rig.store.outbox.get("final")  # type: ignore[arg-type]
    assert final is not None
    first, second = final.chunks
    if sent:
        assert (first.edits, first.state) == ("msg-7", ChunkState.READY)
    else:  # whether the draft's message arrived is not known: it is looked up by the draft's key
        assert (first.id, first.state) == (chunk, ChunkState.UNKNOWN)
    assert second.state is ChunkState.READY
    draft = await rig.store.outbox.get("draft")  # type: ignore[arg-type]
    assert draft is None or draft.state is DeliveryState.DROPPED
    assert await rig.store.outbox.drafts_of(lease.turn_id) == []


async def test_undo_takes_a_turn_out_of_the_replay_only(rig: Rig) -> None:
    session = await rig.session()
    await rig.turn("one", "1", session)
    second = await rig.turn("two", "2", session)
    event_id = await rig.event()
    assert await rig.store.inbox.conclude(event_id, Fate.COMMAND, "/undo", undo=(session.id, second))
    assert await rig.texts(session.id) == ["one", "1"]
    assert not await rig.store.inbox.conclude(event_id, Fate.COMMAND, "/undo", undo=(session.id, second))
    assert len(await rig.store.transcript.rows_of(second, include_inactive=True)) == 2
    lease = await rig.lease(session)
    with pytest.raises(Conflict):
        await rig.store.transcript.deactivate_turn(session.id, second)
    await rig.store.leases.release(lease)


async def test_orphans_are_found(rig: Rig) -> None:
    await rig.session()
    lease, event_id = await rig.begin()
    assert await rig.store.inbox.orphans() == []
    await rig.store.turns.finish(lease, state=TurnState.ANSWERED, rows=[], fates=[], delivery=None)
    assert [row.id for row in await rig.store.inbox.orphans()] == [event_id]


async def test_pruning_keeps_what_is_open_and_the_transcript(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    await rig.turn("old", "answer", session)
    waiting = await rig.event()
    clock.advance(30 * 86400)
    assert await rig.store.prune(older_than=timedelta(days=7)) >= 1
    assert await rig.store.inbox.get(waiting) is not None
    assert await rig.texts(session.id) == ["old", "answer"]


async def test_a_late_turn_does_not_change_the_frozen_prompt(rig: Rig, clock: SteppedClock) -> None:
    session = await rig.session()
    lease = await rig.lease(session)
    await rig.store.sessions.freeze_prompt(session.id, "first", "new", lease=lease)
    clock.advance(31)
    with pytest.raises(LeaseLost):
        await rig.store.sessions.freeze_prompt(session.id, "late", "fall-back", lease=lease)
    found = await rig.store.sessions.get(session.id)
    assert found is not None
    assert found.prompt == "first"
