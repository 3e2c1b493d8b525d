"""How far each conversation was read without a gap: the cursors, kept contiguous and written seldom.

Names are `<channel>` (the messages of a channel or DM) and `<channel>/<root>` (the replies of a thread that we take
part in). A cursor is a Slack timestamp up to which everything is committed. What comes live moves it to `LAG` seconds
before itself, since Slack does not promise an order; while a gap is open only the filling moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from adapters.errors import NotReady
from adapters.ports import Cursors
from adapters.slack.inbound import PLATFORM, order

log = structlog.get_logger("adapters.slack")

LAG = 60
FLUSH = 5.0
"""Seconds between two writes of cursors that have moved. One that lags is safe."""
SEEN = "~seen"
"""When we were connected last; moved every `SEEN_EVERY` seconds, so that a quiet workspace knows it too."""
SEEN_EVERY = 300.0
THREAD_DAYS = 7


def newest(cursors: Iterable[str]) -> str | None:
    """The newest of them, or None where there is none."""
    return max(cursors, key=order, default=None)


def before(ts: str, seconds: int) -> str:
    """The timestamp `seconds` earlier."""
    whole, _, rest = ts.partition(".")
    return f"{max(0, int(whole) - seconds)}.{rest or '000000'}" if whole.isdecimal() else ts


class Progress:
    """The cursors of one account."""

    def __init__(self, cursors: Cursors, account: str, now: Callable[[], float]) -> None:
        """`now` is the wall clock in seconds."""
        self._cursors = cursors
        self._account = account
        self._now = now
        self._at: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._open: dict[str, str] = {}
        """Channels with a gap, and the newest that has come live meanwhile ("": nothing)."""
        self.wake = asyncio.Event()
        """Set where there may be gaps to fill."""

    async def load(self) -> bool:
        """Read them. False on the very first start, where nothing is history. Raises `NotReady`."""
        self._at = dict(await self._cursors.all(PLATFORM, self._account))
        known = bool(self._at)
        if not known:
            await self.know(SEEN, self.stamp())
        for name in self.old_threads():
            await self.forget(name)
        return known

    def stamp(self) -> str:
        """Now, as Slack writes times."""
        return f"{self._now():.6f}"

    def last_seen(self) -> str:
        """Up to when we have surely been connected."""
        return newest(self._at.values()) or self.stamp()

    def at(self, name: str) -> str | None:
        """The cursor, or None where the conversation is not known."""
        return self._at.get(name)

    def channels(self) -> list[str]:
        """The known channels and DMs."""
        return [name for name in self._at if "/" not in name and name != SEEN]

    def threads(self, channel: str = "") -> list[tuple[str, str]]:
        """The known threads (channel, root), of one channel or all."""
        found = [tuple(name.split("/", 1)) for name in self._at if name.startswith(f"{channel}/" if channel else "")
                 and "/" in name]  # fmt: skip
        return [(one[0], one[1]) for one in found]

    def old_threads(self) -> list[str]:
        """Threads in which nothing was said for `THREAD_DAYS` days."""
        oldest = before(self.stamp(), THREAD_DAYS * 86_400)
        return [name for name, ts in self._at.items() if "/" in name and order(ts) < order(oldest)]

    # what moves them ------------------------------------------------------------------------------

    async def know(self, name: str, ts: str) -> None:
        """The conversation becomes known, durably, where it is not. Raises `NotReady`."""
        if name not in self._at:
            await self._cursors.set(PLATFORM, self._account, name, ts)
            self._at[name] = ts

    async def forget(self, name: str) -> None:
        """It is gone. Raises `NotReady`."""
        self._at.pop(name, None)
        self._open.pop(name, None)
        self._dirty.discard(name)
        await self._cursors.forget(PLATFORM, self._account, name)

    def heard(self, channel: str, ts: str, thread: str | None) -> None:
        """A message of the channel is committed. `thread`: it is a reply in a thread of ours."""
        if channel in self._open:
            self._open[channel] = newest([self._open[channel], ts]) or ts
            return
        self._move(f"{channel}/{thread}" if thread else channel, before(ts, LAG))

    def seen(self) -> None:
        """We are connected now."""
        self._move(SEEN, before(self.stamp(), LAG))

    def _move(self, name: str, ts: str) -> None:
        if name in self._at and order(ts) > order(self._at[name]):
            self._at[name] = ts
            self._dirty.add(name)

    # gaps -----------------------------------------------------------------------------------------

    def open(self, channel: str) -> None:
        """Something of the channel may be missing: only the filling moves its cursors from now on."""
        self._open.setdefault(channel, "")

    def missed(self, channel: str) -> None:
        """Something of `channel` ("": of any) may be missing, and is to be looked for. Never blocks."""
        for name in [channel] if channel else self.channels():
            if name in self._at:
                self.open(name)
        self.wake.set()

    def gaps(self) -> list[str]:
        """The channels with a gap."""
        return list(self._open)

    def filled(self, channel: str, upto: dict[str, str]) -> None:
        """The gap is filled; `upto` has the newest that was read, by name. What came live meanwhile counts too."""
        live = self._open.pop(channel, "")
        for name, ts in upto.items():
            self._move(name, ts)
        if live:
            self._move(channel, before(live, LAG))

    # writing --------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what has moved. Where the store cannot take it, it is written the next time."""
        for name in list(self._dirty):
            ts = self._at.get(name)
            try:
                if ts is not None:
                    await self._cursors.set(PLATFORM, self._account, name, ts)
            except NotReady as error:
                log.info("cursor.waits", error=str(error))
                return
            if self._at.get(name) == ts:
                self._dirty.discard(name)

    async def serve(self) -> None:
        """Write every `FLUSH` seconds until cancelled."""
        while True:
            await asyncio.sleep(FLUSH)
            await self.flush()
