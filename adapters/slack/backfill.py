"""What was said while nobody listened: fetched from the history after every gap, oldest first, in the same way in.

Slack keeps nothing for a socket that is not there. So after a start and after every gap each known conversation is
read from its cursor on, and the threads with newer replies. The cursor moves only when all of it is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from adapters.errors import AdapterError, AuthFailed, Gone, NoRights, NotReady, Rejected, RetryAfter
from adapters.events import MessageEvent
from adapters.ports import Accepted
from adapters.slack.api import Api
from adapters.slack.errors import code_of
from adapters.slack.inbound import Reader, order
from adapters.slack.mrkdwn import mentions
from adapters.slack.progress import Progress, newest
from adapters.slack.threads import Threads

log = structlog.get_logger("adapters.slack")

KINDS = ("im", "mpim", "public_channel", "private_channel")
PAGE = 200
BEFORE = 100
"""Messages before the gap that are looked at for threads with newer replies."""
THREADS = 50
"""Threads of a channel that are read after one gap."""
PAUSES = (1.0, 5.0, 15.0, 60.0)
DAY = 86_400

Item = dict[str, Any]


@dataclass(slots=True)
class _Found:
    """What a gap of one channel held."""

    items: dict[str, Item] = field(default_factory=dict)
    upto: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    def add(self, name: str, item: Item) -> None:
        ts = str(item["ts"])
        self.items.setdefault(ts, item)
        self.upto[name] = newest([self.upto.get(name) or ts, str(ts)]) or ts


class Backfill:
    """Fills gaps in a task of its own, one channel after the other. `accept` commits and moves no cursor of a gap."""

    def __init__(
        self,
        *,
        api: Api,
        reader: Reader,
        threads: Threads,
        progress: Progress,
        accept: Callable[[MessageEvent], Awaitable[Accepted]],
        keep: Callable[[Mapping[str, Any], str], Awaitable[bool]],
        named: Callable[[str, str | None], None],
        now: Callable[[], datetime],
        bound: int,
    ) -> None:
        """`keep` keeps what cannot be read for the operator; `named` is told the names of channels. `bound` is the
        number of messages of one channel that are fetched at most; 0: none at all."""
        self._api = api
        self._reader = reader
        self._threads = threads
        self._progress = progress
        self._accept = accept
        self._keep = keep
        self._named = named
        self._now = now
        self._bound = bound
        self._discover = False
        self._first = False
        self._seconds: float | None = None
        self._came = ""

    def start(self, *, first: bool) -> None:
        """The daemon has started: all of it may be missing, or nothing where it is the `first` time ever."""
        self._discover, self._first = True, first
        if not first:
            since = order(self._progress.last_seen())[0]
            self.gap(max(0.0, self._now().timestamp() - since))
        self._progress.wake.set()

    def gap(self, seconds: float) -> None:
        """There was no connection for so long."""
        self._discover = True
        self._seconds = max(seconds, self._seconds or 0.0)
        self._progress.missed("")

    async def serve(self) -> None:
        """Fill what is open until cancelled. Raises `AuthFailed` only."""
        tries = 0
        while True:
            await self._progress.wake.wait()
            self._progress.wake.clear()
            try:
                await self._pass()
                tries = 0
            except AuthFailed:
                raise
            except AdapterError as error:
                pause = error.seconds if isinstance(error, RetryAfter) else PAUSES[min(tries, len(PAUSES) - 1)]
                tries += 1
                log.info("gap.waits", error=str(error), again_in=round(pause, 1))
                await asyncio.sleep(pause)
                self._progress.wake.set()

    async def _pass(self) -> None:
        if self._discover:
            await self._find_channels()
            self._discover = False
        gaps = self._progress.gaps()
        if not gaps:
            return
        seconds, self._seconds = self._seconds, None
        self._came = "found in the history" + (f" after a gap of {span(seconds)}" if seconds is not None else "")
        log.info("gap.found", channels=len(gaps), seconds=seconds and round(seconds, 1))
        total = 0
        try:
            for channel in gaps:
                total += await self._channel(channel)
        except AdapterError:
            if seconds is not None:  # the next try is about the same gap
                self._seconds = max(seconds, self._seconds or 0.0)
            raise
        log.info("gap.filled", channels=len(gaps), messages=total)

    # what there is --------------------------------------------------------------------------------

    async def _find_channels(self) -> None:
        """New conversations become known: those of a person from when we were last connected, others from now on."""
        since = self._progress.stamp() if self._first else self._progress.last_seen()
        for kind in KINDS:
            try:
                async with aclosing(
                    self._api.pages("users.conversations", "channels", PAGE, types=kind, exclude_archived=True)
                ) as pages:
                    async for channel in pages:
                        name = str(channel.get("id") or "")
                        if isinstance(title := channel.get("name"), str) and kind != "im":
                            self._named(name, title)
                        await self._new(name, since if kind == "im" else None)
            except NoRights as error:
                log.warning("channels.not_listed", kind=kind, error=error.told)
        self._first = False

    async def _new(self, channel: str, since: str | None) -> None:
        if not channel or self._progress.at(channel) is not None:
            return
        await self._progress.know(channel, since or self._progress.stamp())
        if since is not None and not self._first:
            self._progress.open(channel)

    # one channel ----------------------------------------------------------------------------------

    async def _channel(self, channel: str) -> int:
        """Fill the gap of a channel; how many messages were new. Raises what keeps it open."""
        cursor = self._progress.at(channel)
        if cursor is None or not self._bound:
            self._progress.filled(channel, {channel: self._progress.stamp()} if not self._bound else {})
            return 0
        try:
            found = await self._search(channel, cursor)
        except (Gone, Rejected) as error:
            await self._unreadable(channel, error)
            return 0
        if found.cut:
            log.warning("gap.cut", channel=channel, bound=self._bound)
        new = 0
        for item in sorted(found.items.values(), key=lambda one: order(one["ts"])):
            new += await self._offer(channel, item)
        self._progress.filled(channel, found.upto)
        await self._progress.flush()
        return new

    async def _unreadable(self, channel: str, error: Gone | Rejected) -> None:
        """The channel is gone, or we may not read it: it keeps no other one waiting."""
        if isinstance(error, Gone) or code_of(error) == "not_in_channel":
            log.info("channel.gone", channel=channel, error=str(error))
            for name in [channel, *(f"{one}/{root}" for one, root in self._progress.threads(channel))]:
                await self._progress.forget(name)
            return
        log.error("gap.not_readable", channel=channel, error=str(error), told=error.told)
        self._progress.filled(channel, {})

    async def _offer(self, channel: str, item: Item) -> bool:
        """Commit one message of the history; where it was known, its newest edit."""
        if self._reader.is_own(item):
            return False
        message = {**item, "channel": channel}
        try:
            event = self._reader.message(message, self._now(), came=self._came)
        except Exception as error:  # the boundary of one message: its defect keeps no other one waiting
            log.exception("history.defect", channel=channel)
            if not await self._keep(message, type(error).__name__):
                raise NotReady("the store cannot take what cannot be read") from None
            return False
        if event is None:
            return False
        accepted = await self._accept(event)
        if not accepted.is_new and (edit := self._reader.edit(message, self._now(), came=self._came)) is not None:
            await self._accept(edit)
        return accepted.is_new

    async def _search(self, channel: str, cursor: str) -> _Found:
        found = _Found()
        roots: dict[str, Item] = {}
        # in the future, since Slack's clock need not be ours
        latest = f"{int(self._now().timestamp()) + DAY}.000000"
        async for item in self._read("conversations.history", channel, found, oldest=cursor, latest=latest):
            if order(item["ts"]) > order(cursor):
                found.add(channel, item)
            roots[item["ts"]] = item
        async for item in self._read("conversations.history", channel, None, latest=cursor, inclusive=True):
            roots[item["ts"]] = item
        for item in roots.values():
            self._note(channel, item)
        for root, since in self._newer(channel, cursor, roots):
            name = f"{channel}/{root}"
            async for item in self._read("conversations.replies", channel, found, ts=root, oldest=since):
                self._note(channel, item)
                if item["ts"] != root and order(item["ts"]) > order(since):
                    found.add(name, item)
        return found

    def _note(self, channel: str, item: Item) -> None:
        """What an item tells of its thread."""
        thread = str(item.get("thread_ts") or item["ts"])
        own = self._reader.is_own(item)
        ours = own or (thread == item["ts"] and mentions(str(item.get("text")), self._reader.bot_user))
        self._threads.note(channel, thread, ours=ours or item.get("parent_user_id") == self._reader.bot_user)
        if own:
            self._threads.sent(channel, item["ts"], item.get("thread_ts"))

    def _newer(self, channel: str, cursor: str, roots: dict[str, Item]) -> list[tuple[str, str]]:
        """The threads that may hold something new, and from where on: the most recent ones."""
        wanted: dict[str, str] = {}
        for root, item in roots.items():
            since = self._progress.at(f"{channel}/{root}") or cursor
            if order(str(item.get("latest_reply") or "")) > order(since):
                wanted[root] = since
        for _, root in self._progress.threads(channel):
            at = self._progress.at(f"{channel}/{root}")
            if root not in roots and at is not None:
                wanted[root] = at
        recent = sorted(wanted.items(), key=lambda one: order(one[1]), reverse=True)
        if len(recent) > THREADS:
            log.warning("gap.threads_cut", channel=channel, threads=len(recent))
        return recent[:THREADS]

    async def _read(
        self, method: str, channel: str, found: _Found | None, **query: str | bool
    ) -> AsyncGenerator[Item, None]:
        """The messages of a method, bounded: by the setting, or (`found` is None) by `BEFORE`."""
        bound = BEFORE if found is None else self._bound
        count = 0
        try:
            async with aclosing(
                self._api.pages(method, "messages", min(PAGE, bound), channel=channel, **query)
            ) as pages:  # fmt: skip
                async for item in pages:
                    if not isinstance(item.get("ts"), str):
                        continue
                    if count >= bound:
                        if found is not None:
                            found.cut = True
                        return
                    count += 1
                    yield item
        except Gone as error:
            if code_of(error) != "thread_not_found":
                raise
            await self._progress.forget(f"{channel}/{query['ts']}")


def span(seconds: float) -> str:
    """A span of time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / DAY:.0f} days"
