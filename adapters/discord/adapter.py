"""The Discord adapter: one bot account, connected by the gateway, speaking over REST."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import structlog

from adapters.discord.attempts import Attempts
from adapters.discord.backfill import Backfill
from adapters.discord.directory import Directory
from adapters.discord.errors import HAS_CONTENT
from adapters.discord.files import Files
from adapters.discord.hearing import Hearing, Memory
from adapters.discord.inbound import PLATFORM, Reading, address_of
from adapters.discord.interactions import register
from adapters.discord.link import Link, Position
from adapters.discord.outbound import Outbound
from adapters.discord.recent import Recent
from adapters.discord.render import DiscordRenderer
from adapters.discord.rest import Rest
from adapters.discord.settings import DiscordSettings
from adapters.discord.threads import Threads
from adapters.errors import AdapterError, AuthFailed, NotReady, RetryAfter
from adapters.events import Attachment, ChatAddress, MessageEvent, Receipt, RenderedChunk
from adapters.ports import AdapterServices, Inbox, Renderer

if TYPE_CHECKING:
    from adapters.ports import (
        CanDelete,
        CanEdit,
        CanFetch,
        CanFindPlaces,
        CanLookUp,
        CanOpenThreads,
        CanType,
        PlatformAdapter,
    )

log = structlog.get_logger("adapters.discord")

QUEUE = 10_000
"""Events that may wait for the store. More end the run; a new one begins where the work has come to."""
FLUSH_SECONDS = 2.0
REGISTER_TRIES = 5


class DiscordAdapter:
    """Implements `PlatformAdapter`, `CanEdit`, `CanDelete`, `CanType`, `CanLookUp`, `CanFetch`, `CanOpenThreads`."""

    def __init__(self, settings: DiscordSettings, services: AdapterServices, *, pause: float = 1.0) -> None:
        """`pause` is the first wait of a reconnect, in seconds."""
        if settings.token is None:
            raise ValueError("the Discord adapter needs a token")
        self._token = settings.token.get_secret_value()
        self._settings = settings
        self._services = services
        self._pause = pause
        self._folder: Path = services.files / PLATFORM
        self._renderer = DiscordRenderer(link_previews=settings.link_previews)
        directory, recent = Directory(), Recent()
        self._memory = Memory(
            directory=directory,
            recent=recent,
            attempts=Attempts(),
            backfill=Backfill(
                services.cursors,
                directory,
                PLATFORM,
                messages=settings.backfill_messages,
                hours=settings.backfill_hours,
            ),
        )
        self._threads = Threads(directory, recent)
        self._account = ""
        self._position: Position | None = None
        self._outbound: Outbound | None = None
        self._files: Files | None = None
        self._rest: Rest | None = None

    @property
    def platform(self) -> str:
        """The name in the configuration."""
        return PLATFORM

    @property
    def account(self) -> str:
        """The bot's user id."""
        return self._account

    @property
    def renderer(self) -> Renderer:
        """Discord's markdown."""
        return self._renderer

    # its life ----------------------------------------------------------------------------------------

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """See `PlatformAdapter.run`."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            rest = Rest(session, self._token, self._settings.api_base)
            application = await self._introduce(rest)
            memory = self._memory
            await memory.backfill.load(memory.directory.us)
            reading = Reading(
                directory=memory.directory,
                auto_thread=self._settings.auto_thread,
                attachment_bytes=self._services.attachment_bytes,
                threadless=self._threads.threadless,
            )
            hearing = Hearing(inbox, rest, memory, reading)
            self._rest = rest
            self._files = Files(session, rest, self._folder, self._services.attachment_bytes)
            self._outbound = Outbound(
                rest,
                self._threads,
                memory.attempts,
                memory.directory,
                memory.recent,
                link_previews=self._settings.link_previews,
            )
            try:
                await self._serve(session, rest, hearing, application, ready)
            except (asyncio.CancelledError, AuthFailed):
                self._position = None
                raise
            finally:
                self._outbound = self._files = self._rest = None

    async def _introduce(self, rest: Rest) -> str:
        """Who we are, and whether we may read. Returns the application's id."""
        us = await rest.get("/users/@me")
        application = await rest.get("/applications/@me")
        if not isinstance(us, dict) or not isinstance(application, dict):
            raise NotReady("Discord does not tell who we are")
        self._memory.directory.us = str(us["id"])
        if not int(application.get("flags") or 0) & HAS_CONTENT:
            log.warning("intent.missing", intent="message content", where="developer portal, section Bot")
        return str(application["id"])

    async def _serve(
        self, session: aiohttp.ClientSession, rest: Rest, hearing: Hearing, application: str, ready: Callable[[], None]
    ) -> None:
        """Run the parts until one of them ends, then end all."""
        queue: asyncio.Queue[tuple[str, dict[str, Any], int]] = asyncio.Queue()
        full = asyncio.Event()

        def on_event(event: str, data: dict[str, Any], sequence: int) -> None:
            if event == "READY":
                user = data.get("user")
                self._memory.directory.us = str(user["id"]) if isinstance(user, dict) else self._memory.directory.us
            if queue.qsize() >= QUEUE:
                full.set()
                return
            queue.put_nowait((event, data, sequence))
            if event in ("READY", "RESUMED"):
                self._account = self._memory.directory.us
                ready()

        link = Link(session, rest, self._token, self._settings.gateway_url, on_event, pause=self._pause)
        backfill = self._memory.backfill
        hearing.spawn(_register(rest, application, self._services.commands), "commands")
        parts = (
            ("gateway", link.serve(self._position)),
            ("events", self._work_off(queue, hearing)),
            ("overflow", _overflow(full)),
            ("cursors", backfill.keep()),
            ("gaps", backfill.work(rest, hearing.found)),
        )
        tasks = [asyncio.create_task(work, name=f"discord:{name}") for name, work in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except asyncio.CancelledError:
            link.leaves = True
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hearing.close()
            await self._flush()

    async def _work_off(self, queue: asyncio.Queue[tuple[str, dict[str, Any], int]], hearing: Hearing) -> None:
        """Hear every event, and remember how far that has come: a session is taken up from there."""
        session_id = gateway = ""
        if self._position is not None:
            session_id, gateway = self._position.session_id, self._position.gateway
        while True:
            event, data, sequence = await queue.get()
            await hearing.hear(event, data)
            if event == "READY":
                session_id, gateway = str(data.get("session_id")), str(data.get("resume_gateway_url"))
            if session_id:
                self._position = Position(session_id=session_id, gateway=gateway, sequence=sequence)

    async def _flush(self) -> None:
        """Write the cursors, bounded; one that lags is safe."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._memory.backfill.flush()
        except (NotReady, TimeoutError) as error:
            log.info("cursors.not_stored", error=str(error))

    # what is said ------------------------------------------------------------------------------------

    def _connected(self) -> Outbound:
        if self._outbound is None or not self._account:
            raise NotReady("Discord is not connected")
        return self._outbound

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """See `PlatformAdapter.send`."""
        return await self._connected().send(address, chunk, key, reply_to)

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """See `CanEdit.edit`."""
        await self._connected().edit(address, message_id, chunk)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """See `CanDelete.delete`."""
        await self._connected().delete(address, message_id)

    async def typing(self, address: ChatAddress, reply_to: str | None) -> None:
        """See `CanType.typing`."""
        await self._connected().typing(address)

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """See `CanLookUp.look_up`."""
        return await self._connected().look_up(address, key)

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        """See `CanFetch.fetch`. What cannot be fetched now for want of a connection waits for one, bounded."""
        for _ in range(20):
            if self._files is not None:
                return await self._files.fetch(event.attachments)
            await asyncio.sleep(0.5)
        return tuple(
            one if one.path is not None or one.note is not None else _with_note(one) for one in event.attachments
        )

    async def open_thread(self, chat: ChatAddress, title: str) -> ChatAddress | None:
        """See `CanOpenThreads.open_thread`."""
        self._connected()
        if self._rest is None or chat.chat_kind == "private" or chat.thread_id is not None:
            return None
        place = await self._threads.open(self._rest, chat.chat_id, title)
        return None if place is None else address_of(place, self._account)

    async def find_place(self, address: ChatAddress) -> None:
        """See `CanFindPlaces.find_place`. A thread is a channel."""
        self._connected()
        if self._rest is not None:
            await self._rest.get(f"/channels/{address.thread_id or address.chat_id}")

    async def close_thread(self, thread: ChatAddress) -> None:
        """See `CanOpenThreads.close_thread`."""
        self._connected()
        if self._rest is not None and thread.thread_id is not None:
            await self._threads.close(self._rest, thread.thread_id)


def _with_note(one: Attachment) -> Attachment:
    return dataclasses.replace(one, note="Discord is not connected")


async def _overflow(full: asyncio.Event) -> None:
    await full.wait()
    raise NotReady("more events than the store can take; they are fetched again")


async def _register(rest: Rest, application: str, commands: tuple[tuple[str, str], ...]) -> None:
    """Register the commands, with patience; without them everything else works."""
    if not commands:
        return
    for _ in range(REGISTER_TRIES):
        try:
            if await register(rest, application, commands):
                log.info("commands.registered", count=len(commands))
        except RetryAfter as wait:
            await asyncio.sleep(wait.seconds)
        except NotReady:
            await asyncio.sleep(5.0)
        except AdapterError as error:
            log.warning("commands.not_registered", error=str(error))
            return
        else:
            return


def make(settings: DiscordSettings, services: AdapterServices) -> DiscordAdapter:
    """The adapter of the configuration (the factory that the manifest names)."""
    return DiscordAdapter(settings, services)


if TYPE_CHECKING:

    def _conforms(adapter: DiscordAdapter) -> None:
        _adapter: PlatformAdapter = adapter
        _edits: CanEdit = adapter
        _deletes: CanDelete = adapter
        _types: CanType = adapter
        _looks: CanLookUp = adapter
        _fetches: CanFetch = adapter
        _opens: CanOpenThreads = adapter
        _finds: CanFindPlaces = adapter
