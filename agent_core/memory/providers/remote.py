"""What the remote memories have in common: a lane of their own, one client, and faults by their remedy."""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from agent_core.memory.providers.bounded import fault_of
from agent_core.memory.providers.lane import Lane
from agent_core.memory.providers.ports import Place, ProviderAway, ProviderError
from agent_core.memory.providers.settings import ProviderSettings

C = TypeVar("C")
T = TypeVar("T")


class Remote(ABC, Generic[C]):
    """A provider behind an SDK. `C` is its client, made with the first use, on the lane."""

    module = ""
    """What `_make` imports, "" where it does so in a thread of its own."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings
        self._lane = Lane(f"memory-{settings.name}")
        self._client: C | None = None
        self._making: asyncio.Lock | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """See `MemoryProvider`."""
        return self.settings.name

    @abstractmethod
    async def _make(self) -> C:
        """The client. Runs on the lane."""

    @abstractmethod
    async def _release(self, client: C) -> None:
        """Close the client. Runs on the lane."""

    async def _with(self, what: str, work: Callable[[C], Awaitable[T]]) -> T:
        """Run `work` with the client on the lane. Raises a ProviderError, and a cancel."""

        async def there() -> T:
            try:
                return await work(await self._ready())
            except ProviderError:
                raise
            except Exception as error:
                raise fault_of(error, what) from error

        return await self._lane.run(there)

    async def _ready(self) -> C:
        if self._making is None:
            self._making = asyncio.Lock()  # belongs to the lane's loop, where this runs
        async with self._making:
            if self._client is None:
                if self.module:  # not on the lane either: it can take seconds, in which nothing could be cancelled
                    await Lane.blocking(lambda: importlib.import_module(self.module))
                if self._closed:
                    raise ProviderAway("the process ends")
                self._client = await self._make()
            return self._client

    async def shutdown(self) -> None:
        """See `MemoryProvider`."""

        self._closed = True
        await self._lane.close(self._let_go)

    async def _let_go(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await self._release(client)


async def each_of(places: Sequence[Place], one: Callable[[Place], Awaitable[Sequence[str]]]) -> list[str]:
    """What is found in each place, the places in their order, asked for side by side. Raises the first error."""
    found: list[Any] = await asyncio.gather(*(one(place) for place in places))
    return [text for texts in found for text in texts]
