"""The connection to Discord's gateway: one session after the other, resumed where that can be done.

Stands where discord.py's `Client` stands for its `DiscordWebSocket`: it hands over the token, opens the
socket, and takes each event as it came. Reconnecting is ours, so that an outage ends `serve` with a typed error
that the health page shows, and so that a session is resumed from what was *worked off*, not from what was read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import structlog
from yarl import URL

from adapters.discord.errors import from_close
from adapters.discord.rest import USER_AGENT, Rest
from adapters.discord.sdk import INTENTS, ConnectionClosed, DiscordWebSocket, ReconnectWebSocket
from adapters.errors import NotReady, RetryAfter

log = structlog.get_logger("adapters.discord")

OPEN_SECONDS = 60.0
CLOSE_SECONDS = 2.0
DEAD_AFTER = 60.0
"""Seconds without anything from the gateway after which the connection counts as dead; discord.py's figure."""
SHORT = 10.0
"""Seconds; after a connection that did not last so long there is a pause, so that nothing turns in circles."""
TRIES = 4
"""Connections in a row that may end before they are ready; then `serve` ends, and the supervisor waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a session can be taken up again."""

    session_id: str
    gateway: str
    sequence: int


OnEvent = Callable[[str, dict[str, Any], int], None]


class Link:
    """One run's connection. `on_event(name, data, sequence)` is called for every event, in order; it must not
    block and must not raise."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        rest: Rest,
        token: str,
        gateway_url: str | None,
        on_event: OnEvent,
        *,
        pause: float = 1.0,
    ) -> None:
        """`pause` is the first wait between two tries, in seconds; it doubles."""
        self._session = session
        self._rest = rest
        self._gateway_url = gateway_url
        self._on_event = on_event
        self._pause = pause
        self._socket: DiscordWebSocket | None = None
        self._was_ready = False
        self.leaves = False
        """Whether the session is not wanted any more: it is ended with the socket, not kept for a resume."""
        # what follows is read by DiscordWebSocket.from_client, which takes us for a discord.Client
        self.loop = asyncio.get_running_loop()
        self.token = token
        self.http = self
        self._connection = self
        self._enable_debug_events = False
        self.parsers = _Parsers(self._take)
        self.shard_count: int | None = None
        self.heartbeat_timeout = DEAD_AFTER
        self._intents = INTENTS
        self._activity = None
        self._status = None

    async def serve(self, position: Position | None) -> None:
        """Hold a connection until cancelled. Takes up the session at `position` first, where there is one.

        Raises `NotReady`, `RetryAfter` or `AuthFailed`. Nothing of it is open afterwards.
        """
        tries = 0
        home = ""
        try:
            while True:
                if position is None:
                    home = self._gateway_url or await self._find_gateway()
                began = self.loop.time()
                resume = await self._hold(position, home)
                position = (self._position() or position) if resume else None
                tries = 0 if self._was_ready else tries + 1
                if tries >= TRIES:
                    raise NotReady("the connection to Discord's gateway does not last")
                if position is None or tries or self.loop.time() - began < SHORT:
                    # after a refused session Discord wants a wait of 1 to 5 s before the next identify
                    await asyncio.sleep(self._pause * 2 ** max(0, tries - 1) * random.uniform(1.0, 2.0))
        finally:
            await self._close()

    async def _hold(self, position: Position | None, home: str) -> bool:
        """One socket from its opening to its end. True where the session can be resumed."""
        self._was_ready = False
        at = position or Position(session_id="", gateway=home, sequence=0)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                socket = await DiscordWebSocket.from_client(
                    cast("Any", self),
                    initial=position is None,
                    gateway=URL(at.gateway),
                    session=at.session_id or None,
                    sequence=at.sequence if position else None,
                    resume=position is not None,
                )
            while True:
                await socket.poll_event()
        except ReconnectWebSocket as wish:
            return wish.resume
        except ConnectionClosed as closed:
            error = from_close(closed.code)
            if isinstance(error, NotReady):
                return True
            raise error from closed
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if position is None and not self._was_ready:
                raise NotReady(f"Discord's gateway cannot be reached: {type(error).__name__}") from None
            return True
        finally:
            await self._close(keep=True)

    def _position(self) -> Position | None:
        socket = self._socket
        if socket is None or not socket.session_id or socket.sequence is None:
            return None
        return Position(session_id=socket.session_id, gateway=str(socket.gateway), sequence=socket.sequence)

    async def _find_gateway(self) -> str:
        """Ask the API. Each connection costs one of a day's starts: where they are used up, wait."""
        found = await self._rest.get("/gateway/bot")
        if not isinstance(found, dict) or not isinstance(found.get("url"), str):
            raise NotReady("Discord does not tell the address of its gateway")
        limit = found.get("session_start_limit")
        if isinstance(limit, dict) and limit.get("remaining") == 0:
            raise RetryAfter(float(limit.get("reset_after", 60_000)) / 1000, "no session starts are left for today")
        return str(found["url"])

    async def _close(self, *, keep: bool = False) -> None:
        """Close the socket and end its heartbeat, bounded. With `keep` what is needed to resume is kept."""
        socket = self._socket
        if socket is None:
            return
        if not keep:
            self._socket = None
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                # 4000 keeps the session for a resume; 1000 ends it
                await socket.close(1000 if self.leaves else 4000)
        except (TimeoutError, aiohttp.ClientError, OSError):
            log.debug("gateway.not_closed_in_time")

    def _take(self, event: str, data: Any) -> None:
        if event in ("READY", "RESUMED"):
            self._was_ready = True
        socket = self._socket
        sequence = socket.sequence if socket is not None else None
        self._on_event(event, data if isinstance(data, dict) else {"items": data}, sequence or 0)

    # what DiscordWebSocket asks of a client ----------------------------------------------------------

    async def ws_connect(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """Open a socket the way discord.py does: no bound of a message, and no automatic close."""
        return await self._session.ws_connect(
            url,
            max_msg_size=0,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            autoclose=False,
            headers={"User-Agent": USER_AGENT},
            compress=0,
        )

    async def call_hooks(self, name: str, *args: Any, **named: Any) -> None:
        """discord.py's way to delay an identify; not needed for one connection."""

    def dispatch(self, name: str, *args: Any) -> None:
        """discord.py's own events; the raw ones are enough."""

    def _update_references(self, socket: DiscordWebSocket) -> None:
        """Called as soon as the socket is open, before anything was received."""
        self._socket = socket


class _Parsers(dict[str, Callable[[Any], None]]):
    """A handler for every event, whatever its name."""

    def __init__(self, take: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._hear = take

    def __missing__(self, event: str) -> Callable[[Any], None]:
        """Made anew each time: new names must not pile up."""
        return lambda data: self._hear(event, data)
