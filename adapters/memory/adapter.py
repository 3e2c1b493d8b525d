"""The memory adapter: tests speak with `hear`, and read what was answered in `room`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.errors import Gone, NotReady
from adapters.events import (
    Action,
    Attachment,
    ChatAddress,
    EventKind,
    MessageEvent,
    Receipt,
    RenderedChunk,
    ReplyTo,
    Sender,
)
from adapters.limits import Limits
from adapters.memory.render import MemoryRenderer
from adapters.memory.room import Room
from adapters.ports import (
    Accepted,
    CanDelete,
    CanEdit,
    CanLookUp,
    CanStream,
    CanType,
    HearsFates,
    Inbox,
    LivePart,
    PlatformAdapter,
    Renderer,
)

PLATFORM = "memory"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class BareMemoryAdapter:
    """The mandatory port and nothing more. Implements `PlatformAdapter`.

    `account` and `limits` are what tests want them to be; `now` is UTC. What was sent is in `room`.
    """

    def __init__(
        self,
        *,
        platform: str = PLATFORM,
        account: str = "bot",
        limits: Limits | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.room = Room(now)
        self._platform = platform
        self._name = account
        self._account = ""
        self._renderer = MemoryRenderer(limits)
        self._now = now
        self._inbox: Inbox | None = None
        self._lost = asyncio.Event()
        self._error: Exception | None = None
        self._count = 0

    @property
    def platform(self) -> str:
        """The name in the configuration."""
        return self._platform

    @property
    def account(self) -> str:
        """Known once connected."""
        return self._account

    @property
    def renderer(self) -> Renderer:
        """Neutral markdown, split at the limit."""
        return self._renderer

    @property
    def connected(self) -> bool:
        """Whether `run` serves at the moment."""
        return self._inbox is not None

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """Serve until cancelled or until `lose` is called; a fault for `run` keeps it from connecting."""
        self._lost.clear()
        await self.room.call("run", self._name, lambda: None)
        self._account = self._name
        self._inbox = inbox
        try:
            ready()
            self.room.tell()
            await self._lost.wait()
            if self._error is not None:
                raise self._error
        finally:
            self._inbox = None

    def lose(self, error: Exception | None = None) -> None:
        """End the connection, with `error` or quietly."""
        self._error = error
        self._lost.set()

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """Keep the chunk; a fault may be due first."""
        if not self.connected:
            raise NotReady("the memory platform is not connected")
        await self.room.call("send", key, lambda: self._put(address, chunk, key, reply_to))
        return self.room.receipts[key]

    def _put(self, address: ChatAddress, chunk: RenderedChunk, key: str, reply_to: str | None) -> None:
        self.room.put(address, chunk, key, reply_to)

    async def hear(
        self,
        text: str = "",
        *,
        chat: str | ChatAddress = "chat",
        sender: str | Sender = "ann",
        message_id: str | None = None,
        kind: EventKind = EventKind.MESSAGE,
        action: Action | None = None,
        reply_to: ReplyTo | None = None,
        attachments: tuple[Attachment, ...] = (),
        mentions_us: bool = False,
        dedup_id: str | None = None,
    ) -> Accepted:
        """Somebody says something. Returns when it is committed; raises what the inbox raises.

        Without `message_id` it is a new message; a text that begins with `/` is a command unless `kind`
        says otherwise. The dedup id is the message's, with the kind where it is no message.
        """
        if self._inbox is None:
            raise NotReady("the memory platform is not connected")
        if kind is EventKind.MESSAGE and text.startswith("/"):
            kind = EventKind.COMMAND
        self._count += 1
        message_id = message_id or f"in-{self._count}"
        plain = kind in {EventKind.MESSAGE, EventKind.COMMAND}
        event = MessageEvent(
            dedup_id=dedup_id or (message_id if plain else f"{message_id}:{kind.value}:{self._count}"),
            kind=kind,
            message_id=message_id,
            address=chat if isinstance(chat, ChatAddress) else self.address(chat),
            sender=sender if isinstance(sender, Sender) else Sender(id=sender, name=sender.title()),
            received_at=self._now(),
            sent_at=self._now(),
            text=text,
            action=action,
            reply_to=reply_to,
            attachments=attachments,
            mentions_us=mentions_us,
        )
        return await self.accept(event)

    async def accept(self, event: MessageEvent) -> Accepted:
        """Hand over an event that a test has built itself."""
        if self._inbox is None:
            raise NotReady("the memory platform is not connected")
        return await self._inbox.accept(event)

    async def press(self, button_id: str, value: str, *, chat: str | ChatAddress = "chat",
                    sender: str | Sender = "ann", message_id: str = "m1") -> Accepted:  # fmt: skip
        """Somebody presses a button below the message `message_id`."""
        return await self.hear(
            chat=chat,
            sender=sender,
            kind=EventKind.ACTION,
            message_id=message_id,
            action=Action(button_id=button_id, value=value),
        )

    def address(self, chat: str) -> ChatAddress:
        """The address of a private chat here."""
        return ChatAddress(platform=self._platform, account=self._name, chat_id=chat)


class MemoryAdapter(BareMemoryAdapter):
    """With every ability of a chat platform that edits: CanEdit, CanDelete, CanType, CanLookUp, HearsFates."""

    def __init__(
        self,
        *,
        platform: str = PLATFORM,
        account: str = "bot",
        limits: Limits | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        super().__init__(platform=platform, account=account, limits=limits, now=now)
        self.fates: dict[str, tuple[str, str]] = {}

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """Change one of our messages. Raises `Gone` where it is not there any more."""
        await self.room.call("edit", message_id, lambda: self._edit(message_id, chunk))

    def _edit(self, message_id: str, chunk: RenderedChunk) -> None:
        message = self.room.messages.get(message_id)
        if message is None or message.deleted:
            raise Gone(f"the message {message_id} does not exist")
        if message.chunk != chunk:
            self.room.messages[message_id] = replace(message, chunk=chunk, edits=message.edits + 1)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """Take one of our messages back."""
        await self.room.call("delete", message_id, lambda: self._delete(message_id))

    def _delete(self, message_id: str) -> None:
        if message := self.room.messages.get(message_id):
            message.deleted = True

    async def typing(self, address: ChatAddress, reply_to: str | None) -> None:
        """Note it."""
        await self.room.call("typing", address.chat_id, lambda: self.room.typing.append(address))

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """What arrived under `key`."""
        await self.room.call("look_up", key, lambda: None)
        return self.room.receipts.get(key)

    def settled(self, address: ChatAddress, message_id: str, fate: str, detail: str) -> None:
        """Note how a message ended."""
        self.fates[message_id] = (fate, detail)
        self.room.tell()


class LiveMemoryAdapter(BareMemoryAdapter):
    """A platform that takes increments and neither edits nor looks up: CanStream, HearsFates."""

    def __init__(
        self,
        *,
        platform: str = PLATFORM,
        account: str = "bot",
        limits: Limits | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        super().__init__(platform=platform, account=account, limits=limits, now=now)
        self.fates: dict[str, tuple[str, str]] = {}
        self.parts: list[tuple[str, LivePart]] = []

    def live(self, address: ChatAddress, reply_to: str, part: LivePart) -> None:
        """Note the part."""
        self.parts.append((reply_to, part))
        self.room.tell()

    def settled(self, address: ChatAddress, message_id: str, fate: str, detail: str) -> None:
        """Note how a message ended."""
        self.fates[message_id] = (fate, detail)
        self.room.tell()


if TYPE_CHECKING:
    _bare: PlatformAdapter = BareMemoryAdapter()
    _full: PlatformAdapter = MemoryAdapter()
    _edits: CanEdit = MemoryAdapter()
    _deletes: CanDelete = MemoryAdapter()
    _types: CanType = MemoryAdapter()
    _looks: CanLookUp = MemoryAdapter()
    _hears: HearsFates = MemoryAdapter()
    _streams: CanStream = LiveMemoryAdapter()
    _live: PlatformAdapter = LiveMemoryAdapter()
