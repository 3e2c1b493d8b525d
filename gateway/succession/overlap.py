"""While two daemons work over one store: which events are the other's, and whose turn it is in a conversation.

An event belongs to the daemon that has accepted it (`inbox.owner`) for as long as that one lives, is connected to
us, and has not been given its time to drain. So both may work, and no event is answered twice; and in one
conversation the older event comes first, whoever has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from gateway.workers import Item
from state import owners
from state.clock import SYSTEM, Clock
from state.ids import Owner, SessionKey
from state.records import InboxEvent
from state.store import Store

log = structlog.get_logger("gateway.succession")

LOOK_EVERY = 0.1


class Overlap:
    """One a process. Without another daemon everything is ours."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._other: Owner | None = None
        self._until: float | None = None
        self.shared = False
        """Whether another daemon has worked over the store beside this process."""

    @property
    def other(self) -> Owner | None:
        """The other daemon, while its claims count."""
        if self._until is not None and self._clock.monotonic() >= self._until:
            log.warning("succession.claims_expired", other=self._other)
            self.end()
        return self._other

    def begin(self, other: Owner, seconds: float | None = None) -> None:
        """From now on the other one's claims count, for so many seconds at most."""
        self.shared = True
        self._other = other
        self._until = None if seconds is None else self._clock.monotonic() + seconds

    def end(self) -> None:
        """The other one is gone: what it has left is ours."""
        self._other = self._until = None

    def holds(self, row: InboxEvent) -> bool:
        """Whether the open event is the other daemon's."""
        other = self.other
        return other is not None and row.owner == other and owners.is_alive(other) is not False

    async def my_turn(self, store: Store, key: SessionKey, items: Sequence[Item]) -> None:
        """Wait until the other one has ended what came before in this conversation. Bounded by its claims."""
        first = min(item.event_id for item in items)
        while (other := self.other) is not None and owners.is_alive(other) is not False:
            if not await store.inbox.has_elder(key, first, other):
                return
            await asyncio.sleep(LOOK_EVERY)
