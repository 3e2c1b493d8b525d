"""What the counterparts of the memory services have in common: a loopback server, a log of requests, and faults."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import AsyncExitStack
from typing import Any, Literal

from aiohttp import web

Fault = Literal["hang", "500", "429", "422", "garbage", "flood", "packed", "types", "drop"]
FLOOD = 10_000_000
PACKED = gzip.compress(json.dumps({"results": ["x" * FLOOD]}).encode(), 1)


class MemoryService:
    """Serves while it is entered. `fault` concerns every request that is not in `spared`."""

    key = "service-key"

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.spared: tuple[str, ...] = ()
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.sent = 0
        self._stack = AsyncExitStack()
        self._gone = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """The service's interface."""
        raise NotImplementedError

    def allowed(self, request: web.Request) -> bool:
        """Whether the request carries the key as this service wants it."""
        return request.headers.get("Authorization") == f"Bearer {self.key}"

    def refused(self) -> web.Response:
        """How the service says that it does not take something."""
        return web.json_response({"detail": "words that were said"}, status=422)

    async def __aenter__(self) -> MemoryService:
        app = web.Application(middlewares=[self._middleware], client_max_size=50_000_000)
        app.add_routes(self.routes())
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        await self._stack.aclose()

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path, body))
        self.headers.append(dict(request.headers))
        if self.fault is not None and not any(part in request.path for part in self.spared):
            return await self._faulty(request)
        if not self.allowed(request):
            return web.json_response({"detail": "no such key"}, status=401)
        try:
            return await handler(request)  # type: ignore[no-any-return]
        except web.HTTPNotFound:
            return web.json_response({"detail": "not found"}, status=404)

    async def _faulty(self, request: web.Request) -> web.StreamResponse:
        match self.fault:
            case "hang":
                await self._gone.wait()
                return web.Response()
            case "422":
                return self.refused()
            case "500" | "429":
                headers = {"Retry-After": "3600"} if self.fault == "429" else {}
                return web.json_response({"detail": "words that were said"}, status=int(self.fault), headers=headers)
            case "garbage":
                return web.Response(body=b"\xff\x00<html>not json", content_type="application/json")
            case "types":
                return web.json_response([1, {"results": "no list", "memories": 7}, None])
            case "packed":
                headers = {"Content-Encoding": "gzip"}
                return web.Response(body=PACKED, content_type="application/json", headers=headers)
            case "drop":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case _:
                return await self._flood(request)

    async def _flood(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"results": ["')
        try:
            for _ in range(FLOOD // 100_000):
                await response.write(b"x" * 100_000)
                self.sent += 100_000
            await response.write(b'"]}')
        except ConnectionError:  # the client has had enough, as it should
            return response
        return response

    async def started(self) -> MemoryService:
        """Itself, entered."""
        return await self.__aenter__()


def matches(query: str, text: str) -> bool:
    """A crude search: a word in common."""
    asked, there = ({word.strip("?.,!").lower() for word in one.split()} for one in (query, text))
    return bool(asked & there)
