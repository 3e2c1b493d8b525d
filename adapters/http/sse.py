"""Server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType

from aiohttp import web

HEARTBEAT = 15.0
"""Seconds between two comments on a silent stream."""
WRITE_SECONDS = 30.0
"""How long a client may leave its stream unread."""
SMALL = 16 * 1024
"""Bytes that go into an empty send buffer without a wait."""


class SseStream:
    """A stream to one client, begun by `async with` and ended with it.

    Once the client has gone, `gone` is true and what is sent goes nowhere: no method raises for it.
    """

    def __init__(self, request: web.Request, headers: Mapping[str, str] | None = None) -> None:
        self._request = request
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
                **(headers or {}),
            }
        )
        self._broken = False

    async def __aenter__(self) -> SseStream:
        try:
            await self.response.prepare(self._request)
        except ConnectionError:
            self._broken = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None and not self.gone:
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self.response.write_eof()
            except (ConnectionError, TimeoutError):
                self._broken = True

    @property
    def gone(self) -> bool:
        """True once the client does not read any more."""
        return self._broken or has_left(self._request)

    async def send(self, data: object, event: str | None = None) -> None:
        """One event."""
        await self.raw(frame(data, event))

    async def beat(self) -> None:
        """A comment that keeps the connection open."""
        await self.raw(b": still here\n\n")

    async def raw(self, content: bytes) -> None:
        """Bytes that are whole events."""
        transport = self._request.transport
        if self.gone or transport is None:
            return
        try:
            if len(content) <= SMALL and transport.get_write_buffer_size() == 0:
                await self.response.write(content)  # cannot block, so the timer is saved
                return
            async with asyncio.timeout(WRITE_SECONDS):
                await self.response.write(content)
        except (ConnectionError, TimeoutError):
            self._broken = True
            if self._request.transport is not None:
                self._request.transport.abort()


def frame(data: object, event: str | None = None) -> bytes:
    """An event as bytes. JSON holds no line breaks, so one data line is enough."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = "" if event is None else f"event: {event}\n"
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")


def has_left(request: web.Request) -> bool:
    """True once the client has closed the connection."""
    transport = request.transport
    return transport is None or transport.is_closing()
