"""The gateway: websockets, sessions, and the shape in which each session is told of events.

A session outlives its websocket: what happens meanwhile is kept with its sequence number, and RESUME replays it. Each
event is written down as text when it happens, so that a replay is word for word what would have been told live.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import discord
from aiohttp import WSMsgType, web
from simcord import intents as rules
from simcord.backend import serializers
from simcord.backend.access import channel_accessible

from tests.counterparts.discord_world import Ref, World, to_id

PRIVILEGED = {"presences": 1 << 8, "members": 1 << 1, "message_content": 1 << 15}
_CHUNK = 1000
_ABORT = 0


class Socket:
    """One websocket of the bot. What is sent leaves in order; a number closes with that code, 0 cuts the connection."""

    def __init__(self, request: web.Request, ws: web.WebSocketResponse) -> None:
        self._request, self._ws = request, ws
        self._queue: asyncio.Queue[str | int] = asyncio.Queue()
        self._deflate = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self.session: Session | None = None
        self.closing = False

    def send(self, op: int, data: Any = None) -> None:
        """Send something that is no event."""
        self.put(json.dumps({"op": op, "d": data, "s": None, "t": None}))

    def put(self, text: str) -> None:
        """Send what is written already."""
        if not self.closing:
            self._queue.put_nowait(text)

    def close(self, code: int) -> None:
        """Close with a code after what was sent; with 0, cut the connection at once."""
        if not self.closing:
            self.closing = True
            self._queue.put_nowait(code)
        if code == _ABORT and self._request.transport is not None:
            self._request.transport.abort()

    async def write(self) -> None:
        """Carry out what was asked for, until it is closed."""
        with suppress(ConnectionError, RuntimeError):
            while True:
                item = await self._queue.get()
                if isinstance(item, int):
                    if item != _ABORT:
                        await self._ws.close(code=item)
                    return
                if self._deflate is None:
                    await self._ws.send_str(item)
                else:
                    data = self._deflate.compress(item.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
                    await self._ws.send_bytes(data)


@dataclass(slots=True)
class Session:
    """What RESUME comes back to."""

    id: str
    intents: discord.Intents
    socket: Socket | None = None
    sequence: int = 0
    log: list[tuple[int, str, str]] = field(default_factory=list)
    """Sequence number, event, text."""

    def tell(self, event: str, data: Any) -> None:
        """Number an event, write it down, and send it where there is a websocket."""
        self.sequence += 1
        text = json.dumps({"op": 0, "t": event, "s": self.sequence, "d": data})
        self.log.append((self.sequence, event, text))
        if self.socket is not None:
            self.socket.put(text)


class Gateway:
    """Serves `/gateway`. Subscribes to the world; `changed` is called whenever something here changes."""

    def __init__(self, world: World, token: Callable[[], str | None], changed: Callable[[], None]) -> None:
        self.heartbeat_interval = 41.25
        """Seconds; told by HELLO."""
        self.approved: set[str] = set(PRIVILEGED)
        """Privileged intents that the application has."""
        self.accepting = True
        """Whether websockets are accepted; 503 otherwise."""
        self.acknowledging = True
        """Whether heartbeats are answered."""
        self.refusing_resumes = 0
        """How many of the next RESUMEs are answered by INVALID_SESSION."""
        self.url = ""
        self.identifies = self.resumes = self.heartbeats = 0
        self.presences: list[dict[str, Any]] = []
        """What the bot said of its presence."""
        self.sessions: dict[str, Session] = {}
        self.unavailable: set[int] = set()
        self._sockets: set[Socket] = set()
        self._repeats: dict[str, int] = {}
        self._held: list[tuple[str, dict[str, Any]]] | None = None
        self._world, self._token, self._changed = world, token, changed
        world.subscribers.append(self._on_event)

    @property
    def sockets(self) -> int:
        """How many websockets are open."""
        return sum(not socket.closing for socket in self._sockets)

    # faults

    def drop(self, *, resumable: bool = True, code: int | None = None) -> None:
        """End every websocket: cut, or closed with `code`. Where not resumable, the sessions are forgotten, too."""
        if not resumable:
            self.sessions.clear()
        for socket in list(self._sockets):
            if socket.session is not None:
                socket.session.socket = socket.session = None
            socket.close(_ABORT if code is None else code)
        self._changed()

    def ask_to_reconnect(self) -> None:
        """Send RECONNECT on every websocket."""
        for socket in self._sockets:
            socket.send(7)

    def invalidate(self, *, resumable: bool = False) -> None:
        """Send INVALID_SESSION on every websocket."""
        if not resumable:
            self.sessions.clear()
        for socket in self._sockets:
            socket.send(9, resumable)

    def repeat(self, event: str = "MESSAGE_CREATE", times: int = 1) -> None:
        """Deliver the next `times` events of this kind twice, each time with its own sequence number."""
        self._repeats[event] = self._repeats.get(event, 0) + times

    def hold(self) -> None:
        """Keep events back until `release`."""
        self._held = self._held or []

    def release(self, *, reverse: bool = False) -> None:
        """Deliver what was kept back, in order or the other way round."""
        held, self._held = self._held or [], None
        for event, data in reversed(held) if reverse else held:
            self._deliver(event, data)

    def set_available(self, guild: Ref, *, available: bool) -> None:
        """An outage of a guild begins or ends."""
        found = self._world.get_guild(to_id(guild))
        if available:
            self.unavailable.discard(found.id)
            self._world.emit("GUILD_CREATE", dict(serializers.guild_create_payload(self._world, found)))
        else:
            self._world.emit("GUILD_DELETE", {"id": str(found.id), "unavailable": True})
            self.unavailable.add(found.id)

    # the websocket

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """A websocket from its first to its last moment."""
        if not self.accepting:
            raise web.HTTPServiceUnavailable
        ws = web.WebSocketResponse(compress=False, timeout=1.0, max_msg_size=2**20)
        await ws.prepare(request)
        socket = Socket(request, ws)
        self._sockets.add(socket)
        writer = asyncio.create_task(socket.write(), name="discord-gateway-writer")
        socket.send(10, {"heartbeat_interval": int(self.heartbeat_interval * 1000), "_trace": []})
        self._changed()
        try:
            async for message in ws:
                if message.type is WSMsgType.TEXT and not socket.closing:
                    self._take(socket, json.loads(message.data))
                    self._changed()
        finally:
            self._sockets.discard(socket)
            if socket.session is not None and socket.session.socket is socket:
                socket.session.socket = None
                if not socket.closing and ws.close_code in (1000, 1001):  # the client's own wish ends the session
                    self.sessions.pop(socket.session.id, None)
            socket.closing = True
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            self._changed()
        return ws

    def _take(self, socket: Socket, message: Mapping[str, Any]) -> None:
        op, data = message.get("op"), message.get("d")
        if op == 1:
            self.heartbeats += 1
            if self.acknowledging:
                socket.send(11)
        elif op == 2:
            self._identify(socket, data or {})
        elif op == 6:
            self._resume(socket, data or {})
        elif socket.session is None:
            socket.close(4003)
        elif op == 3:
            self.presences.append(dict(data or {}))
        elif op == 8:
            self._chunks(socket.session, data or {})
        elif op != 4:
            socket.close(4001)

    def _identify(self, socket: Socket, data: Mapping[str, Any]) -> None:
        self.identifies += 1
        if socket.session is not None:
            socket.close(4005)
            return
        if self._token() is None or data.get("token") != self._token():
            socket.close(4004)
            return
        if not isinstance(data.get("intents"), int) or "properties" not in data:
            socket.close(4002 if "properties" not in data else 4013)
            return
        wanted = int(data["intents"])
        if any(wanted & flag and name not in self.approved for name, flag in PRIVILEGED.items()):
            socket.close(4014)
            return
        session = Session(secrets.token_hex(16), discord.Intents._from_value(wanted), socket)
        socket.session = self.sessions[session.id] = session
        world = self._world
        mine = [guild for guild in world.guilds.values() if world.bot_user.id in guild.members]
        session.tell(
            "READY",
            {
                "v": 10,
                "user": dict(serializers.user_payload(world.bot_user)),
                "guilds": [{"id": str(guild.id), "unavailable": True} for guild in mine],
                "session_id": session.id,
                "resume_gateway_url": self.url,
                "shard": data.get("shard", [0, 1]),
                "application": {"id": str(world.application_id), "flags": self.flags},
            },
        )
        for guild in mine:
            if guild.id not in self.unavailable:
                payload = dict(serializers.guild_create_payload(world, guild))
                payload["threads"] = [t for t in payload["threads"] if not t["thread_metadata"]["archived"]]
                if (shaped := self._shape(session, "GUILD_CREATE", json.dumps(payload))) is not None:
                    session.tell("GUILD_CREATE", shaped)

    @property
    def flags(self) -> int:
        """The flags of the application that say which privileged intents it has (for fewer than 100 guilds)."""
        bits = {"presences": 1 << 13, "members": 1 << 15, "message_content": 1 << 19}
        return sum(bits[name] for name in self.approved)

    def _resume(self, socket: Socket, data: Mapping[str, Any]) -> None:
        if self._token() is None or data.get("token") != self._token():
            socket.close(4004)
            return
        session = self.sessions.get(str(data.get("session_id")))
        if self.refusing_resumes > 0 or session is None:
            self.refusing_resumes = max(0, self.refusing_resumes - 1)
            self.sessions.pop(str(data.get("session_id")), None)
            socket.send(9, False)
            return
        if not isinstance(data.get("seq"), int) or data["seq"] > session.sequence:
            socket.close(4007)
            return
        self.resumes += 1
        if session.socket is not None:
            session.socket.close(4000)
        session.socket, socket.session = socket, session
        for sequence, _, text in session.log:
            if sequence > data["seq"]:
                socket.put(text)
        session.tell("RESUMED", {"_trace": []})

    def _chunks(self, session: Session, data: Mapping[str, Any]) -> None:
        guild = self._world.guilds.get(int(data["guild_id"]))
        if guild is None:
            return
        members = list(guild.members.values())
        users, wanted = self._world.users, {int(user) for user in data.get("user_ids") or ()}
        missing = sorted(wanted - guild.members.keys())
        if wanted:
            members = [member for member in members if member.user_id in wanted]
        elif query := str(data.get("query") or "").lower():
            members = [
                member
                for member in members
                if users[member.user_id].name.lower().startswith(query) or (member.nick or "").lower().startswith(query)
            ]
        members = members[: int(data.get("limit") or 0) or None]
        parts = [members[at : at + _CHUNK] for at in range(0, len(members), _CHUNK)] or [[]]
        for index, part in enumerate(parts):
            payload: dict[str, Any] = {
                "guild_id": str(guild.id),
                "members": [serializers.member_payload(self._world, guild, member) for member in part],
                "chunk_index": index,
                "chunk_count": len(parts),
                "not_found": [str(user) for user in missing],
            }
            if "nonce" in data:
                payload["nonce"] = data["nonce"]
            if data.get("presences"):
                payload["presences"] = []
            session.tell("GUILD_MEMBERS_CHUNK", payload)

    # events

    def _on_event(self, event: str, payload: Mapping[str, Any]) -> None:
        data: dict[str, Any] = json.loads(json.dumps(payload))
        if self._held is not None:
            self._held.append((event, data))
        else:
            self._deliver(event, data)
        self._changed()

    def _deliver(self, event: str, data: dict[str, Any]) -> None:
        times = 1
        if self._repeats.get(event, 0) > 0:
            self._repeats[event] -= 1
            times = 2
        text = json.dumps(data)
        for session in self.sessions.values():
            for _ in range(times):
                if (shaped := self._shape(session, event, text)) is not None:
                    session.tell(event, shaped)

    def _shape(self, session: Session, event: str, text: str) -> dict[str, Any] | None:
        """What this session is told of an event: nothing where it lacks the intent or the bot cannot see it."""
        data: dict[str, Any] = json.loads(text)
        gate = rules.required_intent(event, data)
        if (gate is not None and not getattr(session.intents, gate)) or not self._can_see(event, data):
            return None
        bot = self._world.bot_user.id
        if not session.intents.message_content:
            if event in {"MESSAGE_CREATE", "MESSAGE_UPDATE"}:
                rules.censor_message(data, bot, backend=self._world)
            elif event == "INTERACTION_CREATE" and isinstance(data.get("message"), dict):
                rules.censor_message(data["message"], bot, backend=self._world, exempt_root=True)
        if event == "GUILD_CREATE":
            for role in data["roles"]:
                if role["managed"]:  # made for the bot alone
                    role["tags"] = {"bot_id": str(bot)}
            rules.prune_guild_create(data, session.intents, bot)
        return data

    def _can_see(self, event: str, data: Mapping[str, Any]) -> bool:
        world = self._world
        if event == "GUILD_DELETE":
            return True
        guild = world.guilds.get(int(data.get("guild_id") or (data["id"] if event == "GUILD_CREATE" else 0)))
        if guild is not None and (world.bot_user.id not in guild.members or guild.id in self.unavailable):
            return False
        channel = data.get("channel_id")
        if event.startswith("THREAD_") or event == "INTERACTION_CREATE" or channel is None:
            return True
        return int(channel) not in world.channels or channel_accessible(world, int(channel), world.bot_user.id)
