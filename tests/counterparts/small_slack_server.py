"""A small Slack on loopback: Web API, Socket Mode and signed HTTP events, for the genuine SDK clients.

    async with SlackServer() as slack:
        ann = slack.person("Ann"); room = slack.channel("kitchen", ann)
        slack.people.say(room, ann, f"<@{slack.bot}> hello")
        await slack.until(lambda: slack.shown(room))

It says what people do to whoever is connected: over every open socket in turn (Slack deals events out), or, after
`deliver_to(url)`, by signed requests. Envelopes that are not acknowledged come again after `retry_seconds`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.counterparts.small_slack_people import People
from tests.counterparts.small_slack_rules import Refused
from tests.counterparts.small_slack_socket import Sockets
from tests.counterparts.small_slack_web import Web
from tests.counterparts.small_slack_world import BOT_USER, Channel, Message, World

SCOPES = (
    "app_mentions:read,channels:history,channels:read,chat:write,commands,files:read,files:write,groups:history,"
    "groups:read,im:history,im:read,im:write,mpim:history,mpim:read,reactions:read,users:read"
)


@dataclass(slots=True)
class Call:
    """A call of the Web API as it came."""

    method: str
    fields: dict[str, Any]
    at: float


@dataclass(slots=True, eq=False)
class Fault:
    """What happens to the next calls of a method (`*`: of any)."""

    method: str
    times: int
    status: int = 200
    error: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    html: bool = False
    after: bool = False
    """Carry the call out, then break the connection."""
    hang: bool = False


class SlackServer:
    """One workspace with one app. Its tokens are made up for each server."""

    def __init__(self, *, retry_seconds: float = 0.3) -> None:
        self.world = World()
        self.bot = BOT_USER
        number = self.world.number()
        self.bot_token = f"xoxb-{number}-{id(self)}-testtesttest"
        self.app_token = f"xapp-1-A{number}-{id(self)}-testtesttest"
        self.signing_secret = f"{id(self):032x}"
        self.scopes = SCOPES
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.refused_token: str | None = None
        """The error that every call gets (`revoke`)."""
        self.echo = True
        """Whether the bot's own posts and changes come back as events, as in reality."""
        self._changed = asyncio.Event()
        self._port = 0
        self._held: list[asyncio.Event] = []
        self.sockets = Sockets(self._told, lambda: self.url, retry_seconds)
        self.people = People(self.world, self.sockets.deliver, lambda: self.url)
        self.web = Web(self.world, lambda: self.url, self._own_said)

    @property
    def url(self) -> str:
        """The origin."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/socket/{ticket}", self.sockets.serve)
        app.router.add_get("/files-pri/{file}/{rest:.*}", self._download)
        app.router.add_post("/upload/{file}", self._upload)
        self._runner = web.AppRunner(app, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.Server)
        self._port = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        for one in self._held:
            one.set()
        await self.sockets.close()
        await self._runner.cleanup()

    # what people and tests do --------------------------------------------------------------------

    def person(self, name: str, *, is_bot: bool = False) -> str:
        """A member of the workspace."""
        return self.world.person(name, is_bot=is_bot)

    def channel(self, name: str, *members: str, kind: str = "channel") -> Channel:
        """A channel with the bot in it."""
        return self.world.channel(name, *members, kind=kind)

    def dm(self, user: str) -> Channel:
        """The direct message of a person with the bot."""
        return self.world.im(user)

    def fail(self, method: str, *, times: int = 1, status: int = 200, error: str | None = None,
             retry_after: float | None = None, html: bool = False, **more: Any) -> None:  # fmt: skip
        """Answer the next calls of a method so, without carrying them out."""
        self.faults.append(
            Fault(method, times, status=status, error=error, retry_after=retry_after, html=html, more=more)
        )

    def accept_then_drop(self, method: str, times: int = 1) -> None:
        """Carry the next calls out, and break the connection instead of an answer."""
        self.faults.append(Fault(method, times, after=True))

    def hang(self, method: str, times: int = 1) -> None:
        """Take the next calls and never answer (until the end)."""
        self.faults.append(Fault(method, times, hang=True))

    def revoke(self, error: str = "token_revoked") -> None:
        """Both tokens are worth nothing any more."""
        self.refused_token = error

    def deliver_to(self, url: str, session: aiohttp.ClientSession) -> None:
        """From now on events go as signed requests to `url`."""
        self.sockets.hook = (url, session, self.signing_secret)

    # what there is to see ------------------------------------------------------------------------

    def shown(self, channel: Channel, thread_ts: str | None = None) -> list[Message]:
        """The bot's visible messages in the channel (or in one thread of it), in order."""
        return [
            one
            for one in channel.messages.values()
            if one.get("user") == BOT_USER and (thread_ts is None or one.get("thread_ts") == thread_ts)
        ]

    def called(self, method: str) -> list[Call]:
        """The calls of one method."""
        return [one for one in self.calls if one.method == method]

    @property
    def violations(self) -> list[Any]:
        """Posts that would have called people."""
        return list(self.web.broadcasts)

    async def until(self, holds: Callable[[], Any], timeout: float = 10.0) -> None:  # noqa: ASYNC109 - the word of its likes
        """Wait until it holds; asked whenever something has changed, and every so often."""
        async with asyncio.timeout(timeout):
            while not holds():
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    # the Web API ---------------------------------------------------------------------------------

    def _told(self) -> None:
        self._changed.set()

    def _own_said(self, kind: str, channel: Channel, message: Message, before: Message | None) -> None:
        self._changed.set()
        if self.echo:
            self.people.own(kind, channel, message, before)

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        fields = await _fields(request)
        self.calls.append(Call(method, fields, time.monotonic()))
        self._changed.set()
        fault = self._fault(method)
        if fault is not None and not fault.after:
            return await self._faulty(fault)
        try:
            answer = {"ok": True, **self._carry_out(request, method, fields)}
        except Refused as refused:
            answer = {"ok": False, "error": refused.error, **refused.more}
        self._changed.set()
        if fault is not None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        headers = {"x-oauth-scopes": self.scopes} if method == "auth.test" else {}
        return web.json_response(answer, headers=headers)

    def _carry_out(self, request: web.Request, method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or str(fields.get("token", ""))
        if self.refused_token is not None:
            raise Refused(self.refused_token)
        if not token:
            raise Refused("not_authed")
        if method == "apps.connections.open":
            if token != self.app_token:
                raise Refused("invalid_auth" if token != self.bot_token else "not_allowed_token_type")
            return {"url": self.sockets.ticket()}
        if token != self.bot_token:
            raise Refused("invalid_auth")
        known = self.web.methods.get(method)
        if known is None:
            raise Refused("unknown_method")
        return known(fields)

    def _fault(self, method: str) -> Fault | None:
        for fault in self.faults:
            if fault.method in (method, "*") and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    async def _faulty(self, fault: Fault) -> web.StreamResponse:
        if fault.hang:
            gate = asyncio.Event()
            self._held.append(gate)
            await gate.wait()
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        if fault.html:
            return web.Response(
                status=fault.status, text="<html>Oops</html>", content_type="text/html", headers=headers
            )
        status = 429 if fault.retry_after is not None else fault.status
        error = fault.error or ("ratelimited" if status == 429 else "internal_error")
        return web.json_response({"ok": False, "error": error, **fault.more}, status=status, headers=headers)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self.world.files.get(request.match_info["file"])
        if request.headers.get("Authorization") != f"Bearer {self.bot_token}":
            return web.Response(text="<!DOCTYPE html><html>Sign in</html>", content_type="text/html")
        if file is None or file.deleted:
            return web.Response(status=404)
        return web.Response(body=file.data, content_type=file.mime)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        file = self.world.files[request.match_info["file"]]
        if request.content_type.startswith("multipart/"):
            part = await (await request.multipart()).next()
            assert isinstance(part, aiohttp.BodyPartReader)
            file.data = bytes(await part.read())
        else:
            file.data = await request.read()
        return web.Response(text=f"OK - {len(file.data)}")


async def _fields(request: web.Request) -> dict[str, Any]:
    """The arguments, from wherever they are given."""
    fields: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        body = await request.text()
        fields.update(json.loads(body) if body else {})
    elif request.can_read_body:
        fields.update({name: value for name, value in (await request.post()).items() if isinstance(value, str)})
    return fields
