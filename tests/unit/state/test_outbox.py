"""Deliveries and chunks: order, waits, parts, and what became of a message (P4)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from state.clock import SteppedClock
from state.errors import Conflict
from state.ids import ChunkId, DeliveryId
from state.records import Chunk, ChunkState, DeliveryState, Fate, NewChunk
from tests.unit.state.rig import Rig, delivery, said

ACCOUNT = [("p", "a")]


async def _chunks(rig: Rig, name: str) -> list[Chunk]:
    stored = await rig.store.outbox.get(DeliveryId(name))
    assert stored is not None
    return list(stored.chunks)


async def _state(rig: Rig, name: str) -> DeliveryState:
    stored = await rig.store.outbox.get(DeliveryId(name))
    assert stored is not None
    return stored.state


async def test_a_delivery_is_known_by_its_id(rig: Rig) -> None:
    assert await rig.store.outbox.enqueue(delivery("d", "one"))
    assert not await rig.store.outbox.enqueue(delivery("d", "another"))
    assert [chunk.plain for chunk in await _chunks(rig, "d")] == ["one"]


async def test_nothing_overtakes_a_delivery_of_its_chat_that_has_to_wait(rig: Rig, clock: SteppedClock) -> None:
    outbox = rig.store.outbox
    for name, chat in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        await outbox.enqueue(delivery(name, "x", chat=chat))
    assert await outbox.sending(ChunkId("a1.1"))
    await outbox.back(ChunkId("a1.1"), not_before=clock.utc() + timedelta(seconds=30), error="429")
    assert [one.id for one in await outbox.due(ACCOUNT)] == ["b1"]
    assert [one.id for one in await outbox.pending("p", "a", "A")] == ["a1", "a2"]
    assert await outbox.due([("p", "other")]) == []
    clock.advance(31)
    assert [one.id for one in await outbox.due(ACCOUNT)] == ["a1", "a2", "b1"]


async def test_a_chat_with_a_backlog_hides_no_other(rig: Rig) -> None:
    for number in range(30):
        await rig.store.outbox.enqueue(delivery(f"a{number}", "x", chat="A"))
    await rig.store.outbox.enqueue(delivery("b", "x", chat="B"))
    found = [one.id for one in await rig.store.outbox.due(ACCOUNT, limit=20)]
    assert "b" in found
    assert found[0] == "a0"


async def test_smaller_parts_take_the_place_of_a_chunk(rig: Rig) -> None:
    outbox = rig.store.outbox
    await outbox.enqueue(delivery("d", "one", "two", "three"))
    await outbox.sending(ChunkId("d.1"))
    await outbox.sent(ChunkId("d.1"), ["m1"])
    with pytest.raises(Conflict):
        await outbox.resplit(ChunkId("d.2"), [NewChunk(payload="x", plain="x")])
    await outbox.sending(ChunkId("d.2"))
    await outbox.resplit(ChunkId("d.2"), [NewChunk(payload="tw", plain="tw"), NewChunk(payload="o", plain="o")])
    chunks = await _chunks(rig, "d")
    assert [chunk.plain for chunk in chunks] == ["one", "two", "tw", "o", "three"]
    assert [chunk.state for chunk in chunks][1:3] == [ChunkState.DROPPED, ChunkState.READY]
    assert len({chunk.id for chunk in chunks}) == 5
    for chunk in chunks[2:]:
        assert await outbox.sending(chunk.id)
        await outbox.sent(chunk.id, [f"m-{chunk.number}"])
    assert await _state(rig, "d") is DeliveryState.SENT


async def test_a_message_that_cannot_be_edited_any_more_is_sent_as_new(rig: Rig) -> None:
    await rig.begin()
    new = delivery("d", "text")
    await rig.store.outbox.enqueue(type(new)(**{f: getattr(new, f) for f in new.__slots__} | {"edits": "m9"}))
    assert (await _chunks(rig, "d"))[0].edits == "m9"
    await rig.store.outbox.sending(ChunkId("d.1"))
    await rig.store.outbox.unedit(ChunkId("d.1"))
    chunk = (await _chunks(rig, "d"))[0]
    assert (chunk.edits, chunk.state, chunk.tries) == (None, ChunkState.READY, 0)


async def test_an_unknown_chunk_is_counted_when_it_is_sent_again(rig: Rig) -> None:
    outbox = rig.store.outbox
    await outbox.enqueue(delivery("d", "one"))
    assert await outbox.sending(ChunkId("d.1"))
    assert not await outbox.sending(ChunkId("d.1"))
    await outbox.unknown(ChunkId("d.1"), "the connection broke")
    assert (await outbox.counts())["unknown"] == 1
    assert await outbox.sending(ChunkId("d.1"))
    assert (await _chunks(rig, "d"))[0].tries == 1
    await outbox.sent(ChunkId("d.1"), ["m1"])
    assert not await outbox.sending(ChunkId("d.1"))
    with pytest.raises(Conflict):
        await outbox.back(ChunkId("d.1"), not_before=None, error="late")


async def test_what_is_parked_goes_out_when_its_account_works_again(rig: Rig) -> None:
    outbox = rig.store.outbox
    await outbox.enqueue(delivery("d", "one", "two"))
    await outbox.sending(ChunkId("d.1"))
    await outbox.failed(ChunkId("d.1"), "gone", park=True)
    assert await _state(rig, "d") is DeliveryState.PARKED
    assert await outbox.due(ACCOUNT) == []
    assert await outbox.unparked("p", "other") == 0
    assert await outbox.unparked("p", "a") == 1
    (again,) = await outbox.due(ACCOUNT)
    assert [chunk.state for chunk in again.chunks] == [ChunkState.READY, ChunkState.READY]


async def test_a_message_leads_back_to_its_delivery(rig: Rig) -> None:
    outbox = rig.store.outbox
    lease, event_id = await rig.begin()
    await outbox.enqueue(delivery("d", "one"), turn_id=lease.turn_id)
    await outbox.sending(ChunkId("d.1"))
    await outbox.sent(ChunkId("d.1"), ["m1", "m2"])
    for message in ("m1", "m2"):
        found = await outbox.by_message("p", "a", message)
        assert found is not None
        assert (found.id, found.turn_id) == ("d", lease.turn_id)
    assert await outbox.by_message("p", "a", "m1", chat="elsewhere") is None
    assert await outbox.by_message("p", "other", "m1") is None
    assert await outbox.of_event(event_id) is None
    await rig.store.inbox.conclude(event_id, Fate.REFUSED, "no", delivery=delivery("told", "no"))
    told = await outbox.of_event(event_id)
    assert told is not None
    assert told.id == "told"


async def test_a_dropped_delivery_is_not_sent(rig: Rig) -> None:
    await rig.store.outbox.enqueue(delivery("d", "one", kind="progress"))
    await rig.store.outbox.drop(DeliveryId("d"))
    assert await _state(rig, "d") is DeliveryState.DROPPED
    assert not await rig.store.outbox.sending(ChunkId("d.1"))
    await rig.store.outbox.drop(DeliveryId("d"))


async def test_a_draft_that_was_in_the_air_at_the_end_of_its_turn_is_found_again(rig: Rig) -> None:
    """The final's first chunk keeps the draft's id, and becomes an edit once the message is known."""
    from state.records import TurnState

    lease, event_id = await rig.begin()
    chunk_id = await rig.store.outbox.open_draft(lease, delivery("draft", "hel", kind="interim"))
    await rig.store.turns.finish(
        lease,
        state=TurnState.ANSWERED,
        rows=[said("hello", role="assistant")],
        fates=[(event_id, Fate.ANSWERED, "")],
        delivery=delivery("final", "hello", "there", adopts="draft"),
    )
    first, second = await _chunks(rig, "final")
    assert (first.id, first.state, second.state) == (chunk_id, ChunkState.UNKNOWN, ChunkState.READY)
    assert await _state(rig, "draft") is DeliveryState.DROPPED
    await rig.store.outbox.draft_sent(DeliveryId("draft"), "m7")
    first = (await _chunks(rig, "final"))[0]
    assert (first.state, first.edits) == (ChunkState.READY, "m7")


async def test_no_draft_outlives_its_turn(rig: Rig) -> None:
    from state.records import TurnState

    lease, event_id = await rig.begin()
    await rig.store.outbox.open_draft(lease, delivery("draft", "hel", kind="interim"))
    assert [one.id for one in await rig.store.outbox.drafts_of(lease.turn_id)] == ["draft"]
    await rig.store.turns.finish(
        lease, state=TurnState.INTERRUPTED, rows=[], fates=[(event_id, Fate.CANCELLED, "/stop")], delivery=None
    )
    assert await rig.store.outbox.drafts_of(lease.turn_id) == []
