"""Requests that wait for the end of an event: what happens to the event is pushed here and read there."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from adapters.events import ChatAddress
from adapters.http.errors import HttpProblem
from adapters.http.render import Said

PARTS = 256
"""Parts that are kept for a slow reader; increments of text count as one part while they wait."""
LIVE_TEXT = 256 * 1024
"""Characters of live text that are kept for a slow reader."""


@dataclass(slots=True)
class Part:
    """Something to be streamed: a live part, or a `said` chunk with its buttons."""

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


class Waiter:
    """One request that waits for one message. Made by `Waits.open`, given back to `Waits.close`."""

    def __init__(self, address: ChatAddress, message_id: str) -> None:
        self.address = address
        self.message_id = message_id
        self.settled = False
        """Its event has ended; the particulars are to be looked up."""
        self.poked = False
        """Another event of the line ended after it: whatever turn it had joined is over."""
        self.closing = False
        """The server closes."""
        self.said: list[str] = []
        """What was sent as a reply to the message, in order."""
        self._parts: deque[Part] = deque()
        self._held = 0
        self._lagging = False
        self._wake = asyncio.Event()
        self._over = asyncio.Event()

    def push(self, part: Part) -> None:
        """Keep a part for the reader. A reader that is too slow gets no further live text: a text with a
        gap would be worse than none, and the whole answer comes at the end."""
        last = self._parts[-1] if self._parts else None
        if part.kind == "text":
            if self._lagging or self._held + len(part.text) > LIVE_TEXT:
                self._lagging = True
                return
            self._held += len(part.text)
            if last is not None and last.kind == "text":
                last.text += part.text
                return
        elif len(self._parts) >= PARTS:
            self._lagging = True
            return
        self._parts.append(part)
        self._wake.set()

    def joined_late(self) -> None:
        """The beginning of the live text was missed: a rest of it would be worse than none."""
        self._lagging = True

    def wake(self) -> None:
        """Have the reader look."""
        self._wake.set()
        if self.settled or self.closing:
            self._over.set()

    def take(self) -> list[Part]:
        """The parts so far, each once."""
        parts = list(self._parts)
        self._parts.clear()
        self._held = 0
        return parts

    async def wait(self, seconds: float) -> bool:
        """Until something happens; False where nothing did within `seconds`."""
        if self._wake.is_set():  # without the cost of a timer
            self._wake.clear()
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def pause(self, seconds: float) -> None:
        """Let parts gather for `seconds`; shorter where the event ends meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    async def words(self, seconds: float) -> None:
        """Until something is said as a reply, at most `seconds`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self.said and not self.closing and loop.time() < end:
            await self.wait(end - loop.time())


class Waits:
    """Every waiter of this process. All methods but `Waiter.wait` are synchronous and cheap."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._lines: dict[str, list[Waiter]] = {}

    def __len__(self) -> int:
        return self._count

    def open(self, address: ChatAddress, message_id: str) -> Waiter:
        """A waiter for a message that is about to be accepted. Raises `HttpProblem` where too many wait."""
        if self._count >= self._limit:
            raise HttpProblem(
                503,
                "Too many requests wait for an answer; try again in a moment.",
                code="too_many_waiting",
                headers={"Retry-After": "5"},
            )
        waiter = Waiter(address, message_id)
        self._count += 1
        self._lines.setdefault(address.chat_id, []).append(waiter)
        return waiter

    def close(self, waiter: Waiter) -> None:
        """The request does not wait any more. Idempotent."""
        line = self._lines.get(waiter.address.chat_id, [])
        if waiter in line:
            line.remove(waiter)
            self._count -= 1
            if not line:
                del self._lines[waiter.address.chat_id]

    def move(self, waiter: Waiter, address: ChatAddress) -> None:
        """The message turned out to belong to another line (its id was used before)."""
        self.close(waiter)
        waiter.address = address
        self._count += 1
        self._lines.setdefault(address.chat_id, []).append(waiter)

    def live(self, address: ChatAddress, message_id: str, kind: str, text: str) -> None:
        """A live part of the turn that answers the message."""
        for waiter in self._lines.get(address.chat_id, ()):
            if waiter.message_id == message_id and not waiter.settled:
                waiter.push(Part(kind, text))

    def spoken(self, address: ChatAddress, message_id: str | None, said: Said) -> None:
        """A chunk was delivered: as a reply to the message, or to the whole line."""
        for waiter in self._lines.get(address.chat_id, ()):
            if message_id is not None and waiter.message_id != message_id:
                continue
            if message_id is not None:
                waiter.said.append(said.text)
            if said.buttons:
                choices = [{"button_id": b.id, "label": b.label, "value": b.value} for b in said.buttons]
                waiter.push(Part("approval", said.text, {"buttons": choices}))
            elif not waiter.settled:
                waiter.push(Part("status", said.text))
            waiter.wake()

    def settle(self, address: ChatAddress, message_id: str) -> None:
        """An event of the line has ended."""
        for waiter in self._lines.get(address.chat_id, ()):
            if waiter.message_id == message_id:
                waiter.settled = True
                waiter.wake()
            elif waiter.settled:
                waiter.poked = True
                waiter.wake()

    def close_all(self) -> None:
        """The server closes: every waiter ends now."""
        for line in self._lines.values():
            for waiter in line:
                waiter.closing = True
                waiter.wake()
