"""One suite over every external memory: the genuine SDK against a counterpart of its service on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.memory.providers import bounded
from agent_core.memory.providers.factory import MODULES, make_provider, missing
from agent_core.memory.providers.ports import (
    FactRecord,
    HasStaticBlock,
    HearsCompression,
    HearsSessions,
    HearsTurnStart,
    MemoryProvider,
    Place,
    PrefetchesAhead,
    ProviderAway,
    ProviderError,
    ProviderLied,
    ProviderRefused,
    TurnRecord,
    place_of,
)
from agent_core.memory.providers.settings import ProviderName, ProviderSettings
from state.ids import SessionId
from tests.counterparts.memory_hindsight import HindsightService
from tests.counterparts.memory_honcho import HonchoService
from tests.counterparts.memory_mem0 import Mem0Service
from tests.counterparts.memory_openviking import OpenVikingService
from tests.counterparts.memory_service import FLOOD, MemoryService
from tests.counterparts.memory_supermemory import SupermemoryService

SERVICES: dict[ProviderName, type[MemoryService]] = {
    "honcho": HonchoService,
    "mem0": Mem0Service,
    "hindsight": HindsightService,
    "supermemory": SupermemoryService,
    "openviking": OpenVikingService,
}
ADA, BEN, ROOM = (place_of("tidings", label) for label in ("p:ada", "p:ben", "room:r"))
SESSION = SessionId("s-0123456789")
NO_STORE: Any = None
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Desk:
    """A provider and its service."""

    provider: MemoryProvider
    service: Any

    async def turn(self, said: str, place: Place = ADA, key: str = "turn:t-1", *, again: bool = False) -> None:
        if isinstance(self.provider, HearsTurnStart):
            await self.provider.on_turn_start(SESSION, [place])
        await self.provider.on_turn_end(
            TurnRecord(
                key=key, place=place, session_id=SESSION, said=said, answered="I see.", at=AT, again=again
            )
        )

    async def fact(self, text: str, place: Place = ADA, key: str = "fact:1", *, again: bool = False) -> None:
        fact = FactRecord(key=key, place=place, session_id=SESSION, text=text, at=AT, again=again)
        await self.provider.on_memory_write(fact)

    async def settle(self) -> None:
        """Until the service has drawn its memories."""
        if isinstance(self.provider, HearsCompression):
            for place in (ADA, BEN, ROOM):
                if isinstance(self.provider, HearsSessions):
                    await self.provider.on_session_start(SESSION, place)
                await self.provider.on_pre_compress(SESSION, place)

    async def finds(self, query: str, *places: Place) -> str:
        for place in places:
            if isinstance(self.provider, HearsTurnStart):
                await self.provider.on_turn_start(SESSION, [place])
        return "\n".join(await self.provider.prefetch(query, places))


@pytest.fixture(params=list(SERVICES))
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    name: ProviderName = request.param
    if missing(name):
        pytest.skip(f"{MODULES[name]} is not installed")
    async with SERVICES[name]() as service:
        settings = ProviderSettings(name=name, base_url=service.url, api_key=service.key)
        provider = make_provider(settings, store=NO_STORE, home=tmp_path)
        yield Desk(provider, service)
        await provider.shutdown()


async def test_it_is_there_and_a_wrong_key_is_told(desk: Desk, tmp_path: Path) -> None:
    assert await desk.provider.is_available()
    settings = ProviderSettings(name=desk.provider.name, base_url=desk.service.url, api_key="wrong")  # type: ignore[arg-type]
    other = make_provider(settings, store=NO_STORE, home=tmp_path)
    with pytest.raises(ProviderAway, match=r"401|UNKNOWN|UNAUTH"):
        await other.prefetch("tea", [ADA])
    await other.shutdown()


async def test_what_is_kept_is_found_at_its_place_and_nowhere_else(desk: Desk) -> None:
    await desk.turn("My favourite drink is tea.")
    await desk.turn("The gate code of the garden is 4711.", ROOM, "turn:t-2")
    await desk.fact("Ada flies gliders.")
    await desk.settle()
    assert "tea" in await desk.finds("which drink?", ADA)
    assert "gliders" in await desk.finds("gliders", ADA)
    assert "4711" in await desk.finds("gate code", ROOM)
    assert "4711" in await desk.finds("gate code", ADA, ROOM), "who was in the room"
    for query in ("drink tea", "gliders"):
        assert await desk.finds(query, ROOM) == "", "a room never recalls a private talk"
        assert await desk.finds(query, BEN) == "", "nor does somebody else"
    assert await desk.finds("gate code", BEN) == ""


async def test_what_was_told_already_is_not_told_twice(desk: Desk) -> None:
    await desk.turn("My favourite drink is tea.")
    await desk.turn("My favourite drink is tea.", again=True)
    await desk.fact("Ada flies gliders.")
    await desk.fact("Ada flies gliders.", again=True)
    await desk.settle()
    assert (await desk.finds("which drink?", ADA)).count("tea") == 1
    if desk.provider.name != "openviking":  # its commit has taken the message away: it reconciles memories itself
        assert (await desk.finds("gliders", ADA)).count("gliders") == 1


async def test_words_in_every_script_arrive_as_they_are(desk: Desk) -> None:
    words = "Käthe mag 東京 und ชา 🫖 <b>\\n</b> \"quoted\" tea"
    await desk.turn(words)
    await desk.settle()
    assert words in await desk.finds("tea", ADA)


async def test_nothing_is_known_of_a_place_that_is_new(desk: Desk) -> None:
    assert list(await desk.provider.prefetch("tea", [BEN])) == []


@pytest.mark.parametrize("fault", ["hang", "500", "429", "garbage", "types", "flood", "packed", "drop"])
async def test_faults_are_told_by_their_remedy_in_time_and_without_words(
    desk: Desk, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "READ", 0.5)
    await desk.provider.is_available()
    desk.service.fault = fault
    began = time.monotonic()
    for work in (lambda: desk.provider.prefetch("tea", [ADA]), lambda: desk.turn("My drink is tea.")):
        with pytest.raises(ProviderError) as caught:
            await asyncio.wait_for(work(), 20)
        assert isinstance(caught.value, ProviderAway), "it is worth another try"
        assert "words that were said" not in str(caught.value)
        if fault in ("flood", "packed", "types"):
            assert isinstance(caught.value, ProviderLied) or fault == "types", caught.value
    assert time.monotonic() - began < 20
    assert desk.service.sent < 2 * FLOOD - 1_000_000, "it is not read to its end"


async def test_what_is_not_taken_is_refused(desk: Desk) -> None:
    await desk.provider.is_available()
    desk.service.fault = "422"
    with pytest.raises(ProviderRefused):
        await desk.turn("My drink is tea.")


async def test_it_comes_back_after_a_fault(desk: Desk) -> None:
    desk.service.fault = "500"
    with pytest.raises(ProviderAway):
        await desk.turn("My favourite drink is tea.")
    desk.service.fault = None
    await desk.turn("My favourite drink is tea.", again=True)
    await desk.settle()
    assert "tea" in await desk.finds("which drink?", ADA)


async def test_a_call_can_be_cancelled_and_others_go_on(desk: Desk) -> None:
    await desk.provider.is_available()
    desk.service.fault = "hang"
    hung = asyncio.create_task(desk.provider.prefetch("tea", [ADA]))
    before = len(desk.service.requests)
    await until(lambda: len(desk.service.requests) > before)
    desk.service.fault = None
    assert await asyncio.wait_for(desk.provider.is_available(), 10)
    hung.cancel()
    await asyncio.wait([hung], timeout=5)
    assert hung.cancelled()


async def test_nothing_of_the_person_is_in_the_names_of_places(desk: Desk) -> None:
    await desk.turn("tea")
    assert "p:ada" not in str(desk.service.requests)
    assert any(ADA in str(one) for one in desk.service.requests)


async def test_special_abilities(desk: Desk) -> None:
    provider, service = desk.provider, desk.service
    await desk.turn("My favourite drink is tea.")
    if isinstance(service, HonchoService):
        service.cards[ADA] = ["Ada is a pilot."]
        assert isinstance(provider, PrefetchesAhead)
        assert list(await provider.queue_prefetch("tea", [ADA])) == [f"{ADA} is somebody."]
        agent = service.sessions[f"{SESSION}-{ADA[-8:]}"]["tidings-agent"]
        assert agent["observe_me"] is False, "no picture is made of the agent"
    if isinstance(service, SupermemoryService):
        service.static[ADA] = ["Ada is a pilot."]
    if isinstance(provider, HasStaticBlock):
        assert list(await provider.static_block([ADA, BEN])) == ["Ada is a pilot."]
    if isinstance(service, Mem0Service):
        service.ignores_filters = True
        assert await desk.finds("tea", BEN) == "", "a server that ignores the filter betrays nobody"
    if isinstance(service, OpenVikingService):
        await desk.settle()
        service.leaks = True
        assert await desk.finds("tea", BEN) == "", "what comes from elsewhere is left out"
        assert all(one["memory_policy"]["self"]["enabled"] is False for one in service.sessions.values())
        assert all(one["auto_commit_policy"]["idle_timeout_seconds"] == 300 for one in service.sessions.values())
    if isinstance(service, HindsightService):
        assert len(set(service.operations)) == len(service.operations) == 1


async def test_mem0s_client_tells_its_maker_nothing_and_leaves_the_home_folder_alone(tmp_path: Path) -> None:
    """By itself it reports each call to a third party and writes into the home folder of the user."""
    if missing("mem0"):
        pytest.skip("mem0 is not installed")
    script = f"""
import asyncio, pathlib, sys
from agent_core.memory.providers.mem0 import Mem0Memory
from agent_core.memory.providers.settings import ProviderSettings
settings = ProviderSettings(name="mem0", base_url="http://127.0.0.1:9", api_key="k")
provider = Mem0Memory(settings, pathlib.Path({str(tmp_path / "own")!r}))
async def main():
    try:
        await provider.is_available()
    except Exception as error:
        print(type(error).__name__)
    await provider.shutdown()
asyncio.run(main())
telemetry = sys.modules["mem0.memory.telemetry"]
print(telemetry.MEM0_TELEMETRY, telemetry.client_telemetry.posthog)
"""
    environ = {**os.environ, "HOME": str(tmp_path / "home")}
    environ.pop("MEM0_TELEMETRY", None)
    environ.pop("MEM0_DIR", None)
    (tmp_path / "home").mkdir()
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["ProviderAway", "False", "None"], done.stderr[-2000:]
    assert list((tmp_path / "home").iterdir()) == []
    assert (tmp_path / "own").is_dir()


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)
