"""A memory inside the daemon: turns and facts in the database, found by meaning (extra `semantic`, no service)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_core.embeddings.ports import EmbeddingError, Embeddings
from agent_core.embeddings.rank import nearest
from agent_core.memory.providers.ports import FactRecord, Place, ProviderAway, TurnRecord
from state.errors import StateError
from state.local_memories import NewLocalMemory
from state.store import Store

FOUND = 6
"""Texts of one recall: they are ranked, not cut off at a score, so there are always some."""
SAID, ANSWERED = 1_200, 600
"""Characters of each side of a turn that are kept: about what the model reads of it."""


class LocalMemory:
    """See `MemoryProvider`."""

    name = "local"

    def __init__(self, store: Store, embeddings: Embeddings) -> None:
        self._store = store
        self._embeddings = embeddings

    async def is_available(self) -> str:
        """See `MemoryProvider`: loads the model."""
        await self._vector("hello")
        return f"embedding model {self._embeddings.space}"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""
        try:
            rows = await self._store.local_memories.vectors(places, self._embeddings.space)
            if not rows:
                return []
            vector = await self._vector(query)
            best = await asyncio.to_thread(nearest, vector, [row.vector for row in rows], FOUND)
            return await self._store.local_memories.texts([rows[index].id for index in best])
        except StateError as error:
            raise ProviderAway(f"the store: {type(error).__name__}") from error

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`."""
        said, answered = turn.said[:SAID].strip(), turn.answered[:ANSWERED].strip()
        await self._keep(turn, f"On {turn.at:%Y-%m-%d} the person said: {said} You answered: {answered}")

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`."""
        await self._keep(fact, fact.text)

    async def _keep(self, what: TurnRecord | FactRecord, text: str) -> None:
        try:
            (vector,) = await self._embeddings.passages([text])
            await self._store.local_memories.add(
                NewLocalMemory(
                    place=what.place,
                    key=what.key,
                    session_id=what.session_id,
                    text=text,
                    space=self._embeddings.space,
                    vector=vector,
                )
            )
        except EmbeddingError as error:
            raise ProviderAway(str(error)) from error
        except StateError as error:
            raise ProviderAway(f"the store: {type(error).__name__}") from error

    async def _vector(self, text: str) -> bytes:
        try:
            return await self._embeddings.query(text)
        except EmbeddingError as error:
            raise ProviderAway(str(error)) from error

    async def shutdown(self) -> None:
        """See `MemoryProvider`: nothing is held."""
