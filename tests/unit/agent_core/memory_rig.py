"""A provider that does what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.memory.providers.manager import MemoryManager
from agent_core.memory.providers.ports import FactRecord, Place, TurnRecord
from agent_core.memory.providers.settings import Mode, ProviderSettings
from state.ids import SessionId


@dataclass
class FakeProvider:
    """Knows texts by place. `fault` is raised and `hang` waited for by every call."""

    name: str = "honcho"
    known: dict[Place, list[Any]] = field(default_factory=dict)
    standing: list[str] = field(default_factory=list)
    fault: BaseException | None = None
    hang: asyncio.Event | None = None
    answer: Any = None
    calls: list[str] = field(default_factory=list)
    turns: list[TurnRecord] = field(default_factory=list)
    facts: list[FactRecord] = field(default_factory=list)
    closed: bool = False

    async def _do(self, what: str) -> None:
        self.calls.append(what)
        if self.hang is not None:
            await self.hang.wait()
        if self.fault is not None:
            raise self.fault

    async def is_available(self) -> str:
        await self._do("look")
        return "fine"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        await self._do("prefetch")
        if self.answer is not None:
            return self.answer  # type: ignore[no-any-return]
        return [text for place in places for text in self.known.get(place, [])]

    async def on_turn_end(self, turn: TurnRecord) -> None:
        await self._do("turn")
        self.turns.append(turn)

    async def on_memory_write(self, fact: FactRecord) -> None:
        await self._do("fact")
        self.facts.append(fact)

    async def shutdown(self) -> None:
        self.closed = True


@dataclass
class FullProvider(FakeProvider):
    """Implements every ability there is."""

    heard: list[str] = field(default_factory=list)

    async def on_turn_start(self, session_id: SessionId, places: Sequence[Place]) -> None:
        await self._do("turn start")

    async def on_session_start(self, session_id: SessionId, place: Place) -> None:
        await self._do("session start")

    async def on_session_end(self, session_id: SessionId, place: Place) -> None:
        await self._do("session end")

    async def static_block(self, places: Sequence[Place]) -> Sequence[str]:
        await self._do("static")
        return self.standing

    async def queue_prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        await self._do("ahead")
        return [f"ahead of {query}"]

    async def on_pre_compress(self, session_id: SessionId, place: Place) -> None:
        await self._do("compress")

    async def on_delegation(self, fact: FactRecord, task: str) -> None:
        await self._do("delegation")
        self.heard.append(task)


class Spawned:
    """Background tasks that a test waits for."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    async def done(self) -> None:
        await asyncio.gather(*self.tasks)


def manager_of(
    provider: FakeProvider, *, mode: Mode = "hybrid", seconds: float = 0.05, spawn: Spawned | None = None
) -> MemoryManager:
    """A manager with short bounds."""
    settings = ProviderSettings(name="honcho", mode=mode, recall_seconds=seconds)
    return MemoryManager(provider, settings, spawn=spawn or Spawned())
