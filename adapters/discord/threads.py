"""Where an address lies: the channel, its thread, and threads that are made when they are first needed.

The address of an answer to a mention names the thread that can be made from the mentioning message (it has the
message's id). Where that cannot be done the answer goes into the channel, as a reply to the message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from adapters.discord.directory import CAN_HAVE_THREADS, Directory, Place, place_of
from adapters.discord.errors import ARCHIVED, HAS_THREAD, UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, code_of
from adapters.discord.readable import plain_name
from adapters.discord.recent import Recent
from adapters.discord.rest import Rest
from adapters.errors import Gone, NoRights, NotReady, OutcomeUnknown, Rejected

log = structlog.get_logger("adapters.discord")

T = TypeVar("T")

KEPT = 2000
TITLE = "Conversation"
SLEEPS_AFTER = 1440
"""Minutes of silence after which Discord archives a thread; it wakes with the next message."""
NEVER_HERE = frozenset({50013, 50024, 50001})
"""Codes that say that no thread can be made in this channel."""


class Threads:
    """Finds and makes threads. What it has learnt is lost with the process, and then learnt again."""

    def __init__(self, directory: Directory, recent: Recent) -> None:
        self._directory = directory
        self._recent = recent
        self.threadless: set[str] = set()
        """Channels in which we may make no threads."""
        self._inline: OrderedDict[str, None] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def at(
        self, rest: Rest, chat: str, thread: str | None, call: Callable[[str, bool], Awaitable[T]]
    ) -> T:  # fmt: skip
        """`call(channel, inline)` with the channel that stands for the address; the thread is made first where
        it does not exist. `inline` is true where the answer goes into the channel for want of a thread."""
        if thread is None:
            return await call(chat, False)
        known = self._directory.place(thread) is not None
        if not known and self._recent.get(thread) is not None and not self._is_inline(chat, thread):
            await self._make(rest, chat, thread)
        if self._is_inline(chat, thread):
            return await call(chat, True)
        try:
            return await self._awake(rest, thread, call)
        except Gone as gone:
            if code_of(gone) != UNKNOWN_CHANNEL or known:
                raise
        await self._make(rest, chat, thread)
        if self._is_inline(chat, thread):
            return await call(chat, True)
        return await self._awake(rest, thread, call)

    async def find(self, rest: Rest, chat: str, thread: str | None, call: Callable[[str], Awaitable[T]]) -> T:
        """The same for what exists already: nothing is made."""
        if thread is None or self._is_inline(chat, thread):
            return await call(chat)
        try:
            return await self._awake(rest, thread, lambda channel, _inline: call(channel))
        except Gone as gone:
            if code_of(gone) != UNKNOWN_CHANNEL:
                raise
        return await call(chat)

    async def _awake(self, rest: Rest, thread: str, call: Callable[[str, bool], Awaitable[T]]) -> T:
        """Call; where the thread sleeps, wake it and call once more."""
        try:
            return await call(thread, False)
        except NoRights as error:
            if code_of(error) != ARCHIVED:
                raise
            await _certain(rest.send("PATCH", f"/channels/{thread}", {"archived": False}))
        return await call(thread, False)

    def _is_inline(self, chat: str, thread: str) -> bool:
        return thread in self._inline or (chat in self.threadless and self._directory.place(thread) is None)

    def _answer_inline(self, thread: str) -> None:
        self._inline[thread] = None
        while len(self._inline) > KEPT:
            self._inline.popitem(last=False)

    async def _make(self, rest: Rest, chat: str, root: str) -> None:
        """Make the thread of a message, or find out that the answer goes into the channel.

        Making it again is harmless, so that nothing here leaves an unknown outcome.
        """
        lock = self._locks.setdefault(root, asyncio.Lock())
        try:
            async with lock:
                if self._directory.place(root) is None and not self._is_inline(chat, root):
                    await self._make_once(rest, chat, root)
        finally:
            if not lock.locked():
                self._locks.pop(root, None)

    async def _make_once(self, rest: Rest, chat: str, root: str) -> None:
        body = {"name": await self._title(rest, chat, root), "auto_archive_duration": SLEEPS_AFTER}
        try:
            made = await _certain(rest.send("POST", f"/channels/{chat}/messages/{root}/threads", body))
        except (Rejected, Gone) as error:
            code = code_of(error)
            if code == HAS_THREAD:
                made = await rest.get(f"/channels/{root}")
            elif isinstance(error, Gone) and (code != UNKNOWN_MESSAGE or self._recent.get(root) is None):
                raise
            else:
                log.info("thread.not_made", channel=chat, message=root, code=code)
                if code in NEVER_HERE:
                    self.threadless.add(chat)
                self._answer_inline(root)
                return
        place = place_of(made, self._guild_of(chat)) if isinstance(made, dict) else None
        self._directory.remember(place or Place(id=root, type=11, parent_id=chat, guild_id=self._guild_of(chat)))

    def _guild_of(self, channel: str) -> str | None:
        place = self._directory.place(channel)
        return place.guild_id if place is not None else None

    async def _title(self, rest: Rest, chat: str, root: str) -> str:
        """The begin of the message; after a restart it has to be fetched."""
        known = self._recent.get(root)
        if known is None:
            try:
                data = await rest.get(f"/channels/{chat}/messages/{root}")
            except Gone:  # the making of the thread says so, too
                return TITLE
            return plain_name(data.get("content") if isinstance(data, dict) else None, TITLE)
        return plain_name(known.text, TITLE)

    async def open(self, rest: Rest, chat: str, title: str) -> Place | None:
        """A thread without a message to begin from; None where this channel can have none."""
        place = self._directory.place(chat)
        if place is None or place.type not in CAN_HAVE_THREADS:
            return None
        body: dict[str, Any] = {
            "name": plain_name(title, TITLE),
            "type": 10 if place.type == 5 else 11,
            "auto_archive_duration": SLEEPS_AFTER,
        }
        try:
            made = await rest.send("POST", f"/channels/{chat}/threads", body)
        except NoRights as error:
            if code_of(error) == 50024:
                return None
            raise
        found = place_of(made, place.guild_id) if isinstance(made, dict) else None
        if found is None:
            raise OutcomeUnknown("Discord does not tell which thread it has made")
        self._directory.remember(found)
        return found

    async def close(self, rest: Rest, thread: str) -> None:
        """Put a thread to sleep. Gone is closed, too."""
        try:
            await _certain(rest.send("PATCH", f"/channels/{thread}", {"archived": True}))
        except Gone:
            log.debug("thread.gone_already", thread=thread)


async def _certain(call: Awaitable[Any]) -> Any:
    """A call that can be made again: what is unknown of it is only "not yet"."""
    try:
        return await call
    except OutcomeUnknown as error:
        raise NotReady(str(error)) from error
