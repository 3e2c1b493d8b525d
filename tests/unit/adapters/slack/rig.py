"""The Slack adapter, a workspace and a small gateway in one hand."""

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
from tests.unit.adapters.slack.workspace import BOT, TEAM, Workspace


class Rig:
    """One adapter; `running()` may be entered again after it ended. `cursors` outlive it, as the store does."""

    def __init__(self, workspace: Workspace, folder: Path, *, attachment_bytes: int = 20_000_000, **given: Any) -> None:
        self.workspace = workspace
        self.folder = folder
        self.gateway = SmallGateway()
        self.cursors = SmallCursors()
        self._bytes = attachment_bytes
        self._given = {"enabled": True, "bot_token": "xoxb-test-token", "app_token": "xapp-test-token",
                       "api_base": workspace.url, **given}  # fmt: skip
        self.readies = 0
        self.renew()

    def renew(self) -> None:
        """Another process: nothing is remembered but what the store holds."""
        found = services(self.gateway, self.folder, cursors=self.cursors, attachment_bytes=self._bytes)
        self.adapter = SlackAdapter(SlackSettings.model_validate(self._given), found)

    def _ready(self) -> None:
        assert self.adapter.account == BOT
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

    async def events(self, count: int) -> list[MessageEvent]:
        await self.gateway.until(lambda: len(self.gateway.rows) >= count)
        return self.gateway.events

    def address(self, channel: str = "C1", thread: str | None = None) -> ChatAddress:
        kind = "private" if channel.startswith("D") else "group"
        return ChatAddress(platform="slack", account=BOT, scope=TEAM, chat_id=channel, thread_id=thread,
                           chat_kind=kind)  # type: ignore[arg-type]  # fmt: skip

    def chunks(self, *blocks: Block | str) -> list[RenderedChunk]:
        return self.adapter.renderer.render([Markdown(text=one) if isinstance(one, str) else one for one in blocks])
