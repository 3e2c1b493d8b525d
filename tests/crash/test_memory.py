"""kill -9 between an answer and what the external memory is told of it: at least once, in order, and not twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_core.memory.providers.factory import missing
from tests.counterparts.memory_supermemory import SupermemoryService
from tests.crash.conftest import World
from tests.crash.harness import rows

pytestmark = pytest.mark.skipif(bool(missing("supermemory")), reason="the extra supermemory is not installed")


def memory(service: SupermemoryService) -> dict[str, Any]:
    service.key = "k" * 20  # the harness's MODEL_API_KEY
    return {"provider": "supermemory", "supermemory": {"base_url": service.url, "api_key": "${MODEL_API_KEY}"}}


def told(service: SupermemoryService) -> list[str]:
    """The first lines of what the service holds, in order."""
    return [
        text.partition("\n")[0] for space in service.spaces.values() for texts in space.values() for text in texts
    ]


async def until(true: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.05)


async def test_what_was_answered_before_a_kill_is_told_after_it(world: World) -> None:
    async with SupermemoryService() as service:
        service.fault = "500"
        world.configure(memory=memory(service))
        daemon, client = await world.start()
        for number in (1, 2, 3):
            await client.post(f"fact {number}", f"m{number}")
            assert (await client.settled(f"m{number}"))["fate"] == "answered"
        daemon.kill()
        assert rows(world.home, "SELECT count(*) FROM memory_outbox WHERE state = 'waiting'") == [(3,)]
        service.fault = None
        daemon, client = await world.start()
        await until(lambda: len(told(service)) == 3)
        assert told(service) == [f"User: fact {number}" for number in (1, 2, 3)]
        await until(lambda: rows(world.home, "SELECT count(*) FROM memory_outbox") == [(0,)])
        assert await daemon.terminate() == 0


async def test_what_arrived_without_our_knowing_is_not_told_twice(world: World) -> None:
    async with SupermemoryService() as service:
        service.silent = True
        world.configure(memory=memory(service))
        daemon, client = await world.start()
        await client.post("fact 1", "m1")
        assert (await client.settled("m1"))["fate"] == "answered"
        await until(lambda: len(told(service)) == 1)  # it has it, and the daemon waits for the answer
        daemon.kill()
        service.silent = False
        await world.start()
        await until(lambda: rows(world.home, "SELECT count(*) FROM memory_outbox") == [(0,)])
        assert told(service) == ["User: fact 1"]


async def test_a_stop_names_what_is_still_to_be_told(world: World) -> None:
    async with SupermemoryService() as service:
        service.fault = "hang"
        world.configure(memory=memory(service))
        daemon, client = await world.start()
        await client.post("fact 1", "m1")
        assert (await client.settled("m1"))["fate"] == "answered"
        _, metrics = await client.raw("/metrics")
        assert "tidings_memory_writes" in metrics
        assert await daemon.terminate() == 0
        (left,) = [one for one in daemon.told("stop.left") if one.get("stage") == "memory"]
        assert "1 writes to the memory supermemory" in str(left)
