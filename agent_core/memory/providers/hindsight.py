"""Hindsight: a bank of facts and experiences for each place (extra `hindsight`)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_core.memory.providers import bounded
from agent_core.memory.providers.bounded import texts
from agent_core.memory.providers.ports import FactRecord, Place, ProviderAway, TurnRecord
from agent_core.memory.providers.remote import Remote, each_of
from state.ids import SessionId

if TYPE_CHECKING:
    import aiohttp
    from hindsight_client import Hindsight

SERVER = "http://127.0.0.1:8888"
TOKENS = 1_200
"""Of what one bank is asked for."""
MISSION = "Remember what lasts about the people of this conversation: who they are, what they want, what was decided."
_KEYS = uuid.UUID("5f0c2a2e-6f0e-5d55-9b62-3a3c5c1f6a10")


class HindsightMemory(Remote["Hindsight"]):
    """See `MemoryProvider` and `HearsTurnStart`."""

    module = "hindsight_client"

    _banks: frozenset[Place] = frozenset()

    async def _make(self) -> Hindsight:
        from hindsight_client import Hindsight  # noqa: PLC0415 - an extra

        settings = self.settings
        client = Hindsight(
            base_url=settings.base_url or SERVER,
            api_key=settings.api_key or None,
            timeout=bounded.READ,
            user_agent="tidings",
            max_attempts=1,
        )
        rest = client._api_client.rest_client  # noqa: SLF001 - it offers no other way to bound what is read
        rest._pool_manager = _bounded_session()  # noqa: SLF001
        return client

    async def _release(self, client: Hindsight) -> None:
        await client.aclose()  # type: ignore[no-untyped-call, unused-ignore]

    async def is_available(self) -> str:
        """See `MemoryProvider`."""
        found = await self._with("version", lambda client: client.aget_version())
        return f"version {found.api_version}"

    async def on_turn_start(self, session_id: SessionId, places: Sequence[Place]) -> None:
        """See `HearsTurnStart`: the bank of the nearest place exists before it is asked anything."""
        await self._bank(places[0])

    async def _bank(self, place: Place) -> None:
        if place in self._banks:
            return
        await self._with("bank", lambda client: client.acreate_bank(place, name=place, retain_mission=MISSION))
        if len(self._banks) < 10_000:
            self._banks |= {place}

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""

        async def one(place: Place) -> Sequence[str]:
            async def ask(client: Hindsight) -> Sequence[str]:
                from hindsight_client_api.exceptions import NotFoundException  # noqa: PLC0415 - an extra

                try:
                    found = await client.arecall(place, query, max_tokens=TOKENS, budget="low")
                except NotFoundException:  # a bank begins with the first thing that is kept in it
                    return []
                return texts([row.text for row in found.results], "recall")

            return await self._with("recall", ask)

        return await each_of(places, one)

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`. The turn is a document: told again, it replaces itself."""
        content = f"User: {turn.said}\n\nAssistant: {turn.answered}"
        await self._retain(turn, content, "a conversation with the agent")

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`."""
        await self._retain(fact, fact.text, "a fact that was to be remembered")

    async def _retain(self, what: TurnRecord | FactRecord, content: str, context: str) -> None:
        await self._bank(what.place)
        told = await self._with(
            "retain",
            lambda client: client.aretain(
                what.place,
                content,
                timestamp=what.at,
                context=context,
                document_id=what.key,
                metadata={"session": what.session_id},
                retain_async=True,
                operation_id=str(uuid.uuid5(_KEYS, what.key)),
            ),
        )
        if not told.success:
            raise ProviderAway("retain: no success")


def _bounded_session() -> aiohttp.ClientSession:
    """The SDK's session, with an end to what it reads."""
    import aiohttp  # noqa: PLC0415 - only where it is used

    class Cut(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                parts, room = [], bounded.ANSWER_BYTES
                async for part in self.content.iter_any():
                    room -= len(part)
                    if room < 0:
                        self.close()
                        raise bounded.TooLong
                    parts.append(part)
                self._body = b"".join(parts)
            return self._body

    # what is packed although it was not to be is left packed, and is then no JSON
    return aiohttp.ClientSession(trust_env=True, headers=bounded.PLAIN, response_class=Cut, auto_decompress=False)
