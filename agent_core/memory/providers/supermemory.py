"""Supermemory: documents and the memories drawn from them, by namespace (extra `supermemory`). A place is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from agent_core.memory.providers import bounded
from agent_core.memory.providers.bounded import texts
from agent_core.memory.providers.ports import FactRecord, Place, ProviderLied, TurnRecord
from agent_core.memory.providers.remote import Remote, each_of

if TYPE_CHECKING:
    from supermemory import AsyncSupermemory

FOUND = 10
FACTS = 12


class SupermemoryMemory(Remote["AsyncSupermemory"]):
    """See `MemoryProvider` and `HasStaticBlock`."""

    module = "supermemory"

    async def _make(self) -> AsyncSupermemory:
        from supermemory import AsyncSupermemory  # noqa: PLC0415 - an extra

        settings = self.settings
        self._http = bounded.async_client()
        return AsyncSupermemory(
            base_url=settings.base_url or None,
            api_key=settings.api_key,
            httpx_client=self._http,
            timeout=bounded.READ,  # without it the SDK takes away the bound of the client that it is given
            max_retries=0,
        )

    async def _release(self, client: AsyncSupermemory) -> None:
        await self._http.aclose()

    async def is_available(self) -> str:
        """See `MemoryProvider`."""
        await self._with("look", lambda client: client.organization.get())
        return "its key is accepted"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""

        async def one(place: Place) -> Sequence[str]:
            async def ask(client: AsyncSupermemory) -> Sequence[str]:
                found = await client.search(place, query=query, limit=FOUND)
                return texts([row.memory or row.chunk or "" for row in found.results], "search")

            return await self._known("search", ask)

        return await each_of(places, one)

    async def static_block(self, places: Sequence[Place]) -> Sequence[str]:
        """See `HasStaticBlock`: what hardly ever changes."""

        async def one(place: Place) -> Sequence[str]:
            async def ask(client: AsyncSupermemory) -> Sequence[str]:
                found = await client.profile(place)
                return texts([fact.memory for fact in found.profile.static[:FACTS]], "profile")

            return await self._known("profile", ask)

        return await each_of(places, one)

    async def _known(self, what: str, ask: Callable[[AsyncSupermemory], Awaitable[Sequence[str]]]) -> Sequence[str]:
        """A namespace begins with the first document: before that there is nothing in it."""

        async def there(client: AsyncSupermemory) -> Sequence[str]:
            from supermemory import NotFoundError  # noqa: PLC0415 - an extra

            try:
                return await ask(client)
            except NotFoundError:
                return []

        return await self._with(what, there)

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`. The turn is a document with an id of its own."""
        await self._add(turn, f"User: {turn.said}\n\nAssistant: {turn.answered}")

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`."""
        await self._add(fact, fact.text)

    async def _add(self, what: TurnRecord | FactRecord, content: str) -> None:
        async def tell(client: AsyncSupermemory) -> None:
            from supermemory import NotFoundError  # noqa: PLC0415 - an extra

            name = what.key.replace(":", "-")
            if what.again:  # the same id again would append, not replace
                try:
                    await client.documents.get(what.place, name)
                except NotFoundError:
                    pass
                else:
                    return
            told = await client.add(
                what.place,
                content=content,
                id=name,
                metadata={"session": what.session_id},
                date=what.at.isoformat(),
                task_type="memory",
            )
            if not isinstance(told.id, str):  # its models hold whatever came
                raise ProviderLied("add: no id")

        await self._with("add", tell)
