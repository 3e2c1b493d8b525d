"""How the small Slack tells what happens: by envelopes or signed requests, again where they are not acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web

RETRIES = 3


class Sockets:
    """The delivery of events. `acks` are envelope ids in the order of their acknowledgement."""

    def __init__(self, told: Callable[[], None], url: Callable[[], str], retry_seconds: float) -> None:
        self._told = told
        self._url = url
        self.retry_seconds = retry_seconds
        self.open: list[web.WebSocketResponse] = []
        self.opened = 0
        self.accepting = True
        self.acks: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.hook: tuple[str, aiohttp.ClientSession, str] | None = None
        self.answers: list[int] = []
        """The statuses of signed requests."""
        self.held: list[tuple[str, dict[str, Any]]] | None = None
        self._numbers = itertools.count(1)
        self._tickets: set[str] = set()
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = 0

    def ticket(self) -> str:
        """An address for one socket."""
        name = f"t{next(self._numbers)}"
        self._tickets.add(name)
        return f"{self._url().replace('http', 'ws', 1)}/socket/{name}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One socket."""
        name = request.match_info["ticket"]
        if not self.accepting or name not in self._tickets:
            return web.Response(status=503)
        self._tickets.discard(name)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.opened += 1
        self.open.append(socket)
        info = {"app_id": "A0APP"}
        await socket.send_json({"type": "hello", "num_connections": len(self.open), "connection_info": info})
        self._told()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledged(json.loads(message.data).get("envelope_id"))
        finally:
            if socket in self.open:
                self.open.remove(socket)
            self._told()
        return socket

    def _acknowledged(self, envelope: Any) -> None:
        self.acks.append(str(envelope))
        if (event := self._waiting.get(str(envelope))) is not None:
            event.set()
        self._told()

    def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell it to one connection, if there is one; what nobody hears is lost, as with Slack. `kind` is
        events_api, interactive or slash_commands."""
        if self.held is not None:
            self.held.append((kind, payload))
            return
        self.sent.append(payload)
        if self.hook is None and not self.open:
            return
        work = self._post(kind, payload) if self.hook is not None else self._envelope(kind, payload)
        task = asyncio.create_task(work, name="slack:deliver")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hold(self) -> None:
        """Keep what happens for `release`."""
        self.held = []

    def release(self, *, reverse: bool = False) -> None:
        """Tell what was held."""
        held, self.held = self.held or [], None
        for kind, payload in reversed(held) if reverse else held:
            self.deliver(kind, payload)

    async def _envelope(self, kind: str, payload: dict[str, Any]) -> None:
        envelope = f"e{next(self._numbers)}"
        done = self._waiting[envelope] = asyncio.Event()
        try:
            for attempt in range(RETRIES + 1):
                if not self.open:
                    return
                self._turn += 1
                socket = self.open[self._turn % len(self.open)]
                data: dict[str, Any] = {
                    "envelope_id": envelope, "type": kind, "payload": payload,
                    "accepts_response_payload": kind != "events_api",
                }  # fmt: skip
                if kind == "events_api":
                    data |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
                try:
                    await socket.send_json(data)
                except ConnectionError:
                    continue
                try:
                    async with asyncio.timeout(self.retry_seconds):
                        await done.wait()
                except TimeoutError:
                    continue
                return
        finally:
            del self._waiting[envelope]

    async def _post(self, kind: str, payload: dict[str, Any]) -> None:
        assert self.hook is not None
        for attempt in range(RETRIES + 1):
            body = body_of(kind, payload)
            more = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": "http_timeout"} if attempt else {}
            status = await self.signed(body, kind=kind, **more)
            if status == 200:
                return
            await asyncio.sleep(self.retry_seconds)

    async def signed(self, body: bytes, *, kind: str = "events_api", age: float = 0.0, secret: str | None = None,
                     unsigned: bool = False, **headers: str) -> int:  # fmt: skip
        """Post a body with its signature (of another time or secret, or without one); the status."""
        assert self.hook is not None
        url, session, own = self.hook
        stamp = str(int(time.time() - age))
        base = f"v0:{stamp}:".encode() + body
        signature = "v0=" + hmac.new((secret or own).encode(), base, hashlib.sha256).hexdigest()
        form = "application/x-www-form-urlencoded"
        sent = {"Content-Type": "application/json" if kind == "events_api" else form, **headers}
        if not unsigned:
            sent |= {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
        try:
            async with session.post(url, data=body, headers=sent) as answer:
                self.answers.append(answer.status)
        except aiohttp.ClientError:
            self.answers.append(0)
        self._told()
        return self.answers[-1]

    async def drop(self) -> None:
        """Break every socket without a word."""
        for socket in list(self.open):
            self.open.remove(socket)
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def ask_to_refresh(self, reason: str = "refresh_requested") -> None:
        """Tell every socket to be replaced."""
        for socket in list(self.open):
            await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})

    async def close(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for socket in list(self.open):
            await socket.close()


def body_of(kind: str, payload: dict[str, Any]) -> bytes:
    """The body of a signed request."""
    if kind == "events_api":
        return json.dumps(payload).encode()
    if kind == "interactive":
        return urlencode({"payload": json.dumps(payload)}).encode()
    return urlencode(payload).encode()
