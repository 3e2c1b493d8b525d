"""The memory adapter: the faults that it is told to have, and what it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.errors import Gone, NotReady, OutcomeUnknown, RetryAfter
from adapters.events import EventKind, Markdown, RenderedChunk
from adapters.memory.adapter import MemoryAdapter
from tests.counterparts.small_gateway import SmallGateway


@pytest.fixture
async def memory() -> AsyncIterator[MemoryAdapter]:
    adapter = MemoryAdapter()
    gateway = SmallGateway()
    gateway.adapter = adapter
    task = asyncio.create_task(adapter.run(gateway, lambda: None), name="memory")
    await adapter.room.until(lambda: adapter.connected)
    adapter.gateway = gateway  # type: ignore[attr-defined]
    yield adapter
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def chunk(adapter: MemoryAdapter, text: str) -> RenderedChunk:
    (found,) = adapter.renderer.render([Markdown(text=text)])
    return found


async def test_a_lost_answer_leaves_the_message_there(memory: MemoryAdapter) -> None:
    address = memory.address("chat")
    memory.room.fail("send", OutcomeUnknown(), arrives=True)
    with pytest.raises(OutcomeUnknown):
        await memory.send(address, chunk(memory, "word"), key="k", reply_to=None)
    assert memory.room.texts(address) == ["word"]
    found = await memory.look_up(address, "k")
    assert found is not None
    await memory.send(address, chunk(memory, "word"), key="k", reply_to=None)
    assert memory.room.texts() == ["word"]


async def test_faults_are_due_in_order_and_once(memory: MemoryAdapter) -> None:
    address = memory.address("chat")
    memory.room.fail("send", RetryAfter(3.0))
    memory.room.fail("typing", NotReady(), times=2)
    with pytest.raises(RetryAfter):
        await memory.send(address, chunk(memory, "a"), key="a", reply_to=None)
    for _ in range(2):
        with pytest.raises(NotReady):
            await memory.typing(address, None)
    await memory.typing(address, None)
    assert memory.room.typing == [address]
    assert memory.room.texts() == []
    assert [name for name, _ in memory.room.calls] == ["run", "send", "typing", "typing", "typing"]


async def test_a_call_can_be_held(memory: MemoryAdapter) -> None:
    hold = asyncio.Event()
    memory.room.fail("send", hold=hold)
    sending = asyncio.create_task(memory.send(memory.address("c"), chunk(memory, "a"), key="a", reply_to=None))
    await asyncio.sleep(0)
    assert memory.room.texts() == []
    hold.set()
    await sending
    assert memory.room.texts() == ["a"]


async def test_edits_and_deletions(memory: MemoryAdapter) -> None:
    address = memory.address("chat")
    (number,) = (await memory.send(address, chunk(memory, "a"), key="a", reply_to="in-1")).message_ids
    await memory.edit(address, number, chunk(memory, "b"))
    await memory.edit(address, number, chunk(memory, "b"))
    message = memory.room.messages[number]
    assert (message.text, message.edits, message.reply_to) == ("b", 1, "in-1")
    await memory.delete(address, number)
    with pytest.raises(Gone):
        await memory.edit(address, number, chunk(memory, "c"))


async def test_what_is_heard(memory: MemoryAdapter) -> None:
    gateway: SmallGateway = memory.gateway  # type: ignore[attr-defined]
    await memory.hear("hello", sender="bob")
    await memory.hear("/status")
    await memory.hear("changed", kind=EventKind.EDIT, message_id="in-1")
    await memory.press("b1", "yes")
    first, command, edit, press = gateway.events
    assert (first.sender.id, first.kind, first.dedup_id) == ("bob", EventKind.MESSAGE, "in-1")
    assert command.kind is EventKind.COMMAND
    assert (edit.message_id, edit.dedup_id) == ("in-1", "in-1:edit:3")
    assert press.action is not None
    assert not (await memory.hear("hello", message_id="in-1")).is_new


async def test_a_lost_connection_ends_run_with_its_error() -> None:
    adapter = MemoryAdapter()
    gateway = SmallGateway()
    task = asyncio.create_task(adapter.run(gateway, lambda: None), name="memory")
    await adapter.room.until(lambda: adapter.connected)
    adapter.lose(NotReady("gone"))
    with pytest.raises(NotReady):
        await task
    with pytest.raises(NotReady):
        await adapter.hear("hello")
    adapter.room.fail("run", NotReady("refused"))
    with pytest.raises(NotReady, match="refused"):
        await adapter.run(gateway, lambda: None)
