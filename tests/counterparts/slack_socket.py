"""Socket Mode of the Slack counterpart: tickets, sockets, envelopes and their acknowledgements.

An event is dealt to one of the open sockets, in turn. What is not acknowledged within `retry_seconds` comes again, in
a new envelope with the same payload, `retries` times at most. What happens while no socket is open is lost (kept in
`lost` for the test only), as Slack keeps nothing either.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.counterparts.slack_faults import Faults
from tests.counterparts.slack_world import APP

EVENTS = "events_api"
MOST_SOCKETS = 10


@dataclass(slots=True, eq=False)
class Envelope:
    """One delivery of a payload over a socket."""

    envelope_id: str
    kind: str
    payload: dict[str, Any]
    attempt: int
    socket: int
    """The number of the connection, from 1."""
    time: float
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)

    def as_json(self) -> dict[str, Any]:
        """As it goes over the socket."""
        data: dict[str, Any] = {
            "envelope_id": self.envelope_id,
            "type": self.kind,
            "payload": self.payload,
            "accepts_response_payload": self.kind != EVENTS,
        }
        if self.kind == EVENTS:
            data |= {"retry_attempt": self.attempt, "retry_reason": "timeout" if self.attempt else ""}
        return data


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement as it came."""

    envelope_id: str
    event_id: str | None
    payload: Any
    """The answer within it, None where there is none."""
    time: float


@dataclass(slots=True, eq=False)
class Socket:
    """An open websocket."""

    number: int
    ws: web.WebSocketResponse
    request: web.Request
    pings: int = 0
    pongs: int = 0


class SocketMode:
    """The sockets. `url` gives the origin of the server, `told` is called after every change."""

    def __init__(self, url: Callable[[], str], faults: Faults, told: Callable[[], None]) -> None:
        self._url = url
        self._faults = faults
        self._told = told
        self.retry_seconds = 1.0
        self.retries = 3
        self.accepting = True
        """False: websockets are refused with 503."""
        self.silent = False
        """True: sockets are taken, and there is no hello."""
        self.answers_pings = True
        self.open: list[Socket] = []
        self.opened = 0
        self.tickets = 0
        self.acks: list[Ack] = []
        self.envelopes: list[Envelope] = []
        self.lost: list[dict[str, Any]] = []
        self.received: list[Any] = []
        """What clients sent and is no acknowledgement of an envelope that is known."""
        self._known: dict[str, Envelope] = {}
        self._free: set[str] = set()
        self._turn = itertools.count()
        self._queue: asyncio.Queue[tuple[str, dict[str, Any], int]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    def ticket(self) -> str:
        """An address that is good for one connection."""
        name = uuid.uuid4().hex
        self._free.add(name)
        self.tickets += 1
        return f"{self._url().replace('http', 'ws', 1)}/link/?ticket={name}&app_id={APP}"

    def start(self) -> None:
        """Begin to deliver."""
        self._spawn(self._pump(), "slack:pump")

    def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        """Send it to one of the sockets, behind what was said before."""
        self._queue.put_nowait((kind, payload, 0))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One connection, from its hello to its end."""
        fault = self._faults.take("socket")
        if fault is not None and fault.kind == "hang":
            await self._faults.healed.wait()
        if not self.accepting or fault is not None:
            return web.Response(status=503 if fault is None or fault.status == 200 else fault.status)
        name = request.query.get("ticket", "")
        if name not in self._free:
            return web.Response(status=404, text="the ticket is unknown or used")
        self._free.discard(name)
        ws = web.WebSocketResponse(autoping=False, timeout=0.5)
        await ws.prepare(request)
        self.opened += 1
        socket = Socket(self.opened, ws, request)
        if len(self.open) >= MOST_SOCKETS:
            await ws.send_json({"type": "disconnect", "reason": "too_many_websockets", "debug_info": _host()})
            await ws.close()
            return ws
        if not self.silent:
            await ws.send_json(self._hello())
        self.open.append(socket)
        self._told()
        try:
            await self._read(socket)
        finally:
            self._forget(socket)
        return ws

    def _hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "num_connections": len(self.open) + 1,
            "debug_info": {**_host(), "build_number": 1, "approximate_connection_time": 18_060},
            "connection_info": {"app_id": APP},
        }

    async def _read(self, socket: Socket) -> None:
        while True:
            message = await socket.ws.receive()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return
            if message.type is WSMsgType.PING:
                socket.pings += 1
                if self.answers_pings:
                    await socket.ws.pong(message.data)
            elif message.type is WSMsgType.PONG:
                socket.pongs += 1
            elif message.type is WSMsgType.TEXT:
                self._heard(message.data)
            self._told()

    def _heard(self, text: str) -> None:
        try:
            data = json.loads(text)
        except ValueError:
            self.received.append(text)
            return
        envelope = self._known.get(data.get("envelope_id", "")) if isinstance(data, dict) else None
        if envelope is None:
            self.received.append(data)
            return
        event_id = envelope.payload.get("event_id")
        self.acks.append(Ack(envelope.envelope_id, event_id, data.get("payload") or None, time.monotonic()))
        envelope.acknowledged.set()

    # delivery ------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        while True:
            kind, payload, attempt = await self._queue.get()
            if not await self._send(kind, payload, attempt):
                self.lost.append(payload)
            self._told()

    async def _send(self, kind: str, payload: dict[str, Any], attempt: int) -> bool:
        """Send it to the next socket that takes it."""
        while self.open:
            socket = self.open[next(self._turn) % len(self.open)]
            envelope = Envelope(str(uuid.uuid4()), kind, payload, attempt, socket.number, time.monotonic())
            self._known[envelope.envelope_id] = envelope
            self.envelopes.append(envelope)
            try:
                await socket.ws.send_json(envelope.as_json())
            except (ConnectionError, RuntimeError):
                self._forget(socket)
                self.envelopes.remove(envelope)
                continue
            if kind == EVENTS and attempt < self.retries:
                self._spawn(self._watch(envelope), "slack:watch")
            return True
        return False

    async def _watch(self, envelope: Envelope) -> None:
        """Send it again if it is not acknowledged in time; later, if no socket is open then."""
        try:
            async with asyncio.timeout(self.retry_seconds):
                await envelope.acknowledged.wait()
        except TimeoutError:
            attempt = envelope.attempt + 1
            while not self.open and attempt < self.retries:
                attempt += 1
                await asyncio.sleep(self.retry_seconds)
            self._queue.put_nowait((envelope.kind, envelope.payload, attempt))

    def _spawn(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # what a test does to sockets -----------------------------------------------------------------

    def drop(self) -> None:
        """Break every socket without a word."""
        for socket in list(self.open):
            self._forget(socket)
            if socket.request.transport is not None:
                socket.request.transport.abort()

    async def ask_to_leave(self, reason: str = "refresh_requested", *, close_after: float | None = None) -> None:
        """Send `disconnect` to every socket (warning, refresh_requested, link_disabled); close them after a while."""
        asked = list(self.open)
        for socket in asked:
            await socket.ws.send_json({"type": "disconnect", "reason": reason, "debug_info": _host()})
        if close_after is not None:
            await asyncio.sleep(close_after)
            await asyncio.gather(*(socket.ws.close() for socket in asked))

    async def ping(self) -> None:
        """Ping every socket; the pongs are counted at `open[…].pongs`."""
        for socket in list(self.open):
            await socket.ws.ping(b"Ping from applink-1")

    async def send_raw(self, text: str) -> None:
        """Send any text to every socket."""
        for socket in list(self.open):
            await socket.ws.send_str(text)

    def _forget(self, socket: Socket) -> None:
        if socket in self.open:
            self.open.remove(socket)
        self._told()

    async def close(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(socket.ws.close() for socket in list(self.open)), return_exceptions=True)
        self.open.clear()


def _host() -> dict[str, Any]:
    return {"host": "applink-1"}
