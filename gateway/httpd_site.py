"""A listening socket with a bound on its connections, and errors of the protocol itself as JSON."""

from __future__ import annotations

import asyncio
import json
import socket
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web

from adapters.http.errors import json_response, problem_body

log = structlog.get_logger("gateway.httpd")

KEEP_ALIVE = 75.0
"""Seconds for which a connection may be idle. It also bounds the time for a request's headers."""
REFUSE_SECONDS = 2.0
HEADER_LINE = 16 * 1024
"""The longest header or request line, in bytes."""


class _JsonHandler(web.RequestHandler):
    """aiohttp's handler of one connection; what it cannot parse is told as JSON and without a traceback."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer had begun already")
        # the parser's message quotes what the client sent, which may be a key
        log.info("http.malformed", status=status, peer=request.remote, error=type(exc).__name__)
        told = "The request is no valid HTTP." if status == 400 else HTTPStatus(status).description
        response = json_response(problem_body(status, told), status=status)
        response.force_close()
        return response


class _Full(asyncio.Protocol):
    """Tells a client that there are too many connections, once it has said something, and closes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = self._loop.call_later(REFUSE_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        # answered only now: closing a socket that holds unread data would reset it before the client reads
        if self._transport is not None:
            self._transport.write(_FULL)
            self._transport.close()
            self._transport = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _full() -> bytes:
    body = json.dumps(problem_body(503, "The server has too many connections; try again in a moment.")).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 2\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_FULL = _full()


class BoundedSite(web.BaseSite):
    """Listens on one address. `port` is the one that was taken. An `inherited` socket listens there already."""

    __slots__ = ("_host", "_inherited", "_limit", "_port")

    def __init__(
        self, runner: web.AppRunner, host: str, port: int, limit: int, inherited: socket.socket | None = None
    ) -> None:
        super().__init__(runner, backlog=512)
        self._host = host
        self._port = port
        self._limit = limit
        self._inherited = inherited

    @property
    def name(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        """Raises OSError where the address cannot be had."""
        await super().start()
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": KEEP_ALIVE,
            "max_line_size": HEADER_LINE,
            "max_field_size": HEADER_LINE,
            "lingering_time": REFUSE_SECONDS,
        }

        def connect() -> asyncio.Protocol:
            if len(server.connections) >= self._limit:
                log.warning("http.full", connections=self._limit)
                return _Full(loop)
            return _JsonHandler(server, loop=loop, **options)

        if self._inherited is not None:
            listening = await loop.create_server(connect, sock=self._inherited, backlog=self._backlog)
        else:
            listening = await loop.create_server(connect, self._host, self._port, backlog=self._backlog)
        self._server = listening
        self._port = listening.sockets[0].getsockname()[1]

    @property
    def descriptor(self) -> int:
        """The listening socket, the first one where the name of the host has several addresses."""
        assert isinstance(self._server, asyncio.Server)
        return self._server.sockets[0].fileno()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    def leave(self) -> None:
        """Take no new connections. Whoever has a copy of the socket does; what is connected is served on."""
        if self._server is not None:
            self._server.close()
