"""A small Discord on loopback: REST v10, the gateway's websocket and the CDN, for the genuine discord.py.

In process::

    async with DiscordServer() as server:
        with server.pointed():                          # discord.py's addresses; before the client logs in
            client = discord.Client(intents=..., guild_ready_timeout=0.1)
            ...await client.login(server.token); client.connect() as a task...
            alice = server.person("alice")
            server.say(server.channel, alice, f"<@{server.bot}> hello")
            await server.until(lambda: server.shown(server.channel))
            assert server.violations == []

There is one guild (`guild`) with one channel (`channel`); the bot has modest permissions (`permit` changes them). What
people do is in `people` and `interactions`, faults of REST are in `faults`, those of the websocket in `gateway`; what
is used most is at hand on the server itself. Everything is single-threaded: what a person does has happened when the
method returns, and the bot is told as soon as the loop runs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import discord
import yarl
from aiohttp import web
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import Route
from simcord.backend import serializers
from simcord.backend.models import Role

from tests.counterparts.discord_faults import Call, Faults
from tests.counterparts.discord_gateway import Gateway
from tests.counterparts.discord_interactions import Interactions
from tests.counterparts.discord_people import People
from tests.counterparts.discord_rest import NONCE_SECONDS, Rest
from tests.counterparts.discord_world import BOT_PERMISSIONS, Edit, Ref, World, to_id

TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
"""Has the form of a token; it opens nothing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as people see it now."""

    id: int
    content: str
    components: list[dict[str, Any]]
    attachments: list[dict[str, Any]]
    embeds: list[dict[str, Any]]
    reference: int | None
    """The message that is answered."""
    nonce: str | None
    edits: list[Edit]
    """What it was before, oldest first."""
    ephemeral: bool
    loading: bool
    """Whether it says that the bot thinks."""
    mentions: list[int]
    """Who was really called by it."""
    raw: dict[str, Any] = field(repr=False)


async def heartbeats_ended() -> None:
    """Return when no thread of discord.py that was told to stop still hands heartbeats to this loop.

    Without this a loop may end under such a thread, which leaves a coroutine that is never awaited.
    """
    for thread in threading.enumerate():
        if isinstance(thread, KeepAliveHandler) and thread._stop_ev.is_set():
            await asyncio.to_thread(thread.join, 5.0)


class DiscordServer:
    """See the module."""

    def __init__(self, *, heartbeat_interval: float = 41.25, token: str = TOKEN) -> None:
        self.token: str | None = token
        self._token = token
        self.calls: list[Call] = []
        """Every call of the REST API, in order."""
        self.downloads: list[str] = []
        """Paths that were asked of the CDN."""
        self.violations: list[str] = []
        """What the client did against Discord's description, and what this counterpart could not do."""
        self.max_file_size = 10 * 2**20
        self.nonce_seconds = NONCE_SECONDS
        """How long a nonce is known."""
        self._changes = asyncio.Event()
        self.world = World()
        self.faults = Faults()
        self.gateway = Gateway(self.world, lambda: self.token, self.changed)
        self.gateway.heartbeat_interval = heartbeat_interval
        self.guild = self.world.create_guild("Tidings").id
        self._bot_role(self.guild).permissions = BOT_PERMISSIONS.value
        self.channel = self.world.create_channel(self.guild, "general").id
        self.people = People(self.world, self.guild)
        self.interactions = Interactions(self.world)
        self._rest = Rest(self)
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.person, self.say, self.dm = self.people.person, self.people.say, self.people.dm
        self.edit, self.delete, self.react = self.people.edit, self.people.delete, self.people.react
        self.press, self.slash, self.outcome = (
            self.interactions.press,
            self.interactions.slash,
            self.interactions.outcome,
        )
        self.thread = self.people.thread
        self.fail, self.hang, self.drop = self.faults.fail, self.faults.hang, self.faults.drop
        self.accept_then_drop, self.limit = self.faults.accept_then_drop, self.faults.limit
        self.drop_sockets = self.gateway.drop

    # its life

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.route("*", "/api/{tail:.*}", self._rest.handle),
                web.get("/gateway", self.gateway.handle),
                web.get("/gateway/", self.gateway.handle),
                web.get("/attachments/{tail:.*}", self._download),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=512).start()
        self._port = self._runner.addresses[0][1]
        self.world.cdn.origin = self.url
        self.gateway.url = f"ws://127.0.0.1:{self._port}/gateway"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.clear()
        self.gateway.accepting = False
        self.gateway.drop()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None
        await heartbeats_ended()

    @property
    def url(self) -> str:
        """The origin."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def bot(self) -> int:
        """The id of the bot, and of its application."""
        return self.world.bot_user.id

    @property
    def sockets(self) -> int:
        """How many websockets are open."""
        return self.gateway.sockets

    @property
    def identifies(self) -> int:
        """How often a session was begun."""
        return self.gateway.identifies

    @property
    def resumes(self) -> int:
        """How often a session was taken up again."""
        return self.gateway.resumes

    @contextmanager
    def pointed(self) -> Iterator[None]:
        """While it lasts, discord.py talks to this server."""
        before = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
        Route.BASE = f"{self.url}/api/v10"
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(self.gateway.url)
        try:
            yield
        finally:
            Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = before

    # what tests wait for and look at

    def changed(self) -> None:
        """Something has happened: whoever waits looks again."""
        self._changes.set()

    async def until(self, predicate: Callable[[], object], timeout: float = 10.0) -> None:  # noqa: ASYNC109 - for tests
        """Return when the predicate holds. It is asked at each change here, and now and then."""
        try:
            async with asyncio.timeout(timeout):
                while not predicate():
                    self._changes.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changes.wait(), 0.02)
        except TimeoutError as error:
            last = [f"{call.method} {call.path} {call.status}" for call in self.calls[-8:]]
            told = [f"{s.sequence} events to {s.id[:6]}" for s in self.gateway.sessions.values()]
            error.add_note(f"last calls: {last}; {told}; sockets: {self.sockets}; violations: {self.violations}")
            raise

    def called(self, method: str, suffix: str = "") -> list[Call]:
        """The calls so far with this method whose path ends so."""
        return [call for call in self.calls if call.method == method and call.path.endswith(suffix)]

    def shown(self, channel: Ref) -> list[Shown]:
        """The messages of the bot in a channel, in order."""
        world = self.world
        mine = [
            m for m in world.messages[to_id(channel)].values() if m.author_id == self.bot and m.type in (0, 19, 20, 23)
        ]
        return [
            Shown(
                id=message.id,
                content=message.content,
                components=message.components,
                attachments=message.attachments,
                embeds=message.embeds,
                reference=int(message.reference["message_id"]) if message.reference else None,
                nonce=world.nonces.get(message.id),
                edits=world.edits.get(message.id, []),
                ephemeral=message.is_ephemeral,
                loading=bool(message.flags & 1 << 7),
                mentions=list(message.ping_user_ids),
                raw=world.raw(message, for_user=self.bot),
            )
            for message in sorted(mine, key=lambda message: message.id)
        ]

    def reactions(self, message: Ref) -> list[str]:
        """The emoji with which the bot reacts to a message now."""
        return [r.emoji for r in self.world.find(to_id(message)).reactions if self.bot in r.user_ids]

    def commands(self, guild: Ref | None = None) -> list[dict[str, Any]]:
        """The commands the bot has registered: those of a guild, or the global ones."""
        return list(self.world.commands.get(None if guild is None else to_id(guild), {}).values())

    # the grounds

    def add_guild(self, name: str) -> int:
        """Another guild that the bot is in; the id."""
        guild = self.world.create_guild(name)
        self._bot_role(guild.id).permissions = BOT_PERMISSIONS.value
        return guild.id

    def add_channel(self, name: str, *, guild: Ref | None = None, kind: int = 0, **fields: Any) -> int:
        """Another channel; the id. `kind`: 0 text, 2 voice, 4 category, 5 news, 15 forum."""
        where = self.guild if guild is None else to_id(guild)
        return self.world.create_channel(where, name, type=kind, **fields).id

    def permit(self, *, channel: Ref | None = None, guild: Ref | None = None, **permissions: bool) -> None:
        """Give the bot permissions or take them, in a channel or (without) everywhere in a guild."""
        if channel is not None:
            self.world.set_overwrite_of_bot(to_id(channel), permissions)
            return
        where = self.guild if guild is None else to_id(guild)
        everyone, role = self.world.get_guild(where).everyone_role, self._bot_role(where)
        for name, allowed in permissions.items():
            flag: int = getattr(discord.Permissions, name).flag
            role.permissions = (role.permissions | flag) if allowed else (role.permissions & ~flag)
            everyone.permissions &= ~0 if allowed else ~flag
        for changed in (everyone, role):
            self.world.announce_role_updates(where, [changed])

    def _bot_role(self, guild: int) -> Role:
        return next(role for role in self.world.get_guild(guild).roles.values() if role.managed)

    def kick(self, guild: Ref | None = None) -> None:
        """Throw the bot out of a guild: GUILD_DELETE, and 50001 from then on."""
        found = self.world.get_guild(self.guild if guild is None else to_id(guild))
        del found.members[self.bot]
        self.world.emit("GUILD_DELETE", {"id": str(found.id)})

    def invite(self, guild: Ref | None = None) -> None:
        """Take the bot into a guild (again)."""
        found = self.world.get_guild(self.guild if guild is None else to_id(guild))
        self.world.add_member(found.id, self.bot, roles=[self._bot_role(found.id).id])
        self.world.emit("GUILD_CREATE", dict(serializers.guild_create_payload(self.world, found)))

    def revoke(self) -> None:
        """The token is good for nothing: 401 everywhere, websockets are closed with 4004."""
        self.token = None
        self.gateway.drop(resumable=False, code=4004)

    def restore(self, token: str | None = None) -> None:
        """The token (or another one) is good again."""
        self.token = self._token if token is None else token

    # the CDN

    async def _download(self, request: web.Request) -> web.StreamResponse:
        self.downloads.append(request.path)
        if "Authorization" in request.headers:
            self.violations.append("the token was sent to the CDN")
        call = Call("GET", request.path, dict(request.query), None, [], time.monotonic())
        rule = self.faults.take(call)
        self.changed()
        if rule is not None and rule.answer is not None:
            return rule.answer()
        if rule is not None and rule.do == "hang":
            await rule.released.wait()
        elif rule is not None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        found = self.world.cdn.read(request.path, request.query.get("hm", ""))
        if found is None:
            return web.Response(status=404, text="This content is no longer available.")
        data, mime = found
        return web.Response(body=data, headers={"Content-Type": mime})
