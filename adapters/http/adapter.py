"""The HTTP adapter: routes for the gateway's server, and the way back to whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from adapters.events import ChatAddress, Receipt, RenderedChunk
from adapters.http.auth import PLATFORM
from adapters.http.desk import Desk, utc_now
from adapters.http.lines import ACCOUNT, line_of
from adapters.http.native import NativeApi
from adapters.http.openai_chat import ChatApi
from adapters.http.openai_common import ModelNames
from adapters.http.openai_responses import ResponsesApi
from adapters.http.render import HttpRenderer, read_chunk
from adapters.http.settings import HttpSettings
from adapters.http.waits import Waits
from adapters.ports import AdapterServices, Conversations, Inbox, LivePart, Renderer, Route


class HttpAdapter:
    """Implements `PlatformAdapter`, `HasRoutes`, `CanStream`, `HearsFates` and `HearsClosing`.

    An answer is pulled by its client: `send` always succeeds, with the words going to the request that
    waits, if any still does. They stay readable through `Conversations` either way.
    """

    def __init__(
        self,
        settings: HttpSettings,
        *,
        conversations: Conversations,
        models: Callable[[], Sequence[str]],
        files: Path,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`models` gives the configured model names; `files` is a folder of the adapter's own below
        `home/files`, made when it is first needed."""
        self._now = now
        self._renderer = HttpRenderer()
        self._waits = Waits(settings.max_waiting)
        self._desk = Desk(conversations, self._waits, wait_seconds=settings.wait_seconds, now=now)
        names = ModelNames(models)
        self._apis = (
            NativeApi(self._desk, conversations, files),
            ChatApi(self._desk, names, files),
            ResponsesApi(self._desk, conversations, names, files),
        )

    @property
    def platform(self) -> str:
        """The name in the configuration."""
        return PLATFORM

    @property
    def account(self) -> str:
        """There is one account."""
        return ACCOUNT

    @property
    def renderer(self) -> Renderer:
        """One chunk a delivery."""
        return self._renderer

    @property
    def waiting(self) -> int:
        """How many requests wait for an answer at the moment."""
        return len(self._waits)

    def routes(self) -> Sequence[Route]:
        """Every path of the three APIs."""
        return [route for api in self._apis for route in api.routes()]

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """Take messages until cancelled. The requests that wait go on waiting: their turns are drained."""
        self._desk.inbox = inbox
        try:
            ready()
            await asyncio.get_running_loop().create_future()
        finally:
            self._desk.inbox = None

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """Hand the chunk to whoever waits for it."""
        self._waits.spoken(address, reply_to, read_chunk(chunk))
        return Receipt(message_ids=(key,), sent_at=self._now())

    def live(self, address: ChatAddress, reply_to: str, part: LivePart) -> None:
        """A part of a running turn."""
        self._waits.live(address, reply_to, part.kind, part.text)

    def attended(self, address: ChatAddress, reply_to: str) -> bool:
        """Clients of the native API can press (`/api/actions`); those of the OpenAI front know no questions."""
        return line_of(address).kind == "s"

    def settled(self, address: ChatAddress, message_id: str, fate: str, detail: str) -> None:
        """An event has ended."""
        self._waits.settle(address, message_id)

    def closing(self) -> None:
        """The server closes: every request that waits is told where the answer will be."""
        self._waits.close_all()


def make(settings: HttpSettings, services: AdapterServices) -> HttpAdapter:
    """The adapter of the configuration (the factory that the manifest names)."""
    return HttpAdapter(
        settings, conversations=services.conversations, models=services.models, files=services.files / PLATFORM
    )
