"""Names of people, fetched in the background: an event never waits for one."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog

from adapters.errors import AdapterError, RetryAfter
from adapters.slack.api import Api

log = structlog.get_logger("adapters.slack")

KNOWN = 5_000
WAITING = 500
FRESH = 3_600.0
"""Seconds that a name is used before it is asked for again; the old one serves meanwhile."""
LONGEST_WAIT = 120.0


class Names:
    """What people are called. Bounded; lost with the connection's end."""

    def __init__(self, api: Api, now: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._now = now
        self._known: OrderedDict[str, tuple[str | None, float]] = OrderedDict()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._wake = asyncio.Event()

    def get(self, person: str) -> str | None:
        """The name, or None where it is not known yet: then it is asked for, for the next time. Never blocks."""
        name, until = self._known.get(person, (None, 0.0))
        if until <= self._now() and person[:1] in ("U", "W") and len(self._wanted) < WAITING:
            self._wanted[person] = None
            self._wake.set()
        return name

    def put(self, person: str, name: str | None) -> None:
        """This is what the person is called; None: it could not be told."""
        self._known[person] = (name, self._now() + FRESH)
        self._known.move_to_end(person)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    async def serve(self) -> None:
        """Ask for one name after the other until cancelled."""
        while True:
            while not self._wanted:
                self._wake.clear()
                await self._wake.wait()
            person = next(iter(self._wanted))
            try:
                self.put(person, await self._ask(person))
            except RetryAfter as error:
                await asyncio.sleep(min(error.seconds, LONGEST_WAIT))
                continue
            except AdapterError as error:
                log.debug("name.unknown", error=str(error))
                self.put(person, self._known.get(person, (None, 0.0))[0])
            self._wanted.pop(person, None)

    async def _ask(self, person: str) -> str | None:
        user = (await self._api.read("users.info", user=person)).get("user")
        if not isinstance(user, dict):
            return None
        profile = user.get("profile")
        profile = profile if isinstance(profile, dict) else {}
        names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
        return next((one for one in names if isinstance(one, str) and one.strip()), None)
