"""The Telegram adapter, its counterpart and a small gateway in one hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from adapters.events import Block, ChatAddress, ChatKind, Markdown, MessageEvent, RenderedChunk
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.poll import Timing
from adapters.telegram.settings import TelegramSettings
from tests.counterparts.small_gateway import SmallGateway
from tests.counterparts.small_services import services
from tests.counterparts.telegram_server import TelegramServer
from tests.counterparts.telegram_world import Chat

QUICK = Timing(
    poll=5, grace=0.3, pause=0.02, longest_pause=0.05, outage=0.5, conflict=0.02, conflicts=4, window=60, trial=0.2,
    store=1, watch=0.05,
)  # fmt: skip


class Rig:
    """One adapter; `running()` may be entered again after it ended."""

    def __init__(self, server: TelegramServer, folder: Path, *, commands: tuple[tuple[str, str], ...] = (),
                 attachment_bytes: int = 20_000_000, timing: Timing = QUICK, **settings: Any) -> None:  # fmt: skip
        self.server = server
        self.folder = folder
        self.gateway = SmallGateway()
        self.services = services(self.gateway, folder, commands=commands, attachment_bytes=attachment_bytes)
        given = {"enabled": True, "token": server.token, "api_base": server.url, **settings}
        self.adapter = TelegramAdapter(TelegramSettings.model_validate(given), self.services, timing=timing)
        self.ann = server.world.person("Ann", username="ann")
        self.bob = server.world.person("Bob", username="bob")
        self.chat = server.world.private(self.ann)
        self.readies = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def moves(self) -> Any:
        return self.services.moves

    def _ready(self) -> None:
        self.readies += 1

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.adapter.run(self.gateway, self._ready), name="adapter")
        return self.task

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        before = self.readies
        task = self.start()
        async with asyncio.timeout(10):
            while self.readies == before and not task.done():
                await asyncio.sleep(0.005)
        if task.done():
            await task
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
            self.gateway.adapter = None

    async def events(self, count: int) -> list[MessageEvent]:
        """The events so far, once there are `count`."""
        await self.gateway.until(lambda: len(self.gateway.rows) >= count)
        return self.gateway.events

    async def settled(self) -> list[MessageEvent]:
        """The events, once everything that waited is confirmed."""
        await self.server.until(lambda: not self.server.updates.waiting)
        return self.gateway.events

    def address(self, chat: Chat, thread: str | None = None) -> ChatAddress:
        kinds: dict[str, ChatKind] = {"private": "private", "channel": "channel"}
        return ChatAddress(
            platform="telegram",
            account=str(self.server.world.bot.id),
            chat_id=str(chat.id),
            thread_id=thread,
            chat_kind=kinds.get(chat.type, "group"),
        )

    def chunks(self, *blocks: Block | str) -> list[RenderedChunk]:
        return self.adapter.renderer.render([Markdown(text=one) if isinstance(one, str) else one for one in blocks])

    async def say(self, where: ChatAddress | Chat, *blocks: Block | str, reply_to: str | None = None) -> list[str]:
        """Send everything; the ids of the messages."""
        address = where if isinstance(where, ChatAddress) else self.address(where)
        found: list[str] = []
        for number, chunk in enumerate(self.chunks(*blocks)):
            receipt = await self.adapter.send(address, chunk, key=f"k{number}", reply_to=reply_to)
            found += receipt.message_ids
        return found
