"""What keeps a bad provider from costing more than once.

A call that does not come back within its bound is left to itself; until it comes back no other call is made. One that
never comes back is cancelled in the end, and then the provider is looked at now and then, out of everybody's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

import structlog

from agent_core.memory.providers.ports import ProviderAway, ProviderError, ProviderRefused

log = structlog.get_logger("agent_core.memory")

T = TypeVar("T")

LATE = 120.0
"""Seconds after which a call that hangs is cancelled."""
FAILURES = 3
"""So many calls in a row may fail before the provider is left alone."""
FIRST_LOOK, LONGEST_LOOK = 10.0, 600.0
"""Seconds between two looks at a provider that is away: the first, doubled each time, and the longest."""


class State(StrEnum):
    """How the provider stands."""

    FINE = "fine"
    HANGS = "hangs"
    AWAY = "away"


class Circuit:
    """The state of one provider, and the only way to call it."""

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[object]],
        *,
        late: float = LATE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._look = look
        self._late_seconds = late
        self._sleep = sleep
        self._late: asyncio.Task[object] | None = None
        self._failures = 0
        self._changed = asyncio.Event()
        self.state = State.FINE
        self.reason = ""
        self.outages = 0
        """How often it went away: for those who are told once an outage."""

    async def call(self, work: Callable[[], Awaitable[T]], what: str, seconds: float, *, counts: bool = True) -> T:
        """The result. Raises ProviderAway (also at once, where the provider is being left alone), another
        ProviderError, and nothing else but a cancel. `counts` false: its failure says nothing about the others."""
        if self.state is not State.FINE:
            raise ProviderAway(f"{self._name} is left alone: {self.reason}")
        task: asyncio.Task[T] = asyncio.create_task(_run(work), name=f"memory:{what}")
        try:
            await asyncio.wait([task], timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            self._hangs(task, what, seconds)
            raise ProviderAway(f"no answer to {what} within {seconds:g} s")
        try:
            result = task.result()
        except ProviderRefused:
            self._failures = 0  # it is there, and it has answered
            raise
        except ProviderError as error:
            if counts:
                self._failed(what, error)
            raise
        self._failures = 0
        return result

    def _hangs(self, task: asyncio.Task[T], what: str, seconds: float) -> None:
        if self.state is not State.FINE:
            task.cancel()  # two calls were under way, and the other was late first
            return
        self._late = task
        self._open(State.HANGS, f"no answer to {what} within {seconds:g} s")

    def _failed(self, what: str, error: ProviderError) -> None:
        self._failures += 1
        log.info("memory.call_failed", provider=self._name, what=what, error=str(error), failures=self._failures)
        if self._failures >= FAILURES and self.state is State.FINE:
            self._open(State.AWAY, f"{what}: {error}")

    def _open(self, state: State, reason: str) -> None:
        self.state, self.reason = state, reason
        self.outages += 1
        self._changed.set()
        log.warning("memory.away", provider=self._name, reason=reason)

    def _close(self, how: str) -> None:
        self.state, self.reason, self._failures = State.FINE, "", 0
        log.info("memory.back", provider=self._name, how=how)

    async def watch(self) -> None:
        """Notice that the provider is back, until cancelled. A task of the composition root."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if self._late is not None:
                    await self._follow(self._late)
                if self.state is State.AWAY:
                    await self._look_again()
        finally:
            self.drop()

    async def _follow(self, late: asyncio.Task[object]) -> None:
        """Wait for the call that hangs."""
        try:
            await asyncio.wait([late], timeout=self._late_seconds)
        except asyncio.CancelledError:
            late.cancel()
            raise
        self._late = None
        if late.done():
            if late.cancelled() or isinstance(late.exception(), ProviderAway):
                self.state = State.AWAY
            else:
                self._close("the late answer came")
        else:
            late.cancel()
            self.state = State.AWAY

    async def _look_again(self) -> None:
        delay = FIRST_LOOK
        while True:
            await self._sleep(delay)
            looked = asyncio.create_task(_run(self._look), name="memory:look")
            try:
                await asyncio.wait([looked], timeout=LONGEST_LOOK / 10)
            finally:
                looked.cancel()
            if looked.done() and not looked.cancelled() and looked.exception() is None:
                self._close("it answers again")
                return
            delay = min(delay * 2, LONGEST_LOOK)

    def drop(self) -> None:
        """Wait for nothing any more."""
        if self._late is not None:
            self._late.cancel()
            self._late = None


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    """The result; a failure of any kind as a ProviderError."""
    try:
        return await work()
    except ProviderError:
        raise
    except Exception as error:  # the boundary of a provider: whatever breaks in a client is the provider being away
        raise ProviderAway(f"{type(error).__name__} in the client") from error
