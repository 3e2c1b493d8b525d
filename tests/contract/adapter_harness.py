"""What the contract suite of the adapters needs of each: write one class here to add a platform.

A harness owns the other side of the wire: it lets a person say something there, tells whether the
platform was told that we have it, and what is shown there.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.settings import DiscordSettings
from adapters.errors import (
    AdapterError,
    AuthFailed,
    Gone,
    NoRights,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    TooLong,
    UnparsableMarkup,
)
from adapters.events import ChatAddress, Sender
from adapters.http.adapter import HttpAdapter
from adapters.http.auth import PRINCIPAL
from adapters.http.errors import HttpProblem
from adapters.http.lines import address_of
from adapters.http.settings import HttpSettings
from adapters.limits import Limits
from adapters.memory.adapter import BareMemoryAdapter, LiveMemoryAdapter, MemoryAdapter
from adapters.ports import PlatformAdapter
from adapters.slack.adapter import SlackAdapter
from adapters.slack.mrkdwn import unescape
from adapters.slack.settings import SlackSettings
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from adapters.terminal.adapter import TerminalAdapter
from adapters.terminal.piped import PipedFront
from tests.counterparts.discord_server import DiscordServer
from tests.counterparts.small_gateway import SmallGateway
from tests.counterparts.small_services import services
from tests.counterparts.small_slack_server import SlackServer
from tests.counterparts.small_slack_world import TEAM
from tests.counterparts.telegram_server import TelegramServer


class Harness(ABC):
    """One adapter with its counterpart. `open` is entered once; the adapter is not running yet then."""

    adapter: PlatformAdapter
    address: ChatAddress
    confirms = True
    """Whether the platform is told that we have a message (else `confirmed` is not asked)."""
    repeats = True
    """Whether the platform may tell the same message again (`hear` with the same id)."""
    idempotent = True
    """Whether the same key sent twice is shown once."""
    shows = True
    """Whether a chunk can be seen (`seen`) without anybody asking for it."""
    faults: Mapping[type[AdapterError], Callable[[], None]] = {}
    """How to make the next send fail, by the error that must come of it."""

    @asynccontextmanager
    @abstractmethod
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        """Make the counterpart and `self.adapter`; end the counterpart afterwards."""
        yield

    @abstractmethod
    async def hear(self, text: str, message_id: str) -> None:
        """A person says `text`. Returns when the platform is told, or may return before."""

    def confirmed(self) -> int:
        """How many messages the platform knows to be with us."""
        return 0

    async def seen(self) -> str:
        """Everything that is shown at the other side."""
        return ""


class MemoryHarness(Harness):
    """Memory, with all abilities."""

    make: Callable[..., BareMemoryAdapter] = MemoryAdapter

    def __init__(self) -> None:
        self._confirmed = 0

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        self.memory = type(self).make(limits=Limits(text=300, unit="utf16"))
        self.adapter, self.address = self.memory, self.memory.address("chat")
        self.faults = {
            type(error): lambda error=error: self.memory.room.fail("send", error)  # type: ignore[misc]
            for error in (NotReady(), RetryAfter(2.0), AuthFailed(), Rejected(), Gone(), OutcomeUnknown())
        }
        yield

    async def hear(self, text: str, message_id: str) -> None:
        await self.memory.hear(text, message_id=message_id)
        self._confirmed += 1

    def confirmed(self) -> int:
        return self._confirmed

    async def seen(self) -> str:
        return "\n".join(self.memory.room.texts())


class BareMemoryHarness(MemoryHarness):
    """Memory, without any ability."""

    make = BareMemoryAdapter


class LiveMemoryHarness(MemoryHarness):
    """Memory that streams."""

    make = LiveMemoryAdapter


class TerminalHarness(Harness):
    """The terminal behind pipes."""

    confirms = False
    repeats = False

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        (read_in, self._in), (self._out, write_out) = os.pipe(), os.pipe()
        os.set_blocking(self._out, False)
        self._shown = ""
        stdin = os.fdopen(read_in, "rb", closefd=False)  # its thread ends after the writing end is closed
        self.adapter = TerminalAdapter(
            PipedFront(stdin, write_out, write_out),
            chat_id="line-1",
            sender=Sender(id="ann", name="Ann"),
            conversations=gateway,
        )
        self.address = self.adapter.address
        try:
            yield
        finally:
            os.close(self._in)
            await asyncio.sleep(0.01)
            for descriptor in (read_in, self._out, write_out):
                os.close(descriptor)

    async def hear(self, text: str, message_id: str) -> None:
        os.write(self._in, text.encode() + b"\n")

    async def seen(self) -> str:
        for _ in range(200):  # what is told aside is written by a thread
            try:
                self._shown += os.read(self._out, 65536).decode()
            except BlockingIOError:
                await asyncio.sleep(0.005)
            else:
                break
        return self._shown


class HttpHarness(Harness):
    """HTTP: a client posts and does not wait. What is sent is for whoever waits, so that nothing is shown."""

    shows = False

    def __init__(self) -> None:
        self._confirmed = 0

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        settings = HttpSettings.model_validate({"enabled": True, "port": 0, "key": "a-key-of-this-test-only"})
        self.adapter = HttpAdapter(settings, conversations=gateway, models=lambda: ["small"], files=folder / "http")
        self.address = address_of("default", "s", "main")

        @web.middleware
        async def known(
            request: web.Request, handler: Callable[[web.Request], web.StreamResponse]
        ) -> web.StreamResponse:
            request[PRINCIPAL] = "default"
            try:
                return await handler(request)  # type: ignore[misc,no-any-return]
            except (AdapterError, HttpProblem) as error:  # the server of the gateway turns these into answers
                return web.json_response({"error": str(error)}, status=503)

        app = web.Application(middlewares=[known])  # type: ignore[list-item]
        for route in self.adapter.routes():
            app.router.add_route(route.method, route.path, route.handler)
        async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as self._client:
            yield

    async def hear(self, text: str, message_id: str) -> None:
        body = {"text": text, "message_id": message_id, "wait": False}
        async with self._client.post("/api/messages", json=body, headers={"Idempotency-Key": message_id}) as reply:
            self._confirmed += reply.status == 202

    def confirmed(self) -> int:
        return self._confirmed


class DiscordHarness(Harness):
    """Discord: the genuine gateway client against the counterpart, in a direct message."""

    confirms = False

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        async with DiscordServer() as self._server:
            settings = DiscordSettings.model_validate(
                {"enabled": True, "token": self._server.token, "api_base": self._server.url,
                 "gateway_url": self._server.gateway.url}
            )  # fmt: skip
            self.adapter = DiscordAdapter(settings, services(gateway, folder), pause=0.01)
            self._ann = self._server.person("ann")
            self._chat = self._server.dm(self._ann)
            self._said: dict[str, object] = {}
            self.address = ChatAddress(platform="discord", account=str(self._server.bot), chat_id=str(self._chat))
            self.faults = {
                NotReady: self._fault(status=403, html=True),
                RetryAfter: self._fault(status=429, retry_after=2.5),
                AuthFailed: self._fault(status=401, code=0),
                Rejected: self._fault(code=50006),
                NoRights: self._fault(code=50007),
                Gone: self._fault(code=10003),
                OutcomeUnknown: lambda: self._server.accept_then_drop("POST", "/channels/*/messages"),
            }
            yield
            assert self._server.violations == []

    def _fault(self, **how: object) -> Callable[[], None]:
        return lambda: self._server.fail("POST", "/channels/*/messages", **how)  # type: ignore[arg-type]

    async def hear(self, text: str, message_id: str) -> None:
        if message_id in self._said:  # the same event once more, as after a resume
            self._server.world.emit("MESSAGE_CREATE", self._said[message_id])
            return
        self._said[message_id] = self._server.say(self._chat, self._ann, text)

    async def seen(self) -> str:
        return "\n".join(one.content for one in self._server.shown(self._chat))


class TelegramHarness(Harness):
    """Telegram: the genuine client against the counterpart, by long polling, in a private chat."""

    idempotent = False

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        async with TelegramServer() as self._server:
            settings = TelegramSettings.model_validate(
                {"enabled": True, "token": self._server.token, "api_base": self._server.url}
            )
            self.adapter = TelegramAdapter(settings, services(gateway, folder))
            self._ann = self._server.world.person("Ann", username="ann")
            self._chat = self._server.world.private(self._ann)
            self._said: dict[str, dict[str, object]] = {}
            self.address = ChatAddress(
                platform="telegram", account=str(self._server.world.bot.id), chat_id=str(self._chat.id)
            )
            fail = self._server.fail
            self.faults = {
                NotReady: self._unreachable,
                RetryAfter: lambda: self._server.flood("sendMessage", 7),
                AuthFailed: lambda: fail("sendMessage", status=401),
                Rejected: lambda: fail("sendMessage", status=400, description="Bad Request: message text is empty"),
                NoRights: lambda: fail("sendMessage", status=403, description="Forbidden: bot was blocked by the user"),
                Gone: lambda: fail("sendMessage", status=400, description="Bad Request: chat not found"),
                OutcomeUnknown: lambda: self._server.accept_then_drop("sendMessage"),
            }
            yield
            assert self._server.violations == []

    def _unreachable(self) -> None:
        """After an unknown outcome Telegram is asked first, and nothing is sent where it does not answer."""
        assert isinstance(self.adapter, TelegramAdapter)
        self.adapter.suspect()
        self._server.fail("getMe", status=502)

    async def hear(self, text: str, message_id: str) -> None:
        if message_id in self._said:
            self._server.updates.duplicate(self._said[message_id])
            return
        self._server.say(self._chat, self._ann, text)
        self._said[message_id] = self._server.updates.waiting[-1]

    def confirmed(self) -> int:
        return sum(1 for one in self._said.values() if one["update_id"] < self._server.confirmed)  # type: ignore[operator]

    async def seen(self) -> str:
        return "\n".join(one.text for one in self._server.shown(self._chat))


class SlackHarness(Harness):
    """Slack: the genuine SDK against the counterpart, by Socket Mode, in a direct message."""

    idempotent = False

    @asynccontextmanager
    async def open(self, gateway: SmallGateway, folder: Path) -> AsyncIterator[None]:
        async with SlackServer() as self._server:
            self._server.echo = False
            settings = SlackSettings.model_validate(
                {"enabled": True, "bot_token": self._server.bot_token, "app_token": self._server.app_token,
                 "api_base": self._server.url}
            )  # fmt: skip
            self.adapter = SlackAdapter(settings, services(gateway, folder))
            self._ann = self._server.person("Ann")
            self._chat = self._server.dm(self._ann)
            self._said: dict[str, dict[str, object]] = {}
            self.address = ChatAddress(platform="slack", account=self._server.bot, scope=TEAM, chat_id=self._chat.id)
            self.faults = {
                NotReady: self._fault(status=503, error="service_unavailable"),
                RetryAfter: self._fault(retry_after=7),
                AuthFailed: self._fault(error="token_revoked"),
                Rejected: self._fault(error="no_text"),
                NoRights: self._fault(error="is_archived"),
                Gone: self._fault(error="channel_not_found"),
                TooLong: self._fault(error="msg_too_long"),
                UnparsableMarkup: self._fault(error="invalid_blocks"),
                OutcomeUnknown: lambda: self._server.accept_then_drop("chat.postMessage"),
            }
            yield
            assert self._server.violations == []

    def _fault(self, **how: object) -> Callable[[], None]:
        return lambda: self._server.fail("chat.postMessage", **how)  # type: ignore[arg-type]

    async def hear(self, text: str, message_id: str) -> None:
        if message_id in self._said:
            self._server.sockets.deliver("events_api", self._said[message_id])
            return
        self._server.people.say(self._chat, self._ann, text)
        self._said[message_id] = self._server.sockets.sent[-1]

    def confirmed(self) -> int:
        return len(self._server.sockets.acks)

    async def seen(self) -> str:
        return "\n".join(unescape(one["text"]) for one in self._server.shown(self._chat))


HARNESSES: tuple[type[Harness], ...] = (
    MemoryHarness,
    BareMemoryHarness,
    LiveMemoryHarness,
    TerminalHarness,
    HttpHarness,
    DiscordHarness,
    TelegramHarness,
    SlackHarness,
)
