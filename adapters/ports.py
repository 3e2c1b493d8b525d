"""The ports between the gateway and the platforms.

The mandatory port is small; every further ability is a Protocol of its own that an adapter implements
or not, asked for with `isinstance`. Every method runs on the event loop and must not block it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adapters.events import Attachment, Block, ChatAddress, MessageEvent, Receipt, RenderedChunk
from adapters.limits import Limits

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The event is committed. `is_new` is false where it was known already (nothing is to be done)."""

    event_id: int
    is_new: bool


class Inbox(Protocol):
    """Where adapters put what they hear. Implemented by the gateway."""

    async def unreadable(self, platform: str, account: str, dedup_id: str, raw: str, reason: str) -> Accepted:
        """Commit something that cannot be parsed as failed, with `raw` kept for the operator.

        For platforms where an event that is never confirmed blocks all that follow it. Raises `NotReady`
        as `accept` does.
        """
        ...

    async def accept(self, event: MessageEvent) -> Accepted:
        """Commit `event` durably, or recognise it.

        Called for every event, before the platform is told that we have it. Returns after the commit;
        the work is started by itself and not awaited. Raises `NotReady` where the store cannot take
        it (locked, disk full): then the platform must not be told. Events of one address keep the
        order of their calls.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of an event: its fate in the design's words, and what was answered."""

    event_id: int
    message_id: str
    address: ChatAddress
    fate: str
    detail: str
    text: str
    session_id: str | None
    turn_id: str | None
    received_at: datetime
    finish_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    platform_data: str | None = None
    """What the adapter gave as `MessageEvent.platform_data`, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as a client may see it."""

    session_id: str
    title: str | None
    created_at: datetime
    address: ChatAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenMessage:
    """One message of a session as people see it."""

    role: str
    text: str
    created_at: datetime


class Conversations(Protocol):
    """The read side for adapters whose clients ask (HTTP, terminal). Implemented by the gateway.

    Every call is bound to the account's own `person` ("platform:id"): what belongs to another is None.
    """

    async def answer(self, address: ChatAddress, message_id: str) -> Answer | None:
        """What became of the message of that chat, or None where it is not known there."""
        ...

    async def find_answer(self, platform: str, account: str, person: str, message_id: str) -> Answer | None:
        """The same by the message id alone, only among what `person` sent."""
        ...

    async def sessions(self, person: str, limit: int = 50) -> Sequence[SessionInfo]:
        """The sessions that `person` may resume, newest first."""
        ...

    async def messages(self, person: str, session_id: str) -> Sequence[SpokenMessage] | None:
        """What was said in a session, oldest first, or None where `person` may not read it."""
        ...

    async def fork(self, source: ChatAddress, message_id: str, target: ChatAddress) -> bool:
        """Bind `target` to a child of the session that answered `message_id` in `source`, with the
        history up to that answer and no copied rows. False where that is not possible."""
        ...


class Cursors(Protocol):
    """How far each channel was read without a gap, durably: what back-fill begins from. By the gateway.

    `channel` is a name of the adapter's own (channel, DM or thread), `cursor` its platform's id of the
    newest message up to which everything is committed. A cursor that lags is safe: what is fetched twice
    is recognised. One that runs ahead loses messages: set it only behind `Inbox.accept`, and, while a gap
    of the channel is not filled, only from the filling.
    """

    async def all(self, platform: str, account: str) -> Mapping[str, str]:
        """Every known channel with its cursor. Empty on the first start: then nothing is history."""
        ...

    async def set(self, platform: str, account: str, channel: str, cursor: str) -> None:
        """Move the cursor of a channel, which becomes known by it. Raises `NotReady`."""
        ...

    async def forget(self, platform: str, account: str, channel: str) -> None:
        """The channel is gone. Raises `NotReady`."""
        ...


class Moves(Protocol):
    """Chats that a platform has given a new id (a group that became a supergroup). By the gateway.

    The first id stays the name of the chat here, so that its sessions, settings, queue and history follow
    at once: an adapter turns the id of an inbound event with `first`, and that of a call with `now`.
    """

    def first(self, platform: str, chat_id: str) -> str:
        """The id under which the chat is known; `chat_id` itself where it has not moved. Never blocks."""
        ...

    def now(self, platform: str, chat_id: str) -> str:
        """The id that the platform knows now. Never blocks."""
        ...

    async def moved(self, platform: str, old: str, new: str) -> None:
        """Remember it durably, in whatever order and however often it is told. Raises `NotReady`."""
        ...


class Renderer(Protocol):
    """Turns neutral blocks into platform messages. Pure: no I/O, no clock, the same result each time."""

    @property
    def limits(self) -> Limits:
        """The limits of the platform that `render` keeps."""
        ...

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """Every chunk within `limits` and valid by itself; nothing of the content is lost.

        May be called from a worker thread. Never raises for any text; empty blocks give an empty list.
        """
        ...


@runtime_checkable
class PlatformAdapter(Protocol):
    """One account on one platform."""

    @property
    def platform(self) -> str:
        """The platform's name as in the configuration."""
        ...

    @property
    def account(self) -> str:
        """The bot's own stable id there; known once `run` has called `ready`, "" before."""
        ...

    @property
    def renderer(self) -> Renderer:
        """The renderer for this platform; usable at any time, also when not connected."""
        ...

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """Connect, call `ready` once connected (and again after every reconnect), serve until cancelled.

        Called by the supervisor, in a task of its own, again after every end. Raises `NotReady` or
        `RetryAfter` (the supervisor waits and calls again) or `AuthFailed` (it parks the adapter).
        Everything that it opened is closed when it returns, raises or is cancelled.
        """
        ...

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """Send one stored chunk. `key` is its idempotency key, the same on every try.

        Called by the delivery pump only, one call at a time for a chat. Sends exactly once or raises
        an `AdapterError`; no retries inside. Raises `OutcomeUnknown` where the platform may have it.
        """
        ...


@runtime_checkable
class CanEdit(Protocol):
    """The platform lets us change our own messages."""

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """Replace the content. Idempotent: "not modified" is a success."""
        ...


@runtime_checkable
class CanDelete(Protocol):
    """The platform lets us take back our own messages."""

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """Take the message back. Idempotent: already gone is a success."""
        ...


@runtime_checkable
class CanType(Protocol):
    """The platform shows that we are at work."""

    async def typing(self, address: ChatAddress, reply_to: str | None) -> None:
        """Show it for a few seconds. Cosmetic: errors are raised, and counted by the caller only."""
        ...


@runtime_checkable
class CanLookUp(Protocol):
    """The platform can tell whether a chunk with an idempotency key has arrived."""

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """The receipt of an earlier try with `key`, or None where it has surely not arrived.

        Raises `OutcomeUnknown` where that cannot be told.
        """
        ...


@runtime_checkable
class CanOpenThreads(Protocol):
    """The platform lets us make threads (topics) of our own, for conversations that are handed off to it."""

    async def open_thread(self, chat: ChatAddress, title: str) -> ChatAddress | None:
        """Make a thread in `chat` and return its address: the very one that inbound events of it carry.

        None where this chat can have none (the chat itself is the place then). Raises `NoRights`, `Gone`,
        and the other `AdapterError`s.
        """
        ...

    async def close_thread(self, thread: ChatAddress) -> None:
        """Close a thread that `open_thread` has made and that nobody needs. Already closed is a success."""
        ...


@runtime_checkable
class CanFindPlaces(Protocol):
    """The platform tells whether a chat or a thread is there, without anybody seeing more than that we are at work."""

    async def find_place(self, address: ChatAddress) -> None:
        """Return where something can be said at `address`. Raises `Gone` where the chat or thread does not exist,
        `NoRights` where we are not let in, and the other `AdapterError`s."""
        ...


@runtime_checkable
class CanFetch(Protocol):
    """The platform's files are fetched after the event is committed and let in, not before."""

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        """The attachments of `event`, in order, each with a `path` or with a `note` that says why not.

        Called before the turn that the event starts, only for people who are let in; bounded. Never raises
        but for a cancel: what cannot be fetched is said in the note.
        """
        ...


@runtime_checkable
class MayBeUnattended(Protocol):
    """There may be nobody who could answer a question (a pipe, a client that only reads the answer)."""

    def attended(self, address: ChatAddress, reply_to: str) -> bool:
        """Whether whoever sent the message `reply_to` can press a button there. Never blocks, never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePart:
    """A piece of a running turn, for platforms that stream by parts rather than by edits."""

    kind: str
    """`text` (an increment of the answer), `reset` (what was streamed is void: the model was asked
    again), `tool` (a tool's start or end, one line), `status` (one line)."""
    text: str


@runtime_checkable
class CanStream(Protocol):
    """The platform takes increments of an answer as they are made (terminal, HTTP)."""

    def live(self, address: ChatAddress, reply_to: str, part: LivePart) -> None:
        """A part of the turn that answers the message `reply_to`.

        Never blocks and never raises; may drop parts for a slow reader. The final delivery still comes.
        """
        ...


@runtime_checkable
class HearsFates(Protocol):
    """The adapter has somebody waiting for the end of an event (HTTP, terminal)."""

    def settled(self, address: ChatAddress, message_id: str, fate: str, detail: str) -> None:
        """The event has ended with `fate`. Called after the commit; never blocks and never raises."""
        ...


Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route that the gateway's HTTP server serves for an adapter. `public`: on the webhook listener."""

    method: str
    path: str
    handler: Handler
    public: bool = False


@runtime_checkable
class HasRoutes(Protocol):
    """The adapter is reached over the gateway's HTTP server."""

    def routes(self) -> Sequence[Route]:
        """The route table; asked for once, before the server starts."""
        ...


@runtime_checkable
class HearsClosing(Protocol):
    """The adapter has requests that wait, and must end them before the HTTP server can close."""

    def closing(self) -> None:
        """The server closes now: tell whoever waits. Called once; never blocks and never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterServices:
    """What the composition root hands to the factory of an adapter (`make(settings, services)`).

    `files` is `home/files` (a platform has a folder of its own in it); `models` gives the configured model
    names; `commands` are the slash commands
    (name and help), for the platform's own menu.
    """

    conversations: Conversations
    models: Callable[[], Sequence[str]]
    files: Path
    cursors: Cursors
    moves: Moves
    commands: tuple[tuple[str, str], ...] = ()
    attachment_bytes: int = 20_000_000
    """The largest file that is fetched; what is larger is told, and its caption still counts."""
