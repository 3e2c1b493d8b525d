"""Long polling: the offset moves after the commit of a whole batch, and trouble is told once.

Telegram keeps an update until a call with a higher offset comes (core.telegram.org/bots/api#getupdates), so
whatever ends this loop, nothing is lost: what was committed and not confirmed comes again and is recognised.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from adapters.errors import AuthFailed, NotReady, RetryAfter
from adapters.telegram.errors import Refusal, translate
from adapters.telegram.inbound import ALLOWED
from adapters.telegram.link import Link

log = structlog.get_logger("adapters.telegram")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. A poll waits `poll` at Telegram's side and `grace` more for its answer; then its sockets are
    thrown away. So a line that is half open is noticed after `poll + grace`, and after `outage` without an
    answer the platform is reported as not ready. Another poller of the same token is waited for `conflict`
    at a time; `conflicts` refusals within `window` are a dispute, which ends after `trial` without one."""

    poll: float = 25.0
    grace: float = 10.0
    pause: float = 1.0
    longest_pause: float = 10.0
    outage: float = 60.0
    conflict: float = 5.0
    conflicts: int = 6
    window: float = 600.0
    trial: float = 60.0
    watch: float = 60.0
    """In the mode webhook, between two looks whether updates still come to us."""
    store: float = 10.0
    """How long a store that is busy is waited for before the platform is reported as not ready."""


class Trouble:
    """What is remembered from one run of the adapter to the next: an outage, a dispute about the token."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._conflicts: deque[float] = deque()
        self._since: float | None = None
        self._told_conflict = False
        self.disputed = False
        """Another program polls with our token, again and again (B60)."""

    @property
    def is_open(self) -> bool:
        """Whether polls have failed and none has gone well since."""
        return self._since is not None

    def failed(self, what: str) -> float:
        """A poll has failed. Seconds since the first failure of this episode, which is told once."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
            log.warning("telegram.poll_interrupted", error=what)
        return now - self._since

    def went_well(self) -> bool:
        """A poll was answered. True where that ends an episode."""
        if self._since is None:
            return False
        log.info("telegram.poll_resumed", after=round(asyncio.get_running_loop().time() - self._since, 1))
        self._since = None
        return True

    def conflict(self) -> None:
        """A poll was refused because of another one. A poll that goes well in between does not undo it."""
        now = asyncio.get_running_loop().time()
        self._conflicts.append(now)
        while self._conflicts and now - self._conflicts[0] > self._timing.window:
            self._conflicts.popleft()
        if not self._told_conflict:
            self._told_conflict = True
            log.warning("telegram.conflict", told="another program polls with the same token")
        self.disputed = self.disputed or len(self._conflicts) >= self._timing.conflicts

    def settled(self) -> None:
        """The other one is gone."""
        self._conflicts.clear()
        if self._told_conflict:
            log.info("telegram.conflict_over")
        self._told_conflict = self.disputed = False


class Poller:
    """One run of the loop. `take` commits one update and raises `NotReady` where the store cannot."""

    def __init__(
        self, link: Link, take: Callable[[Any], Awaitable[None]], ready: Callable[[], None], trouble: Trouble,
        timing: Timing,
    ) -> None:  # fmt: skip
        self._link = link
        self._take = take
        self._ready = ready
        self._trouble = trouble
        self._timing = timing
        self._offset: int | None = None
        self._tries = 0
        self._quiet_since: float | None = None

    async def run(self) -> None:
        """Poll until cancelled. Raises `AuthFailed`, `RetryAfter`, and `NotReady` for what does not pass soon.

        While there is a dispute about the token `ready` is not called before a time without conflicts, and
        after an outage not before a poll was answered.
        """
        time = asyncio.get_running_loop().time
        self._quiet_since = time() if self._trouble.disputed else None
        if self._quiet_since is None and not self._trouble.is_open:
            self._ready()
        while True:
            batch = await self._poll()
            if batch is None:
                continue
            for raw in batch:
                await self._commit(raw)
            # only now: every update of the batch is committed, in order
            numbers = [raw["update_id"] for raw in batch if isinstance(raw, dict) and _is_number(raw.get("update_id"))]
            if numbers:
                self._offset = max(numbers) + 1
            if self._quiet_since is not None and time() - self._quiet_since >= self._timing.trial:
                self._quiet_since = None
                self._trouble.settled()
                self._ready()

    async def _poll(self) -> list[Any] | None:
        """One poll; None where it failed in a way that passes, after a pause."""
        seconds = self._timing.poll if self._quiet_since is None else min(self._timing.poll, self._timing.trial)
        if self._trouble.is_open:  # whether it is over is told at once, not at the end of a long poll
            seconds = 0
        try:
            found = await self._link.updates(
                offset=self._offset, allowed=ALLOWED, seconds=seconds, grace=self._timing.grace
            )
        except Exception as error:  # noqa: BLE001 - every end of a poll has a remedy here
            await self._failed(error)
            return None
        self._tries = 0
        if self._trouble.went_well() and self._quiet_since is None:
            self._ready()
        return found if isinstance(found, list) else []

    async def _failed(self, error: Exception) -> None:
        timing = self._timing
        if isinstance(error, Refusal) and error.code == 409:
            self._trouble.conflict()
            if self._trouble.disputed:
                raise translate(error) from error
            await asyncio.sleep(timing.conflict)
            return
        found = translate(error)
        if isinstance(found, AuthFailed | RetryAfter):
            raise found from error
        lasted = self._trouble.failed(str(found))
        if lasted >= timing.outage:
            raise NotReady(str(found), told="Telegram cannot be reached at the moment.") from error
        await self._link.renew_poll()
        self._tries += 1
        await asyncio.sleep(min(timing.pause * 2 ** (self._tries - 1), timing.longest_pause))

    async def _commit(self, raw: Any) -> None:
        """Commit one update; a store that is busy is waited for a little, with the offset where it is."""
        time = asyncio.get_running_loop().time
        began, pause = time(), 0.1
        while True:
            try:
                await self._take(raw)
            except NotReady as error:
                if time() - began + pause > self._timing.store:
                    raise
                log.info("telegram.store_waits", error=str(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
