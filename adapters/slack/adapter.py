"""Slack: one app in one workspace, by Socket Mode or by events over HTTP."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from adapters.errors import AuthFailed, Gone, NoRights, NotReady, Rejected
from adapters.events import Attachment, ChatAddress, MessageEvent, Receipt, RenderedChunk
from adapters.ports import (
    AdapterServices,
    CanDelete,
    CanEdit,
    CanFetch,
    CanFindPlaces,
    CanLookUp,
    CanOpenThreads,
    CanType,
    HasRoutes,
    Inbox,
    PlatformAdapter,
    Renderer,
    Route,
)
from adapters.slack.api import Api, clock_skew, new_session
from adapters.slack.inbound import PLATFORM
from adapters.slack.mrkdwn import escape
from adapters.slack.render import SlackRenderer
from adapters.slack.service import Service
from adapters.slack.settings import SlackSettings

log = structlog.get_logger("adapters.slack")

TITLE = 200


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class SlackAdapter:
    """Implements `PlatformAdapter`, `CanEdit`, `CanDelete`, `CanType`, `CanLookUp`, `CanFetch`, `CanOpenThreads` and
    `HasRoutes`. The account is the bot's user id, the scope the workspace."""

    def __init__(
        self, settings: SlackSettings, services: AdapterServices, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._settings = settings
        self._services = services
        self._now = now
        self._renderer = SlackRenderer()
        self._account = ""
        self._live: Service | None = None
        self._tried: OrderedDict[str, str] = OrderedDict()
        self._made: OrderedDict[str, str] = OrderedDict()

    @property
    def platform(self) -> str:
        """The name in the configuration."""
        return PLATFORM

    @property
    def account(self) -> str:
        """The bot's user id, known once connected."""
        return self._account

    @property
    def renderer(self) -> Renderer:
        """mrkdwn."""
        return self._renderer

    # the connection -------------------------------------------------------------------------------

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """See `PlatformAdapter.run`. In the mode `http` it is ready once the token is known to be good."""
        token = self._settings.bot_token
        if token is None:
            raise AuthFailed("there is no bot token")
        async with new_session() as session:
            api = Api(session, token.get_secret_value(), self._settings.api_base)
            me, headers = await api.who()
            service = Service(
                api,
                me,
                inbox,
                self._settings,
                self._services,
                tried=self._tried,
                made=self._made,
                now=self._now,
                skew=clock_skew(headers, self._now().timestamp()),
            )

            def up() -> None:
                self._account, self._live = service.user, service
                ready()

            try:
                await service.run(up)
            finally:
                self._live = None

    # HTTP -----------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        """The webhook, in the mode `http`."""
        if self._settings.mode != "http":
            return ()
        return (Route(method="POST", path=self._settings.path, handler=self._webhook, public=True),)

    async def _webhook(self, request: web.Request) -> web.StreamResponse:
        live = self._live
        if live is None:  # Slack tries again
            return web.Response(status=503, headers={"Retry-After": "5"})
        return await live.hub.from_http(request)

    # what goes out --------------------------------------------------------------------------------

    def _connected(self) -> Service:
        if self._live is None:
            raise NotReady("Slack is not connected")
        return self._live

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """See `PlatformAdapter.send`. Slack has no quotes: `reply_to` is the thread, which the address names."""
        return await self._connected().outbound.send(address, chunk, key)

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """See `CanEdit`."""
        await self._connected().outbound.edit(address, message_id, chunk)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """See `CanDelete`."""
        await self._connected().outbound.delete(address, message_id)

    async def typing(self, address: ChatAddress, reply_to: str | None) -> None:
        """See `CanType` and `Outbound.typing`."""
        await self._connected().outbound.typing(address)

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """See `CanLookUp`."""
        return await self._connected().outbound.look_up(address, key)

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        """See `CanFetch`."""
        if self._live is None:
            note = "Slack is not connected"
            return tuple(dataclasses.replace(one, note=one.note or note) for one in event.attachments)
        return await self._live.files.fetch(event.attachments)

    async def open_thread(self, chat: ChatAddress, title: str) -> ChatAddress | None:
        """See `CanOpenThreads`: a message with the title is the root. A direct message is its own place."""
        if chat.chat_kind == "private" or chat.chat_id.startswith("D"):
            return None
        live = self._connected()
        shown = f"*{escape(' '.join(title.split())[:TITLE]) or 'Conversation'}*"
        data = await live.api.write(
            "chat.postMessage", channel=chat.chat_id, text=shown, link_names=False, parse="none", unfurl_links=False
        )
        ts = data.get("ts")
        if not isinstance(ts, str):
            raise NotReady("Slack's answer does not name the thread")
        live.threads.sent(chat.chat_id, ts, None)
        return dataclasses.replace(chat, account=self._account, thread_id=ts, chat_kind="group")

    async def find_place(self, address: ChatAddress) -> None:
        """See `CanFindPlaces`."""
        api, thread = self._connected().api, address.thread_id
        await api.read("conversations.info", channel=address.chat_id)
        if thread is not None:
            await api.read("conversations.replies", channel=address.chat_id, ts=thread, limit=1)

    async def close_thread(self, thread: ChatAddress) -> None:
        """See `CanOpenThreads`: the root is taken back."""
        if thread.thread_id is not None:
            try:
                await self.delete(thread, thread.thread_id)
            except (Gone, NoRights, Rejected) as error:
                log.info("thread.not_closed", error=str(error))


def make(settings: SlackSettings, services: AdapterServices) -> SlackAdapter:
    """The adapter of the configuration (the factory that the manifest names)."""
    return SlackAdapter(settings, services)


if TYPE_CHECKING:

    def _conforms(one: SlackAdapter) -> None:
        _adapter: PlatformAdapter = one
        _edits: CanEdit = one
        _deletes: CanDelete = one
        _types: CanType = one
        _looks: CanLookUp = one
        _fetches: CanFetch = one
        _finds: CanFindPlaces = one
        _opens: CanOpenThreads = one
        _has_routes: HasRoutes = one
