"""One supervisor a platform: runs its adapter, and by the type of its error waits, parks it, or tries again.

A platform's failure never touches another, nor the process. Nothing is ever given up: a parked adapter is
looked at again slowly, since a refusal of credentials may be the platform's own passing fault. A platform whose
token another daemon uses is parked too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Protocol

import structlog

from adapters.errors import AdapterError, AuthFailed, NotReady, RetryAfter
from adapters.ports import Inbox, PlatformAdapter
from gateway.health import Health
from gateway.locks import LockHeld, LockUnusable
from gateway.settled import whole
from state.clock import Clock

log = structlog.get_logger("gateway.supervisor")

FIRST_WAIT = 1.0
LONGEST_WAIT = 120.0
PARKED_WAIT = 900.0
STEADY = 60.0
"""An adapter that has served for so many seconds begins with the first wait again."""


Claim = Callable[[], AbstractContextManager[object]]
"""Takes what only one process may use at a time, until the block ends. Blocking, without waiting."""


def nothing_to_claim() -> AbstractContextManager[object]:
    """For platforms that any number of processes may serve."""
    return nullcontext()


class SupervisorMetrics(Protocol):
    """What is counted."""

    def adapter_ended(self, platform: str, remedy: str) -> None:
        """An adapter's run has ended."""
        ...


class Supervisor:
    """Runs one adapter until cancelled. `connected` is told after every (re)connect, `ended` at the end of
    every run; neither blocks."""

    def __init__(
        self,
        adapter: PlatformAdapter,
        inbox: Inbox,
        health: Health,
        metrics: SupervisorMetrics,
        clock: Clock,
        *,
        connected: Callable[[str], None],
        ended: Callable[[str], None],
        ends: bool = False,
        claim: Claim = nothing_to_claim,
    ) -> None:
        self._adapter = adapter
        self._inbox = inbox
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._connected = connected
        self._ended = ended
        self._ends = ends
        self._claim = claim
        self._wake = asyncio.Event()
        self._ready_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: AuthFailed | None = None
        self._told = ""

    def wake(self) -> None:
        """Try at once (the configuration has changed)."""
        self._wake.set()

    def refuse(self, error: AuthFailed) -> None:
        """A send found out that our credentials are refused: the adapter is parked."""
        self._refused = error
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Serve until cancelled; with `ends`, until the adapter's run returns (the person has left)."""
        tries = 0
        while True:
            self._ready_at = None
            error = await self._once()
            if (ours := asyncio.current_task()) is not None and ours.cancelling():
                raise asyncio.CancelledError  # whatever the adapter has made of its end
            self._ended(self._adapter.platform)
            if error is None and self._ends:
                return
            if self._ready_at is not None and self._clock.monotonic() - self._ready_at >= STEADY:
                tries = 0
            wait = self._judge(error, tries)
            tries += 1
            self._wake.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _once(self) -> BaseException | None:
        self._refused = None
        self._task = asyncio.create_task(self._claimed(), name=f"adapter:{self._adapter.platform}")
        try:
            await self._task
        except asyncio.CancelledError:
            # by `refuse`, or by something inside a platform's SDK: that must not end the platform in silence
            return self._refused or NotReady("the connection was cancelled from inside")
        except AdapterError as error:
            return error
        except Exception as error:  # the boundary of a platform: its defect is its own
            log.exception("adapter.defect", platform=self._adapter.platform)
            return error
        return None

    async def _claimed(self) -> None:
        try:
            # whole: what a thread takes behind the back of a cancel would be held by nobody, until the process ends
            claim, cancelled = await whole(asyncio.to_thread(self._claim), f"claim:{self._adapter.platform}")
        except (LockHeld, LockUnusable) as error:
            raise AuthFailed(str(error), told=str(error)) from error
        with claim:
            if cancelled:
                raise asyncio.CancelledError
            await self._adapter.run(self._inbox, self._on_ready)

    def _on_ready(self) -> None:
        self._ready_at = self._clock.monotonic()
        self._health.connected(self._adapter.platform)
        log.info("adapter.connected", platform=self._adapter.platform, account=self._adapter.account)
        self._connected(self._adapter.platform)

    def _judge(self, error: BaseException | None, tries: int) -> float:
        """How long to wait, told to the health page and the log."""
        platform = self._adapter.platform
        told = error.told if isinstance(error, AdapterError) else "a defect of the adapter; see the log"
        if isinstance(error, AuthFailed):
            log.error("adapter.parked", platform=platform, error=str(error), again_in=PARKED_WAIT)
            self._health.parked(platform, told)
            self._metrics.adapter_ended(platform, "parked")
            return PARKED_WAIT
        if isinstance(error, RetryAfter):
            wait = error.seconds
        else:
            wait = min(FIRST_WAIT * 2 ** min(tries, 10), LONGEST_WAIT) * random.uniform(0.7, 1.3)
        if error is None:
            told = "the connection has ended"
        if error is None or isinstance(error, NotReady | RetryAfter):
            # one warning an episode: a platform that is away for hours must not fill the log (B62)
            tell = log.warning if tries == 0 or told != self._told else log.info
            tell("adapter.waiting", platform=platform, error=str(error or told), again_in=round(wait, 1))
            self._told = told
        self._health.waiting(platform, self._clock.utc() + timedelta(seconds=wait), told)
        self._metrics.adapter_ended(platform, "wait")
        return wait
