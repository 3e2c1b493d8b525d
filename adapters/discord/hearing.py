"""Events of the gateway, one after the other, in the order in which they came: committed, remembered, acknowledged.

The socket is read by another task, so that a slow store delays neither heartbeats nor their detection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog

from adapters.discord.attempts import Attempts
from adapters.discord.backfill import CAME, Backfill
from adapters.discord.directory import DM, SPOKEN_IN, Directory, Place, place_of
from adapters.discord.inbound import (
    PLATFORM,
    SPOKEN,
    Reading,
    address_of,
    author_of,
    deletion_event,
    edit_event,
    is_forward,
    message_event,
    reaction_event,
    thread_for,
)
from adapters.discord.interactions import acknowledge, interaction_event, message_of
from adapters.discord.readable import means_us, plain_name, readable
from adapters.discord.recent import Recent
from adapters.discord.rest import Rest
from adapters.errors import AdapterError, NotReady
from adapters.events import ChatAddress, MessageEvent, Sender
from adapters.ports import Inbox

log = structlog.get_logger("adapters.discord")

AGAIN_LONGEST = 5.0
PLACE_SECONDS = 10.0
RAW = 20_000


@dataclasses.dataclass(slots=True)
class Memory:
    """What outlives a connection."""

    directory: Directory
    recent: Recent
    attempts: Attempts
    backfill: Backfill
    hinted: bool = False
    """Whether it was said that messages come without their text."""


class Hearing:
    """The events of one run."""

    def __init__(
        self,
        inbox: Inbox,
        rest: Rest,
        memory: Memory,
        reading: Reading,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._inbox = inbox
        self._rest = rest
        self._m = memory
        self._reading = reading
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()

    # tasks -------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something small beside; it ends with `close` at the latest."""
        task = asyncio.create_task(work, name=f"discord:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what runs beside."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # events ------------------------------------------------------------------------------------------

    async def hear(self, event: str, data: dict[str, Any]) -> None:
        """Take one event. Returns when it is committed; a defect is logged, and the event kept for the operator."""
        try:
            await self._hear(event, data)
        except NotReady:
            raise
        except Exception as error:  # the boundary of one event: the next ones are not to blame
            log.exception("event.defect", kind=event)
            if event == "MESSAGE_CREATE":
                await self._unreadable(data, error)

    async def _unreadable(self, data: dict[str, Any], error: Exception) -> None:
        raw = json.dumps(data)[:RAW]
        await self._inbox.unreadable(
            PLATFORM, self._m.directory.us, str(data.get("id")), raw, f"{type(error).__name__}"
        )  # fmt: skip

    async def _hear(self, event: str, data: dict[str, Any]) -> None:
        match event:
            case "MESSAGE_CREATE":
                await self._message(data)
            case "MESSAGE_UPDATE":
                await self._edit(data)
            case "MESSAGE_DELETE":
                await self._deleted([data.get("id")], data)
            case "MESSAGE_DELETE_BULK":
                await self._deleted(data.get("ids") or (), data)
            case "MESSAGE_REACTION_ADD":
                await self._reaction(data)
            case "INTERACTION_CREATE":
                await self._interaction(data)
            case _:
                await self._structure(event, data)

    async def _structure(self, event: str, data: dict[str, Any]) -> None:
        """Servers, channels and threads come and go."""
        directory, backfill, identity = self._m.directory, self._m.backfill, str(data.get("id"))
        directory.hear(event, data)
        if event == "READY":
            backfill.gap(str(one.get("id")) for one in data.get("guilds") or () if isinstance(one, dict))
        elif event == "GUILD_CREATE" and directory.knows_guild(identity):
            backfill.guild_listed(identity)
        elif event in ("CHANNEL_CREATE", "THREAD_CREATE"):
            place = directory.place(identity)
            if place is not None and place.type in SPOKEN_IN:
                backfill.born(place)
        elif event in ("CHANNEL_DELETE", "THREAD_DELETE"):
            await backfill.gone(identity)

    async def _place(self, data: dict[str, Any]) -> Place | None:
        """Where an event is about. A thread that sleeps is not listed: it is asked for."""
        channel, guild = data.get("channel_id"), data.get("guild_id")
        if not isinstance(channel, str) or not channel.isdigit():
            return None
        place = self._m.directory.place(channel)
        if place is not None:
            return place
        if not isinstance(guild, str):
            place = Place(id=channel, type=DM)
        else:
            try:
                async with asyncio.timeout(PLACE_SECONDS):
                    place = place_of(await self._rest.get(f"/channels/{channel}") or {}, guild)
            except (AdapterError, TimeoutError) as error:
                log.warning("channel.not_described", channel=channel, error=str(error))
            if place is None:
                return Place(id=channel, type=0, guild_id=guild)
        self._m.directory.remember(place)
        return place

    # messages ----------------------------------------------------------------------------------------

    async def _message(self, data: dict[str, Any]) -> None:
        place = await self._place(data)
        if place is not None:
            await self._take(data, place, came=None)

    async def found(self, data: dict[str, Any], place: Place) -> None:
        """A message of the history: the same path as a live one."""
        try:
            await self._take(data, place, came=CAME)
        except NotReady:
            raise
        except Exception as error:  # as in `hear`
            log.exception("event.defect", kind="history")
            await self._unreadable(data, error)

    async def _take(self, data: dict[str, Any], place: Place, *, came: str | None) -> None:
        message_id = data.get("id")
        if not isinstance(message_id, str) or not message_id.isdigit():
            return
        if author_of(data).get("id") == self._m.directory.us:
            self._ours(data, place, message_id)
        else:
            event = message_event(data, place, self._reading, self._now(), came=came)
            if event is None:
                log.debug("message.ignored", message=message_id, type=data.get("type"))
            else:
                self._hint(data, event, place)
                self._m.recent.put(event)  # first: its turn may begin before `accept` returns
                await self._accept(event)
        if came is None:
            self._m.directory.heard_message(place.id, message_id)
            self._m.backfill.heard(place.id, message_id)

    def _ours(self, data: dict[str, Any], place: Place, message_id: str) -> None:
        """Our own message comes back to us. It is never input; its nonce tells which try has arrived."""
        nonce = data.get("nonce")
        if isinstance(nonce, str):
            self._m.attempts.arrived(nonce, message_id)
        if data.get("type") in SPOKEN:
            self._m.recent.ours(message_id, address_of(place, self._m.directory.us), str(data.get("content", "")))

    def _hint(self, data: dict[str, Any], event: MessageEvent, place: Place) -> None:
        empty = not (event.text or event.attachments or event.facts or data.get("embeds") or data.get("components"))
        stripped = means_us(data, place.guild_id, self._m.directory) and data.get("content")
        if empty and place.guild_id is not None and not stripped and not is_forward(data) and not self._m.hinted:
            self._m.hinted = True
            log.warning(
                "message.without_content",
                channel=place.id,
                hint="the bot may not have the message content intent; see `tidings setup discord`",
            )

    async def _accept(self, event: MessageEvent) -> None:
        """Commit it, however long the store takes: Discord would not tell it again."""
        pause = 0.1
        while True:
            try:
                await self._inbox.accept(event)
            except NotReady as error:
                log.warning("event.not_stored", dedup_id=event.dedup_id, error=str(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_LONGEST)

    async def _edit(self, data: dict[str, Any]) -> None:
        place, message_id = await self._place(data), data.get("id")
        if place is None or not isinstance(message_id, str):
            return
        known = self._m.recent.get(message_id)
        address = known.address if known is not None else self._address(data, place, message_id)
        event = edit_event(data, address, place, self._reading, self._now())
        if event is None:
            log.debug("edit.ignored", message=message_id)
            return
        await self._accept(event)

    def _address(self, data: dict[str, Any], place: Place, message_id: str) -> ChatAddress:
        """Where a message belongs that this process has not heard itself."""
        directory = self._m.directory
        text = readable(data.get("content"), data, place.guild_id, directory, strip_us=True)
        ours = means_us(data, place.guild_id, directory)
        thread = thread_for(message_id, text, place, self._reading, addressed=ours)
        return address_of(place, directory.us, thread)

    async def _deleted(self, ids: Sequence[Any], data: dict[str, Any]) -> None:
        """Discord tells only the ids. Where the author is not known, what is found without one is told."""
        place = await self._place(data)
        for message_id in ids:
            if place is None or not isinstance(message_id, str):
                continue
            known = self._m.recent.get(message_id)
            if known is not None and known.sender is None:
                continue  # ours
            sender = known.sender if known is not None else None
            address = known.address if known is not None else address_of(place, self._m.directory.us)
            event = deletion_event(message_id, address, sender or Sender(id="", name=""), self._now())
            await self._accept(event)

    async def _reaction(self, data: dict[str, Any]) -> None:
        place = await self._place(data)
        if place is None:
            return
        us = self._m.directory.us
        known = self._m.recent.get(str(data.get("message_id")))
        name = self._m.recent.name(str(data.get("user_id")))
        if known is not None and known.sender is None:
            data = {**data, "message_author_id": us}
        address = known.address if known is not None else address_of(place, us)
        text = plain_name(known.text) if known is not None else ""
        event = reaction_event(data, address, name, text, us, self._now())
        if event is not None:
            await self._accept(event)

    async def _interaction(self, data: dict[str, Any]) -> None:
        place = await self._place(data)
        if place is None:
            return
        known = self._m.recent.get(message_of(data) or "")
        address = known.address if known is not None else address_of(place, self._m.directory.us)
        event = interaction_event(data, address, self._now())
        if event is None:
            log.debug("interaction.ignored", type=data.get("type"))
            return
        await self._accept(event)
        self.spawn(acknowledge(self._rest, data), "acknowledge")
