"""One queue and one worker a key: order kept, parallel between keys, gone when idle, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from adapters.events import ChatAddress, EventKind, MessageEvent, Sender
from gateway.workers import Full, Item, WorkerLimits, Workers
from state.ids import EventId, SessionKey


def item(number: int, text: str = "", *, sender: str = "u", group: str | None = None, **more: object) -> Item:
    event = MessageEvent(
        dedup_id=str(number),
        kind=EventKind.MESSAGE,
        message_id=str(number),
        text=text,
        address=ChatAddress(platform="memory", account="a", chat_id="c"),
        sender=Sender(id=sender, name=sender),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        group_id=group,
    )
    return Item(event_id=EventId(number), event=event, text=text, **more)  # type: ignore[arg-type]


class Recorder:
    def __init__(self) -> None:
        self.batches: list[tuple[SessionKey, list[int]]] = []
        self.active: set[SessionKey] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.peak = 0

    async def run(self, key: SessionKey, items: Sequence[Item]) -> None:
        assert key not in self.active, "two turns at once in one chat"
        self.active.add(key)
        self.peak = max(self.peak, len(self.active))
        await asyncio.sleep(0)
        await self.gate.wait()
        self.batches.append((key, [one.event_id for one in items]))
        self.active.remove(key)


K = SessionKey("k")


async def test_B05_a_burst_is_answered_whole_and_in_order() -> None:
    seen = Recorder()
    workers = Workers(seen.run, WorkerLimits())
    seen.gate.clear()
    for number in range(1, 6):
        workers.put(K, item(number))
    await asyncio.sleep(0)
    seen.gate.set()
    await workers.idle()
    assert [ids for _, ids in seen.batches] == [[1], [2], [3], [4], [5]]


async def test_a_thousand_keys_run_beside_each_other_and_leave_nothing() -> None:
    seen = Recorder()
    workers = Workers(seen.run, WorkerLimits(turns=2000))
    before = len(asyncio.all_tasks())
    for number in range(3000):
        workers.put(SessionKey(f"k{number % 1000}"), item(number))
    await workers.idle()
    await asyncio.sleep(0)
    assert len(workers) == 0
    assert len(asyncio.all_tasks()) == before
    for key in {key for key, _ in seen.batches}:
        ids = [ids[0] for other, ids in seen.batches if other == key]
        assert ids == sorted(ids)
        assert len(ids) == 3


async def test_B06_a_hung_chat_uses_one_slot() -> None:
    hung, done = asyncio.Event(), []

    async def run(key: SessionKey, items: Sequence[Item]) -> None:
        if key == "hung":
            await hung.wait()
        done.append(key)

    workers = Workers(run, WorkerLimits(turns=2))
    workers.put(SessionKey("hung"), item(1))
    for number in range(9):
        workers.put(SessionKey(f"k{number}"), item(number + 2))
    async with asyncio.timeout(2):
        while len(done) < 9:
            await asyncio.sleep(0)
    assert "hung" not in done
    hung.set()
    await workers.idle()


async def test_a_defect_in_one_batch_does_not_stop_the_chat() -> None:
    done: list[int] = []

    async def run(_key: SessionKey, items: Sequence[Item]) -> None:
        if items[0].event_id == 1:
            raise RuntimeError("a defect")
        done.append(items[0].event_id)

    workers = Workers(run, WorkerLimits())
    workers.put(K, item(1))
    workers.put(K, item(2))
    await workers.idle()
    assert done == [2]


async def test_the_cap_is_told() -> None:
    seen = Recorder()
    seen.gate.clear()
    workers = Workers(seen.run, WorkerLimits(queue=2))
    workers.put(K, item(1))
    await asyncio.sleep(0)
    workers.put(K, item(2))
    workers.put(K, item(3))
    with pytest.raises(Full):
        workers.put(K, item(4))
    seen.gate.set()
    await workers.idle()
    assert [ids for _, ids in seen.batches] == [[1], [2], [3]]


async def test_the_same_event_is_not_queued_twice() -> None:
    seen = Recorder()
    workers = Workers(seen.run, WorkerLimits())
    workers.put(K, item(1))
    workers.put(K, item(1))
    await workers.idle()
    assert [ids for _, ids in seen.batches] == [[1]]


async def test_an_album_is_one_message_and_two_senders_are_never_merged() -> None:
    seen = Recorder()
    workers = Workers(seen.run, WorkerLimits())
    soon = asyncio.get_running_loop().time() + 0.02
    for number in (1, 2, 3):
        workers.put(K, item(number, group="g", ready_at=soon))
    workers.put(K, item(4, sender="other", group="g", ready_at=soon))
    await workers.idle()
    assert [ids for _, ids in seen.batches] == [[1, 2, 3], [4]]


async def test_B34_the_parts_of_a_paste_are_waited_for_and_a_short_message_is_not() -> None:
    seen = Recorder()
    workers = Workers(seen.run, WorkerLimits())
    loop = asyncio.get_running_loop()
    workers.put(K, item(1, "x" * 100, ready_at=loop.time() + 5))
    await asyncio.sleep(0.01)
    assert seen.batches == []
    workers.put(K, item(2, "end"))
    await workers.idle()
    assert [ids for _, ids in seen.batches] == [[1, 2]]
    workers.put(K, item(3, "hi"))
    began = loop.time()
    await workers.idle()
    assert loop.time() - began < 0.5
    assert seen.batches[-1][1] == [3]


async def test_close_leaves_what_waits() -> None:
    seen = Recorder()
    seen.gate.clear()
    workers = Workers(seen.run, WorkerLimits())
    workers.put(K, item(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    workers.put(K, item(2))
    assert await workers.close(0.01) == [K]
    seen.gate.set()
    await workers.close(1)
    assert [ids for _, ids in seen.batches] == [[1]]
