"""Stands between a running tool and the people it asks: the call is *started* only after the yes (P3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_core.settle import settled
from agent_core.tools.ports import Ask
from state.errors import StateError
from state.ids import RowId
from state.records import TurnLease
from state.store import Store


class Gate:
    """The `Ask` of one call. `left` is its time bound, which stands still while a person is asked."""

    def __init__(self, store: Store, lease: TurnLease, row_id: RowId, ask: Ask, seconds: float) -> None:
        self._store = store
        self._lease = lease
        self._row_id = row_id
        self._ask = ask
        self._until = asyncio.get_running_loop().time() + seconds
        self._asking = 0
        self.started = False
        self.error: StateError | None = None
        """The store's refusal to start the call: the turn ends by it, whatever the tool makes of it."""

    async def start(self) -> None:
        """Commit *started*, once, right before the effect. Raises the store's errors."""
        if not self.started:
            await settled(self._start(), f"start:{self._row_id}")

    async def _start(self) -> None:
        await self._store.turns.start_call(self._lease, self._row_id)
        self.started = True

    def left(self) -> float | None:
        """Seconds that the call may still take; None while a person is asked (that has its own bound)."""
        return None if self._asking else self._until - asyncio.get_running_loop().time()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._until += loop.time() - began

    async def approve(self, call_id: str, what: str) -> bool:
        """See `Ask.approve`. True means that the call is started, too."""
        with self._waiting():
            allowed = await self._ask.approve(call_id, what)
        if allowed:
            try:
                await self.start()
            except StateError as error:
                self.error = error
                raise
        return allowed

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        """See `Ask.clarify`."""
        with self._waiting():
            return await self._ask.clarify(call_id, question, options)


if TYPE_CHECKING:

    def _conforms(gate: Gate) -> Ask:
        return gate
