"""An external memory in the whole gateway: what the model is really sent, and what a bad service costs."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.events import ChatAddress
from agent_core.memory.providers.circuit import State
from agent_core.memory.providers.factory import missing
from tests.counterparts.memory_openviking import OpenVikingService
from tests.counterparts.memory_service import MemoryService
from tests.counterparts.memory_supermemory import SupermemoryService
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import ACCESS, Process, process

ROOM = ChatAddress(platform="memory", account="bot", chat_id="room", chat_kind="group")
KEY = "k" * 20


def memory(service: MemoryService, **more: Any) -> dict[str, Any]:
    """The section of the configuration."""
    service.key = KEY
    return {
        "provider": "supermemory",
        "supermemory": {"base_url": service.url, "api_key": "${KEY}"},
        "recall_seconds": 8.0,
        **more,
    }


def body(model: ModelServer, call: int = -1) -> str:
    """Everything that the model was sent."""
    return json.dumps(model.calls[call].json(), ensure_ascii=False)


async def kept(run: Process) -> None:
    """Until the memory was told everything."""
    assert run.core.memory is not None
    async with asyncio.timeout(10):
        while (await run.store.memory_outbox.counts("supermemory"))[0]:
            await asyncio.sleep(0.01)


async def ready(run: Process) -> None:
    """The client is imported: on a slow machine that alone takes longer than a message waits."""
    assert run.core.memory is not None
    assert await run.core.memory.manager.provider.is_available()


async def say(run: Process, text: str, message_id: str, chat: str | ChatAddress = "chat", **more: Any) -> str:
    """A message of Ann; its fate."""
    await run.platform.hear(text, chat=chat, message_id=message_id, sender="ann", **more)
    return (await run.fate(message_id))[0]


async def test_what_was_said_in_one_conversation_is_known_in_the_next(tmp_path: Path, model: ModelServer) -> None:
    async with SupermemoryService() as service, process(tmp_path / "home", model, memory=memory(service)) as run:
        await ready(run)
        assert await say(run, "my favourite drink is tea", "m1") == "answered"
        await kept(run)
        assert await say(run, "/new", "m2") == "command"
        assert await say(run, "which drink?", "m3") == "answered"
        sent = body(model)
        assert "my favourite drink is tea" in sent
        assert sent.index("<memory-context>") < sent.index("favourite") < sent.index("</memory-context>")
        await kept(run)
        told = [text for space in service.spaces.values() for texts in space.values() for text in texts]
        assert len(told) == 2
        assert told[1].startswith("User: which drink?\n\nAssistant: "), "what was recalled is not told back"


async def test_a_room_is_never_shown_what_was_said_in_private(tmp_path: Path, model: ModelServer) -> None:
    async with SupermemoryService() as service, process(tmp_path / "home", model, memory=memory(service)) as run:
        await ready(run)
        await say(run, "the secret of my drink is rum", "m1")
        await kept(run)
        await say(run, "what is the secret drink?", "m2", ROOM, mentions_us=True)
        assert "rum" not in body(model)
        await kept(run)
        assert len(service.spaces) == 2, "and what was said in the room is kept at a place of its own"
        await say(run, "/new", "m3")
        await say(run, "secret drink?", "m4")
        assert "rum" in body(model)


async def test_a_service_that_hangs_costs_one_bound_and_the_person_is_told_once(
    tmp_path: Path, model: ModelServer
) -> None:
    async with SupermemoryService() as service:
        settings = memory(service, recall_seconds=0.4)
        async with process(tmp_path / "home", model, memory=settings) as run:
            await ready(run)
            service.fault = "hang"
            assert [await say(run, f"question {number}", f"m{number}") for number in range(4)] == ["answered"] * 4
            await run.quiet()
            assert sum("does not answer" in text for text in run.texts()) == 1
            assert sum("search" in path for _, path, _ in service.requests) <= 3, "one for each place, and no more"
            assert run.core.memory is not None
            assert run.core.memory.manager.circuit.state is not State.FINE
            waiting, _ = await run.store.memory_outbox.counts("supermemory")
            assert waiting == 4


@pytest.mark.parametrize("fault", ["500", "garbage", "flood", "types"])
async def test_a_service_that_fails_or_lies_never_touches_the_turn(
    tmp_path: Path, model: ModelServer, fault: Any
) -> None:
    async with SupermemoryService() as service, process(tmp_path / "home", model, memory=memory(service)) as run:
        await ready(run)
        service.fault = fault
        assert await say(run, "hello", "m1") == "answered"
        assert "xxxxx" not in body(model)
        service.fault = None
        assert run.core.memory is not None
        await run.core.memory.writeback.step()
        await run.quiet()


async def test_an_interrupted_turn_is_not_told(tmp_path: Path, model: ModelServer) -> None:
    model.script(Step(when="block", silent=True))
    async with SupermemoryService() as service, process(tmp_path / "home", model, memory=memory(service)) as run:
        await ready(run)
        await run.platform.hear("block", message_id="m1", sender="ann")
        await model.wait_calls(1)
        await say(run, "/stop", "m2")
        assert (await run.fate("m1"))[0] == "cancelled"
        assert await say(run, "hello", "m3") == "answered"
        await kept(run)
        told = [text for space in service.spaces.values() for texts in space.values() for text in texts]
        assert [text.partition("\n")[0] for text in told] == ["User: hello"]


async def test_the_model_may_look_up_and_keep_things_itself(tmp_path: Path, model: ModelServer) -> None:
    access = ACCESS.__class__(
        **{field: getattr(ACCESS, field) for field in ACCESS.__slots__} | {"owner_tools": frozenset({"memory"})}
    )
    settings = {"mode": "tools"}
    model.script(
        Step(tool_calls=({"name": "keep_memory", "arguments": {"text": "Ann flies gliders."}},)),
        Step(text="kept"),
        Step(tool_calls=({"name": "recall_memory", "arguments": {"query": "gliders"}},)),
        Step(text="found"),
    )
    async with (
        SupermemoryService() as service,
        process(tmp_path / "home", model, access=access, memory=memory(service, **settings)) as run,
    ):
        await ready(run)
        assert await say(run, "remember that", "m1") == "answered"
        await kept(run)
        assert await say(run, "what do I fly?", "m2") == "answered"
        assert "Ann flies gliders." in body(model)
        assert "<memory-context>" not in body(model)


async def test_what_the_memory_files_keep_is_mirrored(tmp_path: Path, model: ModelServer) -> None:
    access = replace(ACCESS, owner_tools=frozenset({"memory"}))
    steps = [{"action": "add", "text": "Ann has a boat."}, {"action": "remove", "part": "boat"}]
    model.script(Step(tool_calls=({"name": "memory", "arguments": {"target": "user", "steps": steps}},)), "kept")
    async with (
        SupermemoryService() as service,
        process(tmp_path / "home", model, access=access, memory=memory(service)) as run,
    ):
        await ready(run)
        assert await say(run, "remember that", "m1") == "answered"
        await kept(run)
        assert "Ann has a boat." in json.dumps(service.spaces)


async def test_the_prefix_of_the_requests_stays_whole(tmp_path: Path, model: ModelServer) -> None:
    async with SupermemoryService() as service, process(tmp_path / "home", model, memory=memory(service)) as run:
        await ready(run)
        for number, text in enumerate(("my drink is tea", "which drink?", "and which drink now?")):
            await say(run, text, f"m{number}")
            await kept(run)
        requests = [call.json() for call in model.calls]
        for before, after in itertools.pairwise(requests):
            assert after["messages"][: len(before["messages"])] == before["messages"]
            assert after.get("tools") == before.get("tools")


async def test_openviking_hears_of_the_end_of_a_conversation_after_all_its_turns(
    tmp_path: Path, model: ModelServer
) -> None:
    async with OpenVikingService() as service:
        settings = memory(service, provider="openviking", openviking={"base_url": service.url, "api_key": "${KEY}"})
        async with process(tmp_path / "home", model, memory=settings) as run:
            await ready(run)
            await say(run, "my favourite drink is tea", "m1")
            await say(run, "/new", "m2")
            async with asyncio.timeout(10):
                while (await run.store.memory_outbox.counts("openviking"))[0]:
                    await asyncio.sleep(0.01)
            assert len(service.commits) == 1
            await say(run, "which drink?", "m3")
            assert "my favourite drink is tea" in body(model)


async def test_the_memory_inside_the_daemon_needs_no_service(tmp_path: Path, model: ModelServer) -> None:
    if missing("local"):
        pytest.skip("the extra semantic is not installed")
    settings = {"provider": "local"}
    async with process(tmp_path / "home", model, memory=settings) as run:
        await ready(run)
        await say(run, "my sister has moved to Lisbon", "m1")
        async with asyncio.timeout(10):
            while (await run.store.memory_outbox.counts("local"))[0]:
                await asyncio.sleep(0.01)
        await say(run, "/new", "m2")
        await say(run, "in which country do my relatives live?", "m3")
        assert "moved to Lisbon" in body(model)
        await say(run, "where does she live?", "m4", ROOM, mentions_us=True)
        assert "Lisbon" not in body(model)
