"""The Discord adapter beside its counterpart and a small gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.settings import DiscordSettings
from adapters.events import Block, ChatAddress, EventKind, Markdown, MessageEvent, Receipt, RenderedChunk
from tests.counterparts.discord_server import DiscordServer
from tests.counterparts.small_gateway import SmallGateway
from tests.counterparts.small_services import SmallCursors, services


class Rig:
    """One counterpart, one inbox, one store of cursors; adapters come and go (`running`)."""

    def __init__(self, server: DiscordServer, folder: Path, **settings: Any) -> None:
        self.server = server
        self.folder = folder
        self.settings = settings
        self.gateway = SmallGateway()
        self.cursors = SmallCursors()
        self.commands: tuple[tuple[str, str], ...] = ()
        self.attachment_bytes = 20_000_000
        self.ann = server.person("ann")
        self.readies = 0
        self.adapter = self.make()

    def make(self) -> DiscordAdapter:
        """A new adapter, as a new process has it."""
        given = {"enabled": True, "token": self.server.token, "api_base": self.server.url,
                 "gateway_url": self.server.gateway.url} | self.settings  # fmt: skip
        parts = services(
            self.gateway,
            self.folder,
            cursors=self.cursors,
            commands=self.commands,
            attachment_bytes=self.attachment_bytes,
        )
        self.adapter = DiscordAdapter(DiscordSettings.model_validate(given), parts, pause=0.01)
        self.gateway.adapter = self.adapter
        return self.adapter

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The adapter runs inside; it has found out which channels have a gap."""
        before = self.readies
        task = asyncio.create_task(self.adapter.run(self.gateway, self._ready), name="adapter:discord")
        try:
            await self.until(lambda: task.done() or (self.readies > before and self.settled))
            if task.done():
                task.result()
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _ready(self) -> None:
        self.readies += 1

    @property
    def settled(self) -> bool:
        return self.adapter._memory.backfill.open_gaps == 0

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)

    async def events(self, count: int, kind: EventKind | None = None) -> list[MessageEvent]:
        """The events, once there are so many; a moment later there are no more."""
        await self.until(lambda: len(self.heard(kind)) >= count)
        await asyncio.sleep(0.05)
        found = self.heard(kind)
        assert len(found) == count, found
        return found

    def heard(self, kind: EventKind | None = None) -> list[MessageEvent]:
        return [one for one in self.gateway.events if kind is None or one.kind is kind]

    async def quiet(self) -> None:
        """Long enough for something that should not come."""
        await asyncio.sleep(0.15)

    def chunks(self, *blocks: Block | str) -> list[RenderedChunk]:
        return self.adapter.renderer.render([Markdown(text=one) if isinstance(one, str) else one for one in blocks])

    async def send(
        self, address: ChatAddress, *blocks: Block | str, key: str = "k", reply_to: str | None = None
    ) -> Receipt:
        (chunk,) = self.chunks(*blocks)
        return await self.adapter.send(address, chunk, key=key, reply_to=reply_to)

    def dm(self) -> ChatAddress:
        chat = self.server.dm(self.ann)
        return ChatAddress(platform="discord", account=str(self.server.bot), chat_id=str(chat))

    def mention(self, text: str, **how: Any) -> dict[str, Any]:
        """Ann mentions the bot in the channel."""
        return self.server.say(self.server.channel, self.ann, f"<@{self.server.bot}> {text}", **how)

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """An event of the gateway as it is, however odd."""
        for session in self.server.gateway.sessions.values():
            session.tell(event, data)

    def contents(self, channel: object) -> list[str]:
        return [one.content for one in self.server.shown(channel)]  # type: ignore[arg-type]
