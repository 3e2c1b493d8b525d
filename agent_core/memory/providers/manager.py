"""The manager of the external memory: the only one who calls a provider.

Whatever a provider does, a turn goes on: every call is bounded and goes through the circuit, what comes back is
cut, and an outage is told once. What a provider is to keep does not go through here but through the durable outbox
(`agent_core.memory.providers.writeback`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import structlog

from agent_core.memory.providers.circuit import Circuit, State
from agent_core.memory.providers.ports import (
    HasStaticBlock,
    HearsCompression,
    HearsSessions,
    HearsTurnStart,
    MemoryProvider,
    Place,
    PrefetchesAhead,
    ProviderError,
    place_of,
)
from agent_core.memory.providers.settings import ProviderSettings
from agent_core.ports import Asked
from state.audience import PUBLIC, Viewer
from state.ids import SessionId

log = structlog.get_logger("agent_core.memory")

PLACES = 6
"""Places that one recall looks into; the nearest come first, and more is told in the log."""
QUERY_CHARS = 2_000
START = 3.0
"""Seconds for the hooks at the start of a turn or a session."""
AHEAD = 30.0
COMPRESS = 8.0
SHUTDOWN = 5.0
KEPT_SESSIONS = 500
TOTAL_CHARS = 8_000
"""Of everything that one recall brings."""

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class MemoryManager:
    """The active provider, bounded. It is a `Recall`."""

    def __init__(self, provider: MemoryProvider, settings: ProviderSettings, *, spawn: Spawn) -> None:
        self.provider = provider
        self.settings = settings
        self.circuit = Circuit(provider.name, provider.is_available)
        self._spawn = spawn
        self._ahead: OrderedDict[tuple[SessionId, tuple[Place, ...]], Sequence[str]] = OrderedDict()
        self._begun: OrderedDict[SessionId, None] = OrderedDict()
        self._told: OrderedDict[SessionId, int] = OrderedDict()
        self._cut_told = False

    @property
    def name(self) -> str:
        """See `Recall`."""
        return self.settings.name

    # -- the start of a turn

    async def recall(self, asked: Asked) -> str:
        """See `Recall`. Costs nothing while the provider is left alone."""
        if self.circuit.state is not State.FINE:
            return ""
        places = self.places(asked.viewer)
        if not places:
            return ""
        await self._hear_start(asked, places)
        if self.settings.mode == "tools":
            return ""
        query = asked.query.strip()[:QUERY_CHARS]
        found = list(self._ahead.pop((asked.session_id, tuple(places)), ()))
        if query:
            found += await self._asked(lambda: self.provider.prefetch(query, places), "prefetch", self._seconds)
        return self.written(found)

    @property
    def _seconds(self) -> float:
        return self.settings.recall_seconds

    async def _hear_start(self, asked: Asked, places: Sequence[Place]) -> None:
        provider, session_id = self.provider, asked.session_id
        if isinstance(provider, HearsSessions) and session_id not in self._begun:
            _keep(self._begun, session_id, None)
            await self._told_to(lambda: provider.on_session_start(session_id, places[0]), "session start")
        if isinstance(provider, HearsTurnStart):
            await self._told_to(lambda: provider.on_turn_start(session_id, places), "turn start")

    async def look_up(self, query: str, viewer: Viewer) -> Sequence[str]:
        """What is known about the query, for a tool. Raises a ProviderError."""
        places = self.places(viewer)
        query = query.strip()[:QUERY_CHARS]
        if not query or not places:
            return []
        found = await self.circuit.call(lambda: self.provider.prefetch(query, places), "look-up", self._seconds)
        return self._checked(found)

    async def standing(self, viewer: Viewer) -> str:
        """The provider's block of a system prompt that is being frozen, "" for none. Bounded; never raises."""
        provider, places = self.provider, self.places(viewer)
        if not isinstance(provider, HasStaticBlock) or self.settings.mode == "tools" or not places:
            return ""
        return self.written(await self._asked(lambda: provider.static_block(places), "static block", START))

    # -- afterwards

    def turn_ended(self, session_id: SessionId, query: str, viewer: Viewer) -> None:
        """A turn was answered: what takes long is asked for now, for the next one. Never blocks."""
        provider, places = self.provider, self.places(viewer)
        query = query.strip()[:QUERY_CHARS]
        if not isinstance(provider, PrefetchesAhead) or self.settings.mode == "tools" or not query or not places:
            return

        async def ahead() -> None:
            found = await self._asked(lambda: provider.queue_prefetch(query, places), "prefetch ahead", AHEAD)
            if found:
                _keep(self._ahead, (session_id, tuple(places)), found)

        self._spawn(ahead(), f"memory-ahead:{session_id}")

    async def before_compression(self, session_id: SessionId, viewer: Viewer) -> None:
        """The older part of a session is about to be summed up. Bounded; never raises."""
        provider, places = self.provider, self.places(viewer)
        if isinstance(provider, HearsCompression) and places:
            await self._told_to(lambda: provider.on_pre_compress(session_id, places[0]), "compression", COMPRESS)

    def forget(self, session_id: SessionId) -> None:
        """What was fetched ahead for a session is not used any more."""
        for key in [one for one in self._ahead if one[0] == session_id]:
            del self._ahead[key]

    # -- what people hear of it

    def notice(self, session_id: SessionId) -> str:
        """A sentence about an outage, once a session and outage; "" where there is nothing to be told."""
        if self.circuit.state is State.FINE or self._told.get(session_id) == self.circuit.outages:
            return ""
        _keep(self._told, session_id, self.circuit.outages)
        return f"the memory service {self.name} does not answer, so nothing is recalled from it until it is back"

    # -- the life

    async def watch(self) -> None:
        """Notice that the provider is back, until cancelled. A task of the composition root."""
        await self.circuit.watch()

    async def shutdown(self) -> None:
        """Release the provider. Bounded; never raises."""
        self.circuit.drop()
        try:
            async with asyncio.timeout(SHUTDOWN):
                await self.provider.shutdown()
        except Exception:  # the boundary of a provider: the process ends, whatever its client says
            log.exception("memory.shutdown_failed", provider=self.name)

    # -- places and texts

    def place(self, label: str) -> Place:
        """The place of an audience label."""
        return place_of(self.settings.namespace, label)

    def places(self, viewer: Viewer) -> list[Place]:
        """The places whose content the viewer may see, the nearest first: the room, the person, what is public, and
        rooms the person was in. None for an operator who sees everything: that is no audience."""
        if viewer.everything:
            return []
        room = () if viewer.room is None else (viewer.room,)
        labels = list(dict.fromkeys((*room, *viewer.persons, PUBLIC, *viewer.rooms)))
        if len(labels) > PLACES:
            log.info("memory.places_left_out", provider=self.name, count=len(labels) - PLACES)
        return [self.place(label) for label in labels[:PLACES]]

    def written(self, found: Sequence[str]) -> str:
        """The texts as a list, each once, within the bound."""
        lines: list[str] = []
        room = TOTAL_CHARS
        for one in dict.fromkeys(" ".join(text.split()) for text in found):
            if len(one) > room:
                break
            lines.append(f"- {one}")
            room -= len(one)
        return "\n".join(lines)

    async def _asked(self, work: Callable[[], Awaitable[Sequence[str]]], what: str, seconds: float) -> Sequence[str]:
        try:
            return self._checked(await self.circuit.call(work, what, seconds))
        except ProviderError as error:
            log.debug("memory.nothing", provider=self.name, what=what, error=str(error))
            return []

    async def _told_to(self, work: Callable[[], Awaitable[None]], what: str, seconds: float = START) -> None:
        try:
            await self.circuit.call(work, what, seconds)
        except ProviderError as error:
            log.debug("memory.not_told", provider=self.name, what=what, error=str(error))

    def _checked(self, found: Sequence[str]) -> Sequence[str]:
        """Only texts, and not too many: the last line of defence, whatever a provider's own code lets through."""
        given = list(found) if isinstance(found, list | tuple) else [None]
        kept = [one[:TOTAL_CHARS] for one in given[:100] if isinstance(one, str)]
        if kept != given and not self._cut_told:
            self._cut_told = True
            log.warning("memory.cut", provider=self.name, given=type(found).__name__, kept=len(kept))
        return kept


def _keep(where: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """The newest `KEPT_SESSIONS` are kept."""
    where[key] = value
    where.move_to_end(key)
    while len(where) > KEPT_SESSIONS:
        where.popitem(last=False)
