"""What a memory platform holds, and the faults that it is told to have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from adapters.events import ChatAddress, Receipt, RenderedChunk
from adapters.render import Said, read_said


@dataclass(slots=True, kw_only=True)
class Message:
    """One message of ours as the platform shows it. `edits` counts its changes."""

    id: str
    address: ChatAddress
    chunk: RenderedChunk
    key: str
    reply_to: str | None
    sent_at: datetime
    edits: int = 0
    deleted: bool = False

    @property
    def said(self) -> Said:
        """The text, buttons and file of it."""
        return read_said(self.chunk)

    @property
    def text(self) -> str:
        """Its neutral markdown."""
        return self.said.text


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the next call of `call` (`send`, `edit`, `delete`, `typing`, `look_up`, `run`).

    `error` is raised, after `seconds`. With `arrives` the call is carried out first: its outcome is
    what `OutcomeUnknown` means when the answer is lost. `hold` makes the call wait until it is set.
    """

    call: str
    error: Exception | None = None
    seconds: float = 0.0
    arrives: bool = False
    hold: asyncio.Event | None = None


@dataclass(slots=True)
class Room:
    """The platform's side: messages by id in the order of their arrival, receipts by idempotency key."""

    now: Callable[[], datetime]
    messages: dict[str, Message] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    typing: list[ChatAddress] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """(call, key or message id) of every call, also of those that failed."""
    faults: deque[Fault] = field(default_factory=deque)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, call: str, error: Exception | None = None, *, times: int = 1, arrives: bool = False,
             seconds: float = 0.0, hold: asyncio.Event | None = None) -> None:  # fmt: skip
        """Let the next `times` calls of `call` have a fault (see `Fault`)."""
        for _ in range(times):
            self.faults.append(Fault(call=call, error=error, seconds=seconds, arrives=arrives, hold=hold))

    def _due(self, call: str) -> Fault | None:
        for fault in self.faults:
            if fault.call == call:
                self.faults.remove(fault)
                return fault
        return None

    async def call(self, name: str, about: str, effect: Callable[[], None]) -> None:
        """Carry out a call with the fault that is due, if any."""
        self.calls.append((name, about))
        fault = self._due(name)
        if fault is not None:
            if fault.seconds:
                await asyncio.sleep(fault.seconds)
            if fault.hold is not None:
                await fault.hold.wait()
            if fault.arrives or fault.error is None:
                effect()
                self.tell()
            if fault.error is not None:
                raise fault.error
            return
        effect()
        self.tell()

    def tell(self) -> None:
        """Something has changed: wake whoever waits in `until`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait until `condition` holds. Raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self._changed.wait()

    def put(self, address: ChatAddress, chunk: RenderedChunk, key: str, reply_to: str | None) -> Receipt:
        """A message arrives. The same key again changes nothing."""
        if key not in self.receipts:
            number = f"m{len(self.messages) + 1}"
            self.messages[number] = Message(
                id=number, address=address, chunk=chunk, key=key, reply_to=reply_to, sent_at=self.now()
            )  # fmt: skip
            self.receipts[key] = Receipt(message_ids=(number,), sent_at=self.now())
        return self.receipts[key]

    def shown(self, address: ChatAddress | None = None) -> list[Message]:
        """The messages that are visible, in order, of one chat or of all."""
        return [
            one for one in self.messages.values() if not one.deleted and (address is None or one.address == address)
        ]

    def texts(self, address: ChatAddress | None = None) -> list[str]:
        """Their texts."""
        return [one.text for one in self.shown(address)]
