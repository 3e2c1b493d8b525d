"""What was said while we were away: found from a cursor a channel, fetched oldest first, bounded, told.

Discord repeats events of a connection that is *resumed*. A session that had to be begun anew repeats nothing: that
is a gap. While the gap of a channel is open its cursor moves only from the filling; what comes live meanwhile is
accepted at once and counts for the cursor when the gap is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from adapters.discord.directory import THREADS, Directory, Place, place_of
from adapters.discord.readable import moment_of, snowflake_at
from adapters.discord.rest import Rest
from adapters.errors import AdapterError, AuthFailed, Gone, NoRights, NotReady, RetryAfter
from adapters.ports import Cursors

log = structlog.get_logger("adapters.discord")

CAME = "found in the history after a gap"
PAGE = 100
AT_ONCE = 4
"""Channels that are filled side by side."""
LISTED_WITHIN = 10.0
"""Seconds that are waited for the servers to list their channels."""
KEEP_EVERY = 1.0
"""Seconds between two writings of cursors: one that lags is safe."""
AGAIN = 5.0
AGAIN_LONGEST = 60.0
SLEEPING = timedelta(days=7)
"""A thread without a message for so long is not asked for again at the next gap."""

Take = Callable[[dict[str, Any], Place], Awaitable[None]]


class Backfill:
    """Cursors and gaps of one account; outlives the connections."""

    def __init__(
        self,
        cursors: Cursors,
        directory: Directory,
        platform: str,
        *,
        messages: int,
        hours: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`messages` and `hours` bound what is fetched of one channel."""
        self._cursors = cursors
        self._directory = directory
        self._platform = platform
        self._messages = messages
        self._span = timedelta(hours=hours)
        self._now = now
        self._account = ""
        self._known: dict[str, int] = {}
        self._changed: set[str] = set()
        self._held: dict[str, int] = {}
        """The newest message that came live to a channel whose gap is open."""
        self._open: set[str] = set()
        self._settling = False
        """A new session has begun, and which channels have a gap is not known yet."""
        self._first = False
        self._horizon = 0
        """The newest message that was known when the gap was found: what is newer was said in the gap."""
        self._unlisted: set[str] = set()
        self._listed = asyncio.Event()
        self._wake = asyncio.Event()
        self._dirty = asyncio.Event()

    async def load(self, account: str) -> None:
        """Read the cursors, once an account."""
        if self._account != account:
            stored = await self._cursors.all(self._platform, account)
            self._known = {channel: int(cursor) for channel, cursor in stored.items() if cursor.isdigit()}
            self._account = account

    # what is heard -----------------------------------------------------------------------------------

    def gap(self, guilds: Iterable[str]) -> None:
        """A session has begun anew. `guilds` are the servers that are going to list their channels."""
        if not self._settling:
            self._horizon = max(self._known.values(), default=0)
        self._settling, self._first = True, not self._known
        self._unlisted = set(guilds)
        self._listed.clear()
        if not self._unlisted:
            self._listed.set()
        self._wake.set()

    def guild_listed(self, guild_id: str) -> None:
        """A server has listed its channels. One that does so later than at the begin is new to us."""
        self._unlisted.discard(guild_id)
        if not self._unlisted:
            self._listed.set()
        if not self._settling:
            for place in self._directory.in_guild(guild_id):
                if place.id not in self._known:
                    self._move(place.id, int(place.last_message_id or place.id))

    def born(self, place: Place) -> None:
        """A channel or thread was made, or has become visible: from now on it is known."""
        if place.id not in self._known and not self._settling:
            # a forum's first message has the id of its thread
            self._move(place.id, int(place.last_message_id or int(place.id) - 1))

    def heard(self, channel: str, message_id: str) -> None:
        """A message of that channel is committed, or was not for us."""
        number = int(message_id)
        if self._settling or channel in self._open:
            self._held[channel] = max(self._held.get(channel, 0), number)
        else:
            self._move(channel, max(self._known.get(channel, 0), number))

    async def gone(self, channel: str) -> None:
        """A channel was deleted, or is closed to us. Where that cannot be written it is found out again."""
        for book in (self._known, self._held):
            book.pop(channel, None)
        self._open.discard(channel)
        self._changed.discard(channel)
        try:
            await self._cursors.forget(self._platform, self._account, channel)
        except NotReady as error:
            log.warning("cursors.not_stored", error=str(error))

    @property
    def open_gaps(self) -> int:
        """How many channels are not filled yet."""
        return len(self._open) + self._settling

    def _move(self, channel: str, cursor: int) -> None:
        if self._known.get(channel) != cursor:
            self._known[channel] = cursor
            self._changed.add(channel)
            self._dirty.set()

    # cursors -----------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Write cursors that have moved, until cancelled."""
        while True:
            await self._dirty.wait()
            try:
                await self.flush()
            except NotReady as error:
                log.warning("cursors.not_stored", error=str(error))
                self._dirty.set()
            await asyncio.sleep(KEEP_EVERY)

    async def flush(self) -> None:
        """Write them now. Raises `NotReady`."""
        self._dirty.clear()
        while self._changed:
            channel = next(iter(self._changed))
            cursor = self._known.get(channel)
            if cursor is not None:
                await self._cursors.set(self._platform, self._account, channel, str(cursor))
            if self._known.get(channel) == cursor:
                self._changed.discard(channel)

    # gaps --------------------------------------------------------------------------------------------

    async def work(self, rest: Rest, take: Take) -> None:
        """Fill gaps until cancelled. `take` is called for each message, and returns when it is committed.

        Raises `AuthFailed`; anything else that a channel's filling meets is tried again.
        """
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._settling:
                await self._settle()
            pause = AGAIN
            while self._open and not self._settling:
                await self._fill_all(rest, take)
                if self._open:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, AGAIN_LONGEST)

    async def _settle(self) -> None:
        """Find the channels that may have a gap."""
        try:
            async with asyncio.timeout(LISTED_WITHIN):
                await self._listed.wait()
        except TimeoutError:
            log.warning("guilds.not_listed", guilds=len(self._unlisted))
        listed = {place.id: place for place in self._directory.listed()}
        for channel, place in listed.items():
            newest = int(place.last_message_id or 0)
            if channel not in self._known:
                # what is new, or was forgotten: what is older than the gap was heard, or was not for us to hear
                begin = max(int(channel) - 1, self._horizon)
                self._move(channel, max(newest, int(channel) - 1) if self._first else begin)
            if newest > self._known[channel]:
                self._open.add(channel)
        self._open |= self._known.keys() - listed.keys()
        self._settling = False
        for channel in self._held.keys() - self._open:
            self._move(channel, max(self._known.get(channel, 0), self._held.pop(channel)))
        if self._open:
            log.info("gap.found", channels=len(self._open))

    async def _fill_all(self, rest: Rest, take: Take) -> None:
        waiting = sorted(self._open)
        total = 0

        async def worker() -> None:
            nonlocal total
            while waiting:
                total += await self._try(waiting.pop(0), rest, take)

        tasks = [asyncio.create_task(worker(), name=f"discord:fill-{number}") for number in range(AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        log.info("gap.filled", messages=total, channels_left=len(self._open))

    async def _try(self, channel: str, rest: Rest, take: Take) -> int:
        """Fill one channel. What cannot be done now stays open."""
        while True:
            try:
                return await self._fill(channel, rest, take)
            except AuthFailed:
                raise
            except (Gone, NoRights) as error:
                log.info("channel.forgotten", channel=channel, error=str(error))
                await self.gone(channel)
            except RetryAfter as wait:
                await asyncio.sleep(wait.seconds)
                continue
            except AdapterError as error:
                log.info("gap.not_filled_now", channel=channel, error=str(error))
            return 0

    async def _fill(self, channel: str, rest: Rest, take: Take) -> int:
        place = self._directory.place(channel)
        if place is None:
            place = place_of(await rest.get(f"/channels/{channel}") or {})
            if place is None:
                raise NotReady("Discord does not describe the channel")
            self._directory.remember(place)
        cursor = self._known.get(channel, 0)
        if place.last_message_id is not None and int(place.last_message_id) <= cursor:
            await self._close(channel, place)
            return 0
        after = await self._floor(rest, channel, cursor)
        count = 0
        while count < self._messages:
            wanted = min(PAGE, self._messages - count)
            page = await self._page(rest, channel, after, wanted)
            for data in page:
                await take(data, place)
                after = int(data["id"])
                self._move(channel, after)
            count += len(page)
            if len(page) < wanted:
                break
        else:
            after = await self._skip(rest, channel, after)
            self._move(channel, after)
        await self._close(channel, place)
        return count

    async def _close(self, channel: str, place: Place) -> None:
        self._open.discard(channel)
        newest = max(self._known.get(channel, 0), self._held.pop(channel, 0))
        spoken = moment_of(str(newest))
        if place.type in THREADS and spoken is not None and self._now() - spoken > SLEEPING:
            await self.gone(channel)
            return
        self._move(channel, newest)

    async def _page(self, rest: Rest, channel: str, after: int, limit: int) -> list[dict[str, Any]]:
        """The oldest messages after `after`, in order."""
        page = await rest.get(f"/channels/{channel}/messages", after=str(after), limit=limit)
        if not isinstance(page, list):
            raise NotReady("Discord does not give the history")
        found = [one for one in page if isinstance(one, dict) and str(one.get("id", "")).isdigit()]
        return sorted(found, key=lambda one: int(one["id"]))

    async def _floor(self, rest: Rest, channel: str, cursor: int) -> int:
        """Where to begin. What is older than the bound is told, if there is something."""
        floor = snowflake_at(self._now() - self._span)
        if cursor >= floor:
            return cursor
        older = await self._page(rest, channel, cursor, 1)
        if older and int(older[0]["id"]) < floor:
            log.warning("gap_not_filled", channel=channel, reason="older than backfill_hours", after=str(cursor))
        return floor

    async def _skip(self, rest: Rest, channel: str, after: int) -> int:
        """The bound is reached: what is left is told, and left out."""
        if not await self._page(rest, channel, after, 1):
            return after
        log.warning("gap_not_filled", channel=channel, reason="more than backfill_messages", after=str(after))
        newest = await rest.get(f"/channels/{channel}/messages", limit=1)
        ids = [int(one["id"]) for one in newest or () if isinstance(one, dict) and str(one.get("id", "")).isdigit()]
        return max([after, *ids])
