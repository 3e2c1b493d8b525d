"""Mem0: facts that it draws from conversations, by user (extra `mem0`). A place is a user."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_core.memory.providers import bounded
from agent_core.memory.providers.bounded import field, texts
from agent_core.memory.providers.lane import Lane
from agent_core.memory.providers.ports import FactRecord, Place, ProviderLied, TurnRecord
from agent_core.memory.providers.remote import Remote
from agent_core.memory.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from mem0 import MemoryClient

T = TypeVar("T")

FOUND = 12
MARK = "tidings"
"""The field of a memory's metadata that holds its identity here."""


class Mem0Memory(Remote["MemoryClient"]):
    """See `MemoryProvider`. The SDK writes a file of its own; it goes below `folder`."""

    def __init__(self, settings: ProviderSettings, folder: Path) -> None:
        super().__init__(settings)
        self._folder = folder

    async def _make(self) -> MemoryClient:
        return await Lane.blocking(self._connect)

    def _connect(self) -> MemoryClient:
        # read by the SDK while it is imported: it would tell its maker about each call, and write into ~/.mem0
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ.setdefault("MEM0_DIR", str(self._folder))
        from mem0 import MemoryClient  # noqa: PLC0415 - an extra

        settings = self.settings
        http = bounded.client()
        try:
            return MemoryClient(api_key=settings.api_key, host=settings.base_url or None, client=http)
        except BaseException:  # it asks about the key while it is made
            http.close()
            raise

    async def _release(self, client: MemoryClient) -> None:
        await Lane.blocking(client.client.close)

    async def _call(self, what: str, work: Callable[[MemoryClient], T]) -> T:
        return await self._with(what, lambda client: Lane.blocking(lambda: work(client)))

    async def is_available(self) -> str:
        """See `MemoryProvider`."""
        nobody = {"user_id": self.settings.namespace}
        await self._call("look", lambda client: client.get_all(filters=nobody, page=1, page_size=1))
        return "its key is accepted"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""
        filters = {"OR": [{"user_id": place} for place in places]}
        found = await self._call("search", lambda client: client.search(query, filters=filters, top_k=FOUND))
        rows = field(found, "results", what="search")
        if not isinstance(rows, list):
            raise ProviderLied("search: no list of results")
        allowed = set(places)
        # a server that ignores the filter must not bring one person's memories before another
        mine = [row for row in rows if isinstance(row, dict) and row.get("user_id", places[0]) in allowed]
        return texts([field(row, "memory", what="search") for row in mine], "search")

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`. An earlier try is looked for before the turn is told again."""
        messages = [{"role": "user", "content": turn.said}, {"role": "assistant", "content": turn.answered}]
        await self._add(messages, turn, infer=True)

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`: kept word by word."""
        await self._add([{"role": "user", "content": fact.text}], fact, infer=False)

    async def _add(self, messages: list[dict[str, str]], what: TurnRecord | FactRecord, *, infer: bool) -> None:
        def tell(client: MemoryClient) -> Any:
            if what.again and self._has(client, what.place, what.key):
                return None
            told = client.add(
                messages,
                user_id=what.place,
                metadata={MARK: what.key, "session": what.session_id},
                infer=infer,
                timestamp=int(what.at.timestamp()),
            )
            if not isinstance(told, dict):
                raise ProviderLied("add: no object")
            return told

        await self._call("add", tell)

    @staticmethod
    def _has(client: MemoryClient, place: Place, key: str) -> bool:
        filters = {"AND": [{"user_id": place}, {"metadata": {MARK: key}}]}
        return bool(field(client.get_all(filters=filters, page=1, page_size=1), "results", what="look"))
