"""A running turn as the gateway sees it: who takes part, what steers it, how it is ended, its lease."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from agent_core.ports import Input
from agent_core.tools.ports import Rights
from gateway.access import Access
from gateway.posting import TurnPost
from gateway.workers import Item
from state.clock import Clock
from state.errors import LeaseLost, StateError
from state.ids import SessionId, SessionKey, TurnId
from state.records import TurnLease
from state.store import Store

log = structlog.get_logger("gateway.running")

LEASE_TTL = 30.0
"""Seconds; six times the 5 s for which a foreign process may hold the database."""

NO_RIGHTS = Rights(role="guest", tools=frozenset())


class SteeringQueue:
    """What joins a running turn. Implements `agent_core.ports.Steering`.

    The rights of the turn are computed anew at every question: the intersection over everybody whose
    text entered it, by the lists as they are now.
    """

    def __init__(self, access: Access, *, shared: bool) -> None:
        self._access = access
        self._shared = shared
        self._people: set[tuple[str, str]] = set()
        self._offered: deque[tuple[Item, Input]] = deque()
        self.taken: list[Item] = []

    def joins(self, item: Item) -> None:
        """The text of this item is part of the turn from now on."""
        self._people.add((item.event.address.platform, item.event.sender.id))

    def hears(self, people: Iterable[tuple[str, str]]) -> None:
        """Texts of these people (platform, id) are shown to the turn."""
        self._people.update(people)

    def _rights_of(self, platform: str, sender: str) -> Rights:
        role = self._access.role(platform, sender)
        return NO_RIGHTS if role is None else self._access.rights(role, shared=self._shared)

    def rights(self) -> Rights:
        """The rights of the turn as they are now."""
        met: Rights | None = None
        for platform, sender in self._people:
            rights = self._rights_of(platform, sender)
            met = rights if met is None else met.meet(rights)
        return NO_RIGHTS if met is None else met

    def may_join(self, item: Item) -> bool:
        """False where the sender has lesser rights than the turn: that message is queued instead."""
        present = self.rights()
        theirs = self._rights_of(item.event.address.platform, item.event.sender.id)
        return present.meet(theirs) == present

    def offer(self, item: Item, entry: Input) -> None:
        """Let it join after the next tool call."""
        self._offered.append((item, entry))

    def take(self) -> Sequence[Input]:
        """What has arrived since the last call, in order."""
        entries = []
        while self._offered:
            item, entry = self._offered.popleft()
            self.joins(item)
            self.taken.append(item)
            entries.append(entry)
        return entries

    def holds(self, event_id: int) -> bool:
        """True where the event waits to join, or has joined and is not settled yet."""
        waiting = (item for item, _ in self._offered)
        return any(item.event_id == event_id for item in (*self.taken, *waiting))

    def leftovers(self) -> list[Item]:
        """Everything that was offered, taken or not: the caller asks the store what became of each."""
        rest = [*self.taken, *(item for item, _ in self._offered)]
        self._offered.clear()
        self.taken.clear()
        return rest


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A turn at work. `end` may be called by anybody, any number of times; the first reason counts."""

    key: SessionKey
    session_id: SessionId
    turn_id: TurnId
    items: Sequence[Item]
    steering: SteeringQueue
    started: float
    post: TurnPost | None = None
    task: asyncio.Task[object] | None = None
    reason: str | None = None
    quiet: bool = False
    """True where the one who ended the turn is told otherwise, and the chat needs no further word."""
    park: bool = False
    """True at a planned stop: the turn is to be taken up again after the next start."""
    lost: bool = False
    committing: bool = False
    """Its end is being written, which gives the lease up, too."""
    outcome: str = ""
    """The state in which its end was committed; "" before, and where it was not."""
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, reason: str, *, quiet: bool = False, park: bool = False) -> bool:
        """Ask the turn to end. False where it is ending already."""
        if self.reason is not None:
            return False
        self.reason, self.quiet, self.park = reason, quiet, park
        if self.task is not None:
            self.task.cancel()
        return True


class LeaseMetrics(Protocol):
    """What is counted."""

    def lease_lost(self) -> None:
        """A lease was lost while its turn ran."""
        ...


async def keep_lease(store: Store, lease: TurnLease, running: Running, clock: Clock, metrics: LeaseMetrics) -> None:
    """Renew the lease at a third of its life. Where it could not be renewed for half of its life the turn
    is ended before the lease can expire under it. Runs until cancelled."""
    renewed = clock.boot()
    while True:
        await asyncio.sleep(LEASE_TTL / 3 if renewed + LEASE_TTL / 3 > clock.boot() else 0.5)
        try:
            await store.leases.renew(lease, ttl=LEASE_TTL)
            renewed = clock.boot()
        except LeaseLost:
            if running.committing:
                return  # it was given up with the end of the turn; had it been lost, that write would have failed
            log.exception("lease.lost", turn=running.turn_id, session=running.session_id)
            break
        except StateError as error:
            log.warning("lease.renewal_failed", turn=running.turn_id, error=str(error))
            if clock.boot() - renewed >= LEASE_TTL / 2:
                break
    metrics.lease_lost()
    running.lost = True
    running.end("the lease was lost")
