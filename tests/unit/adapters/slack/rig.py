"""The Slack adapter, its counterpart and a small gateway in one hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from adapters.events import Block, ChatAddress, Markdown, MessageEvent, RenderedChunk
from adapters.slack.adapter import SlackAdapter
from adapters.slack.settings import SlackSettings
from tests.counterparts.small_gateway import SmallGateway
from tests.counterparts.small_services import SmallCursors, services
from tests.counterparts.small_slack_server import SlackServer
from tests.counterparts.small_slack_world import TEAM, Channel, Message


class Rig:
    """One adapter; `running()` may be entered again after it ended. `cursors` outlive it, as the store does."""

    def __init__(self, server: SlackServer, folder: Path, *, attachment_bytes: int = 20_000_000, **given: Any) -> None:
        self.server = server
        self.folder = folder
        self.gateway = SmallGateway()
        self.cursors = SmallCursors()
        self._bytes = attachment_bytes
        self._given = {"enabled": True, "bot_token": server.bot_token, "app_token": server.app_token,
                       "signing_secret": server.signing_secret, "api_base": server.url, **given}  # fmt: skip
        self.ann, self.bob = server.person("Ann"), server.person("Bob")
        self.room = server.channel("kitchen", self.ann, self.bob)
        self.dm = server.dm(self.ann)
        self.readies = 0
        self.renew()

    def renew(self) -> None:
        """Another process: nothing is remembered but what the store holds."""
        found = services(self.gateway, self.folder, cursors=self.cursors, attachment_bytes=self._bytes)
        self.adapter = SlackAdapter(SlackSettings.model_validate(self._given), found)

    def _ready(self) -> None:
        assert self.adapter.account == self.server.bot
        self.readies += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        before = self.readies
        task = asyncio.create_task(self.adapter.run(self.gateway, self._ready), name="adapter")
        async with asyncio.timeout(10):
            while self.readies == before and not task.done():
                await asyncio.sleep(0.005)
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def ended(self, task: asyncio.Task[None]) -> BaseException | None:
        await asyncio.wait({task}, timeout=5)
        return task.exception()

    def say(self, text: str, channel: Channel | None = None, **more: Any) -> Message:
        return self.server.people.say(channel or self.room, self.ann, text, **more)

    def mention(self, text: str, **more: Any) -> Message:
        return self.say(f"<@{self.server.bot}> {text}", **more)

    async def events(self, count: int) -> list[MessageEvent]:
        await self.gateway.until(lambda: len(self.gateway.rows) >= count)
        return self.gateway.events

    async def acked(self, count: int) -> None:
        await self.server.until(lambda: len(self.server.sockets.acks) >= count)

    def texts(self, channel: Channel | None = None) -> list[str]:
        return [one["text"] for one in self.server.shown(channel or self.room)]

    def address(self, channel: Channel, thread: str | None = None) -> ChatAddress:
        return ChatAddress(platform="slack", account=self.server.bot, scope=TEAM, chat_id=channel.id, thread_id=thread,
                           chat_kind="private" if channel.kind == "im" else "group")  # fmt: skip

    def chunks(self, *blocks: Block | str) -> list[RenderedChunk]:
        return self.adapter.renderer.render([Markdown(text=one) if isinstance(one, str) else one for one in blocks])
