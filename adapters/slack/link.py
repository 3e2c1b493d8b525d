"""Socket Mode: one socket that serves, and for a moment a second one when Slack asks for a fresh connection.

The protocol is that of https://docs.slack.dev/apis/events-api/using-socket-mode, with the SDK's types. The SDK's own
client is not used: it closes the old socket before it opens the new one, handles envelopes side by side without an
order, and never ends by an error.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
import structlog
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from adapters.errors import AdapterError, AuthFailed, NotReady, RetryAfter
from adapters.slack.api import CONNECT_SECONDS, Api
from adapters.slack.inbound import channel_of
from adapters.slack.lanes import Lanes

log = structlog.get_logger("adapters.slack")

HEARTBEAT = 15.0
DRAIN = 5.0
CLOSE = 2.0
"""Seconds for the farewell of a socket; Slack does not always give one."""
PAUSE = 0.1
"""Seconds before a socket that was lost is opened anew. Slack limits how often; then it says so."""
RETRY = 5.0
LARGEST = 16 * 1024 * 1024

Handle = Callable[[SocketModeRequest], Awaitable[bool]]
"""Does what is to be done before the acknowledgement; False: there must be none."""


class Socket:
    """One connection that has said hello. `run` is its only reader."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, handle: Handle, number: int) -> None:
        self._ws = ws
        self._handle = handle
        self._lanes = Lanes(f"slack:socket-{number}")
        self.refresh = asyncio.Event()
        """Slack asks for a new connection and will close this one."""
        self.since = time.monotonic()
        self.task = asyncio.create_task(self._run(), name=f"slack:socket-{number}")

    async def _run(self) -> None:
        """Read until the connection ends. Raises `AuthFailed` where Slack switches it off for good."""
        async for message in self._ws:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            data = _parsed(message.data)
            if data.get("type") == "disconnect":
                if data.get("reason") == "link_disabled":
                    raise AuthFailed("Slack has ended Socket Mode", told="Socket Mode was switched off for the app.")
                log.info("socket.refresh", reason=str(data.get("reason"))[:40])
                self.refresh.set()
                continue
            request = _request(data)
            if request is None:
                log.debug("socket.ignored", kind=str(data.get("type"))[:40])
                continue
            await self._lanes.put(channel_of(request.payload), partial(self._answer, request))

    async def _answer(self, request: SocketModeRequest) -> None:
        if not await self._handle(request):
            log.warning("envelope.not_acknowledged", kind=request.type, retry=request.retry_attempt)
            return
        try:
            await self._ws.send_str(json.dumps(SocketModeResponse(envelope_id=request.envelope_id).to_dict()))
        except (ConnectionError, RuntimeError) as error:  # it comes again, and is recognised
            log.info("envelope.late", error=type(error).__name__)

    async def finish(self) -> None:
        """Another socket serves: let what this one has begun come to its acknowledgement, then close it."""
        await self._lanes.idle(DRAIN)
        await self.close()

    async def close(self) -> None:
        """End everything of it. Bounded."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._lanes.close()
        try:
            async with asyncio.timeout(CLOSE):
                await self._ws.close()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            log.debug("socket.close_failed", error=type(error).__name__)


class Link:
    """The connection. `up(seconds)` is told after every connect: how long there was none (None: no gap)."""

    def __init__(self, api: Api, handle: Handle, up: Callable[[float | None], None]) -> None:
        """`api` has the app token."""
        self._api = api
        self._handle = handle
        self._up = up
        self._count = 0
        self.sockets: set[Socket] = set()

    async def run(self) -> None:
        """Serve until cancelled. Raises `NotReady`, `RetryAfter` or `AuthFailed` where there is no new connection."""
        try:
            socket = await self._open()
            self._up(None)
            while True:
                await self._until_over(socket)
                socket = await (self._replace(socket) if not socket.task.done() else self._reopen(socket))
        finally:
            for one in list(self.sockets):
                await self._close(one)

    async def _until_over(self, socket: Socket) -> None:
        asked = asyncio.create_task(socket.refresh.wait(), name="slack:refresh")
        try:
            await asyncio.wait({asked, socket.task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _replace(self, old: Socket) -> Socket:
        """Open the new connection while the old one still serves."""
        while True:
            try:
                fresh = await self._open()
            except (NotReady, RetryAfter) as error:
                log.info("socket.no_replacement", error=str(error))
                await asyncio.wait({old.task}, timeout=error.seconds if isinstance(error, RetryAfter) else RETRY)
                if old.task.done():
                    return await self._reopen(old)
                continue
            self._up(0.0 if old.task.done() else None)
            await old.finish()
            self.sockets.discard(old)
            return fresh

    async def _reopen(self, old: Socket) -> Socket:
        """The old one is lost."""
        lost = time.monotonic()
        error = None if old.task.cancelled() else old.task.exception()
        await self._close(old)
        if isinstance(error, AdapterError):
            raise error
        log.info("socket.lost", served=round(lost - old.since, 1), error=type(error).__name__ if error else None)
        await asyncio.sleep(PAUSE)
        fresh = await self._open()
        self._up(time.monotonic() - lost)
        return fresh

    async def _close(self, socket: Socket) -> None:
        await socket.close()
        self.sockets.discard(socket)

    async def _open(self) -> Socket:
        """A connection that has said hello."""
        url = (await self._api.form("apps.connections.open")).get("url")
        if not isinstance(url, str):
            raise NotReady("Slack gave no address for the socket")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                ws = await self._api.session.ws_connect(url, heartbeat=HEARTBEAT, max_msg_size=LARGEST)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:  # their texts hold the address with its ticket
            raise NotReady(f"the socket cannot be opened: {type(error).__name__}") from None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _greeted(await ws.receive())
        except TimeoutError:
            await ws.close()
            raise NotReady("the socket gave no greeting") from None
        except BaseException:  # also a cancel: the socket is closed, and it is passed on
            await ws.close()
            raise
        self._count += 1
        socket = Socket(ws, self._handle, self._count)
        self.sockets.add(socket)
        return socket


def _greeted(message: aiohttp.WSMessage) -> None:
    if message.type is not aiohttp.WSMsgType.TEXT or _parsed(message.data).get("type") != "hello":
        raise NotReady("the socket was closed without a greeting")


def _parsed(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _request(data: dict[str, Any]) -> SocketModeRequest | None:
    """The envelope, or None where it is none."""
    if not isinstance(data.get("payload"), dict) or not isinstance(data.get("envelope_id"), str):
        return None
    return SocketModeRequest.from_dict(data)
