"""The gateway as an adapter sees it, in memory: it accepts, answers by a script, and tells what became of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from adapters.errors import NotReady
from adapters.events import Block, ChatAddress, Markdown, MessageEvent
from adapters.ports import (
    Accepted,
    Answer,
    CanStream,
    HearsFates,
    LivePart,
    PlatformAdapter,
    SessionInfo,
    SpokenMessage,
)


@dataclass(slots=True)
class Row:
    """An event and its end."""

    event: MessageEvent
    event_id: int
    fate: str = "waiting"
    detail: str = ""
    text: str = ""


Script = Callable[["SmallGateway", Row], Awaitable[None]]


class SmallGateway:
    """Implements `Inbox` and `Conversations`. `script` runs for every new event, one after the other."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.adapter: PlatformAdapter | None = None
        self.rows: list[Row] = []
        self.offered = 0
        """How often `accept` was called."""
        self.unreadables: list[tuple[str, str]] = []
        """Dedup id and reason of what could not be parsed."""
        self.faults: deque[Exception] = deque()
        """Raised by the next calls of `accept`, one each."""
        self.gate = asyncio.Event()
        """While it is not set, `accept` waits with its commit."""
        self.gate.set()
        self._keys: dict[tuple[str, str, str], Row] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def events(self) -> list[MessageEvent]:
        return [row.event for row in self.rows]

    async def accept(self, event: MessageEvent) -> Accepted:
        self.offered += 1
        self._tell()
        if self.faults:
            raise self.faults.popleft()
        await self.gate.wait()
        key = (event.address.platform, event.address.account, event.dedup_id)
        if known := self._keys.get(key):
            return Accepted(event_id=known.event_id, is_new=False)
        row = Row(event, len(self.rows) + 1)
        self._keys[key] = row
        self.rows.append(row)
        self._tell()
        if self.script is not None:
            task = asyncio.create_task(self._run(row, self.script), name=f"script-{row.event_id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return Accepted(event_id=row.event_id, is_new=True)

    async def unreadable(self, platform: str, account: str, dedup_id: str, raw: str, reason: str) -> Accepted:
        self.unreadables.append((dedup_id, reason))
        self._tell()
        return Accepted(event_id=0, is_new=True)

    async def _run(self, row: Row, script: Script) -> None:
        with suppress(NotReady):  # a delivery that waits for another day
            if row.event.kind.value in {"command", "action"}:  # they do not wait for the turn
                await script(self, row)
                return
            async with self._turn:
                await script(self, row)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await self._changed.wait()

    # what a script does

    def live(self, row: Row, kind: str, text: str) -> None:
        assert isinstance(self.adapter, CanStream)
        self.adapter.live(row.event.address, row.event.message_id, LivePart(kind=kind, text=text))

    async def say(self, row: Row, *blocks: Block, key: str | None = None) -> None:
        assert self.adapter is not None
        for number, chunk in enumerate(self.adapter.renderer.render(blocks)):
            await self.adapter.send(
                row.event.address, chunk, key=f"{key or row.event_id}-{number}", reply_to=row.event.message_id
            )

    async def end(self, row: Row, fate: str = "answered", text: str = "", detail: str = "", *, tell: bool = True,
                  deliver: bool = True) -> None:  # fmt: skip
        """The final transaction, then the fate, then the delivery."""
        row.fate, row.text, row.detail = fate, text, detail
        self._tell()
        if tell and isinstance(self.adapter, HearsFates):
            self.adapter.settled(row.event.address, row.event.message_id, fate, detail)
        if text and deliver:
            await self.say(row, Markdown(text=text))

    # `Conversations`

    async def answer(self, address: ChatAddress, message_id: str) -> Answer | None:
        for row in self.rows:
            if row.event.address == address and row.event.message_id == message_id:
                return Answer(
                    event_id=row.event_id,
                    message_id=message_id,
                    address=address,
                    fate=row.fate,
                    detail=row.detail,
                    text=row.text,
                    session_id="s_1",
                    turn_id=f"t_{row.event_id}",
                    received_at=row.event.received_at,
                    finish_reason="stop",
                    input_tokens=7,
                    output_tokens=3,
                )
        return None

    async def find_answer(self, platform: str, account: str, person: str, message_id: str) -> Answer | None:
        for row in self.rows:
            if row.event.message_id == message_id and person == f"{platform}:{row.event.sender.id}":
                return await self.answer(row.event.address, message_id)
        return None

    async def sessions(self, person: str, limit: int = 50) -> Sequence[SessionInfo]:
        return []

    async def messages(self, person: str, session_id: str) -> Sequence[SpokenMessage] | None:
        return None

    async def fork(self, source: ChatAddress, message_id: str, target: ChatAddress) -> bool:
        return False

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
