"""Who may call a chat next: one lane a chat, one budget for everything that is said or shown there.

Finals go before approvals, notices, interim texts, edits of drafts, progress and typing. A platform's
`retry_after` stops its chat (or its account) at once, outlives a restart, and delays no other chat.
Coalescing falls out of the shape: whoever shows something cosmetic takes its turn first and only then
looks at what the newest state is.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol
from urllib.parse import unquote

import structlog

from adapters.errors import RetryAfter
from adapters.events import DeliveryKind
from adapters.limits import Limits
from state.clock import Clock
from state.errors import StateError
from state.records import Hold

log = structlog.get_logger("gateway.arbiter")

LONGEST_HOLD = 86_400.0
"""Seconds. A platform that asks for more is asked again after a day: no figure silences a chat for ever."""
LEAST_HOLD = 1.0
RECHECK = 30.0
"""Seconds after which a waiting lane looks at the clock again in any case."""


class Priority(IntEnum):
    """The order in which the waiting are served; the least number first."""

    FINAL = 0
    APPROVAL = 1
    NOTICE = 2
    INTERIM = 3
    DRAFT = 4  #: the first message and the edits of a streamed draft
    PROGRESS = 5
    TYPING = 6

    @property
    def cosmetic(self) -> bool:
        """True where nothing is lost when it is not shown."""
        return self >= Priority.DRAFT


PRIORITY_OF = {
    DeliveryKind.FINAL: Priority.FINAL,
    DeliveryKind.APPROVAL: Priority.APPROVAL,
    DeliveryKind.NOTICE: Priority.NOTICE,
    DeliveryKind.INTERIM: Priority.INTERIM,
    DeliveryKind.PROGRESS: Priority.PROGRESS,
}


class NoTurn(Exception):
    """The patience ended before the chat was free. Nothing was called."""


class HoldStore(Protocol):
    """Where holds are kept (`store.holds`)."""

    async def set(self, chat: str, until: datetime, reason: str) -> None:
        """Keep it, in place of an earlier one."""
        ...

    async def active(self) -> list[Hold]:
        """What is kept."""
        ...

    async def clear(self, chat: str) -> None:
        """Forget it."""
        ...


class ArbiterMetrics(Protocol):
    """What is counted."""

    def arbiter_wait(self, seconds: float, kind: str) -> None:
        """A call of that kind got its turn after so long."""
        ...

    def retry_after(self, platform: str) -> None:
        """A platform asked us to wait."""
        ...


@dataclass(slots=True, eq=False)
class _Waiter:
    priority: Priority
    number: int
    granted: asyncio.Future[None]

    def __lt__(self, other: _Waiter) -> bool:
        return (self.priority, self.number) < (other.priority, other.number)


@dataclass(slots=True, eq=False)
class _Lane:
    busy: bool = False
    waiting: list[_Waiter] = field(default_factory=list)
    due: float = 0.0
    """The clock time up to which the chat's budget is used."""
    timer: asyncio.TimerHandle | None = None


def account_of(chat: str) -> str:
    """The arbiter's name of the account that a queue belongs to (`gateway.keys.account_queue`)."""
    return chat.rpartition(":")[0]


def platform_of(chat: str) -> str:
    """The platform's plain name in the name of a queue or an account."""
    return unquote(chat.partition(":")[0], errors="surrogatepass")


class Arbiter:
    """One a process. All methods are for the event loop's thread."""

    def __init__(
        self,
        holds: HoldStore,
        clock: Clock,
        metrics: ArbiterMetrics,
        limits: Callable[[str], Limits | None] | None = None,
    ) -> None:
        """`limits` gives a platform's limits by its name, or None where nothing is known of it."""
        self._store = holds
        self._clock = clock
        self._metrics = metrics
        self._limits: Callable[[str], Limits | None] = limits if limits is not None else lambda _: None
        self._lanes: dict[str, _Lane] = {}
        self._accounts: dict[str, float] = {}
        self._holds: dict[str, float] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._lanes)

    async def load(self) -> None:
        """Take over the holds of the time before this start. Called once, before the first turn."""
        now = self._clock.utc()
        for hold in await self._store.active():
            asked = _asked(hold.reason)
            # the wall clock may have been set back meanwhile: never longer than was asked for
            left = min((hold.until - now).total_seconds(), asked)
            if left <= 0:
                await self._store.clear(hold.chat)
            else:
                self._holds[hold.chat] = self._clock.boot() + left

    def held_for(self, chat: str) -> float:
        """Seconds for which the platform wants no call to this chat; 0 where it may be called."""
        now = self._clock.boot()
        return max(0.0, self._holds.get(chat, 0.0) - now, self._holds.get(account_of(chat), 0.0) - now)

    @asynccontextmanager
    async def turn(self, chat: str, priority: Priority, *, patience: float | None = None) -> AsyncIterator[None]:
        """The right to make one call to the chat, alone, as soon as its budget and its holds allow.

        Raises `NoTurn` where `patience` seconds were not enough. A `RetryAfter` that leaves the body
        becomes a hold before anybody else gets a turn, and is raised on.
        """
        began = self._clock.monotonic()
        await self._acquire(chat, priority, patience)
        self._metrics.arbiter_wait(max(0.0, self._clock.monotonic() - began), priority.name.lower())
        try:
            yield
        except RetryAfter as error:
            await self.hold(chat, error.seconds, everywhere=error.everywhere)
            raise
        else:
            await self._forget(chat)
        finally:
            self._release(chat)

    async def hold(self, chat: str, seconds: float, *, everywhere: bool = False) -> float:
        """Make no call to the chat (`everywhere`: to its account) for so long. Returns the seconds that count.

        It counts from the moment of the call, also where the store cannot keep it. A hold is never shortened.
        """
        asked = LEAST_HOLD if math.isnan(seconds) else min(max(seconds, LEAST_HOLD), LONGEST_HOLD)
        name = account_of(chat) if everywhere else chat
        self._holds[name] = max(self._holds.get(name, 0.0), self._clock.boot() + asked)
        self._metrics.retry_after(platform_of(chat))
        log.warning("platform.retry_after", chat=name, seconds=asked)
        try:
            await self._store.set(name, self._clock.utc() + timedelta(seconds=asked), f"{asked:g} s asked for")
        except StateError as error:
            log.warning("hold.not_kept", chat=name, error=str(error))
        return asked

    def nudge(self) -> None:
        """Look at the clock again: for tests that step it, and after a machine has slept."""
        for chat in list(self._lanes):
            self._dispatch(chat)

    async def _forget(self, chat: str) -> None:
        """A call went well: holds that have passed need not be kept any more."""
        for name in (chat, account_of(chat)):
            until = self._holds.get(name)
            if until is not None and until <= self._clock.boot():
                del self._holds[name]
                try:
                    await self._store.clear(name)
                except StateError as error:
                    log.warning("hold.not_cleared", chat=name, error=str(error))

    async def _acquire(self, chat: str, priority: Priority, patience: float | None) -> None:
        lane = self._lanes.get(chat)
        if lane is None:
            lane = self._lanes[chat] = _Lane()
        self._number += 1
        waiter = _Waiter(priority, self._number, asyncio.get_running_loop().create_future())
        heapq.heappush(lane.waiting, waiter)
        self._dispatch(chat)
        try:
            async with asyncio.timeout(patience):
                await waiter.granted
        except BaseException as error:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._release(chat)  # it was granted in the very moment in which we gave up
            else:
                waiter.granted.cancel()
                self._dispatch(chat)
            if isinstance(error, TimeoutError):
                raise NoTurn from error
            raise

    def _release(self, chat: str) -> None:
        self._lanes[chat].busy = False
        self._dispatch(chat)

    def _dispatch(self, chat: str) -> None:
        """Grant the next turn of the chat, or set the timer for it, or let the lane go."""
        lane = self._lanes.get(chat)
        if lane is None or lane.busy:
            return
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        while lane.waiting and lane.waiting[0].granted.done():
            heapq.heappop(lane.waiting)
        if lane.waiting:
            wait = self._wait(chat, lane, lane.waiting[0].priority)
            if wait <= 0:
                self._spend(chat, lane)
                lane.busy = True
                heapq.heappop(lane.waiting).granted.set_result(None)
                return
        else:
            wait = lane.due - self._clock.boot()  # the budget that was used must not be forgotten
            if wait <= 0:
                del self._lanes[chat]
                return
        lane.timer = asyncio.get_running_loop().call_later(min(wait, RECHECK), self._dispatch, chat)

    def _wait(self, chat: str, lane: _Lane, priority: Priority) -> float:
        """Seconds until a call of that priority may be made."""
        limits = self._limits(platform_of(chat))
        wait = self.held_for(chat)
        if limits is None:
            return wait
        now = self._clock.boot()
        # what is cosmetic leaves the burst to what is not
        spare = 0.0 if priority.cosmetic else limits.chat_every * max(0, limits.chat_burst - 1)
        wait = max(wait, lane.due - spare - now)
        spare = 0.0 if priority.cosmetic else limits.account_every * max(0, limits.account_burst - 1)
        return max(wait, self._accounts.get(account_of(chat), 0.0) - spare - now)

    def _spend(self, chat: str, lane: _Lane) -> None:
        limits = self._limits(platform_of(chat))
        if limits is None:
            return
        now, account = self._clock.boot(), account_of(chat)
        lane.due = max(lane.due, now) + limits.chat_every
        if limits.account_every > 0:
            self._accounts[account] = max(self._accounts.get(account, 0.0), now) + limits.account_every


def _asked(reason: str) -> float:
    found = re.match(r"[0-9.e+]+", reason)
    try:
        return min(float(found.group()), LONGEST_HOLD) if found else LONGEST_HOLD
    except ValueError:
        return LONGEST_HOLD
