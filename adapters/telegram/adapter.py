"""Telegram: one bot account, by long polling or by a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from adapters.errors import NotReady
from adapters.events import Attachment, ChatAddress, MessageEvent, Receipt, RenderedChunk
from adapters.ports import (
    AdapterServices,
    CanDelete,
    CanEdit,
    CanFetch,
    CanFindPlaces,
    CanOpenThreads,
    CanType,
    HasRoutes,
    Inbox,
    PlatformAdapter,
    Renderer,
    Route,
)
from adapters.telegram import topics, webhook
from adapters.telegram.files import FETCHED, Fetcher
from adapters.telegram.ids import PLATFORM
from adapters.telegram.inbound import Ears
from adapters.telegram.link import Link, tls
from adapters.telegram.menu import register
from adapters.telegram.outbound import Outbound
from adapters.telegram.poll import Poller, Timing, Trouble
from adapters.telegram.reception import Chores, Reception
from adapters.telegram.render import TelegramRenderer
from adapters.telegram.settings import TelegramSettings

log = structlog.get_logger("adapters.telegram")

PATIENCE = 30.0
"""Seconds that a fetch waits for the connection: after a start a turn may go on before Telegram answers."""


class TelegramAdapter:
    """Implements `PlatformAdapter`, `CanEdit`, `CanDelete`, `CanType`, `CanFetch`, `CanOpenThreads`, `HasRoutes`.

    Telegram has no idempotency key and tells nothing of our own messages, so that an outcome that is unknown
    stays so.
    """

    def __init__(self, settings: TelegramSettings, services: AdapterServices, *, timing: Timing | None = None) -> None:
        self._settings = settings
        self._services = services
        self._timing = timing or Timing()
        self._trouble = Trouble(self._timing)
        self._renderer = TelegramRenderer()
        self._account = ""
        self._link: Link | None = None
        self._linked = asyncio.Event()
        # a server of one's own serves files of any size
        self._limit = services.attachment_bytes if settings.api_base else min(services.attachment_bytes, FETCHED)
        self._fetcher = Fetcher(self._wait_for_link, services.files / PLATFORM, limit=self._limit)
        self._outbound = Outbound(self._present_link, services.moves, link_previews=settings.link_previews)
        secret = settings.webhook.secret
        self._door = webhook.Door(secret.get_secret_value() if secret is not None else "")

    @property
    def platform(self) -> str:
        """The name in the configuration."""
        return PLATFORM

    @property
    def account(self) -> str:
        """The bot's id, known once connected."""
        return self._account

    @property
    def renderer(self) -> Renderer:
        """HTML within 4,096 units."""
        return self._renderer

    def routes(self) -> Sequence[Route]:
        """The path of the webhook, in that mode only."""
        if self._settings.mode != "webhook":
            return ()
        return (Route(method="POST", path=self._settings.webhook.path, handler=self._door.handle, public=True),)

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """Connect and take updates until cancelled. What Telegram has kept while we were away comes first."""
        token = self._settings.token.get_secret_value() if self._settings.token is not None else ""
        await asyncio.to_thread(tls)  # reading the certificates takes a while
        link, chores = Link(token, self._settings.api_base), Chores()
        try:
            me = await link.me()
            self._account = str(me.id)
            ears = Ears(bot_id=me.id, username=me.username or "", moves=self._services.moves, limit=self._limit)
            reception = Reception(inbox, ears, link, chores)
            chores.start(register(link, self._services.commands), "menu")

            def connected() -> None:
                self._link = link
                self._linked.set()
                ready()

            if self._settings.mode == "webhook":
                settings, watch = self._settings.webhook, self._timing.watch
                await webhook.serve(link, settings, self._door, reception.take, connected, watch)
            else:
                # what waits there is kept: drop_pending_updates would lose it (B12)
                await link.ask(lambda bot: bot.delete_webhook(drop_pending_updates=False))
                await Poller(link, reception.take, connected, self._trouble, self._timing).run()
        finally:
            self._link = None
            self._linked.clear()
            await _whole(_close(link, chores))

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """Send one message. Telegram knows no key."""
        return await self._outbound.send(address, chunk, reply_to)

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """Replace the text of a message of ours."""
        await self._outbound.edit(address, message_id, chunk)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """Take a message of ours back; Telegram lets that be for 48 hours."""
        await self._outbound.delete(address, message_id)

    async def typing(self, address: ChatAddress, reply_to: str | None) -> None:
        """Show it for five seconds."""
        await self._outbound.typing(address)

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        """The files of an event."""
        return await self._fetcher.fetch(event)

    async def open_thread(self, chat: ChatAddress, title: str) -> ChatAddress | None:
        """Make a topic, where the chat has topics."""
        return await topics.open_topic(self._present_link, self._services.moves, chat, title)

    async def close_thread(self, thread: ChatAddress) -> None:
        """Close a topic."""
        await topics.close_topic(self._present_link, self._services.moves, thread)

    async def find_place(self, address: ChatAddress) -> None:
        """See `CanFindPlaces`: only an action names a topic that does not exist."""
        await self._outbound.typing(address)

    def suspect(self) -> None:
        """Ask Telegram whether it answers before the next call that changes something."""
        self._present_link().suspect()

    def _present_link(self) -> Link:
        if self._link is None:
            raise NotReady("Telegram is not connected")
        return self._link

    async def _wait_for_link(self) -> Link:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._linked.wait()
        except TimeoutError as error:
            raise NotReady("Telegram is not connected") from error
        return self._present_link()


async def _close(link: Link, chores: Chores) -> None:
    await chores.close()
    await link.close()


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Carry a bounded `work` through, also when cancelled (again) meanwhile; the cancellation goes on then."""
    task = asyncio.create_task(work, name=f"adapter:{PLATFORM}:close")
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError


def make(settings: TelegramSettings, services: AdapterServices) -> TelegramAdapter:
    """The adapter of the configuration (the factory that the manifest names)."""
    return TelegramAdapter(settings, services)


if TYPE_CHECKING:

    def _conforms(adapter: TelegramAdapter) -> None:
        _adapter: PlatformAdapter = adapter
        _edits: CanEdit = adapter
        _deletes: CanDelete = adapter
        _types: CanType = adapter
        _fetches: CanFetch = adapter
        _opens: CanOpenThreads = adapter
        _finds: CanFindPlaces = adapter
        _routed: HasRoutes = adapter
