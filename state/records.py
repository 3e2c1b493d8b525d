"""What the store keeps, as frozen values. States are enums with a sentence a member (docs/states.md)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from state.ids import (
    ApprovalId,
    ChunkId,
    DeliveryId,
    EventId,
    HandoffId,
    Owner,
    RowId,
    SessionId,
    SessionKey,
    TurnId,
)

Role = Literal["user", "assistant", "tool"]


class Fate(StrEnum):
    """How an accepted event stands. WAITING and RUNNING are open, all others are final."""

    WAITING = "waiting"  #: committed, not yet looked at or queued behind its session
    RUNNING = "running"  #: a turn works on it
    ANSWERED = "answered"  #: the final answer of its turn is committed
    MERGED = "merged"  #: it became part of another event's turn
    STEERED = "steered"  #: it joined a running turn
    COMMAND = "command"  #: it was a command or a button press, and was carried out
    SUPERSEDED = "superseded"  #: an edit took its place
    CANCELLED = "cancelled"  #: deleted by its author, or ended by /stop
    SILENT = "silent"  #: by rule not answered (not addressed, a bot, unchanged); the detail says which
    REFUSED = "refused"  #: not allowed; the detail says why
    FAILED = "failed"  #: it could not be answered, and the person was told

    @property
    def is_open(self) -> bool:
        """True while something has still to happen."""
        return self in (Fate.WAITING, Fate.RUNNING)


class BindingState(StrEnum):
    """How a session key is bound."""

    PENDING = "pending"  #: somebody is making the session; nobody else may
    ACTIVE = "active"  #: bound to `session_id`
    CLOSED = "closed"  #: the session has moved away (`moved_to`)


class TurnState(StrEnum):
    """How a turn stands. RUNNING is the only open state."""

    RUNNING = "running"  #: under a lease, or waiting to be resumed after a crash
    ANSWERED = "answered"  #: the final answer is committed
    INTERRUPTED = "interrupted"  #: ended by /stop, a deletion, an edit or an interrupting message
    FAILED = "failed"  #: ended by an error that was told


class ToolStatus(StrEnum):
    """How a tool call stands. DONE, FAILED and UNKNOWN are final."""

    PLANNED = "planned"  #: asked for by the model, not begun
    STARTED = "started"  #: begun; after a crash it becomes UNKNOWN
    DONE = "done"  #: the result is stored
    FAILED = "failed"  #: it ended with an error, which is its result; also refused and interrupted calls
    UNKNOWN = "unknown"  #: the process died while it ran; never run again by itself


class DeliveryState(StrEnum):
    """How a delivery stands. READY and DRAFT are open."""

    DRAFT = "draft"  #: a streamed draft that has a message but no final content yet
    READY = "ready"  #: committed, to be sent (in part or whole)
    SENT = "sent"  #: every chunk has arrived
    FAILED = "failed"  #: refused for good; shown to the operator
    PARKED = "parked"  #: its chat is gone or its platform refuses us; kept and shown
    DROPPED = "dropped"  #: cosmetic, and not needed any more


class ChunkState(StrEnum):
    """How one platform message stands. SENT, FAILED and DROPPED are final."""

    READY = "ready"  #: not sent, or surely not arrived
    SENDING = "sending"  #: being sent; after a crash its outcome is unknown
    UNKNOWN = "unknown"  #: it may have arrived: look it up, or send it once more, marked
    SENT = "sent"  #: arrived; never sent again
    FAILED = "failed"  #: refused for good
    DROPPED = "dropped"  #: not needed any more


class ApprovalState(StrEnum):
    """How a question to a person stands. PENDING is the only open state."""

    PENDING = "pending"  #: waiting for the press
    APPROVED = "approved"  #: allowed (or answered, for a clarify question); good for one run
    DENIED = "denied"  #: refused
    EXPIRED = "expired"  #: nobody answered in time
    USED = "used"  #: the one run has been made
    CANCELLED = "cancelled"  #: its turn ended before an answer came


class HandoffState(StrEnum):
    """How a hand-off stands."""

    PENDING = "pending"  #: asked for, not claimed
    RUNNING = "running"  #: claimed by a process
    DONE = "done"  #: the session has moved
    FAILED = "failed"  #: it has not moved; the reason says why


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An inbound event to be accepted. `payload` is the whole event as JSON (gateway/convert.py)."""

    dedup_id: str
    platform: str
    account: str
    kind: str
    key: SessionKey
    message_id: str
    sender_id: str
    payload: str
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEvent:
    """A row of the inbox. `id` is the order of acceptance."""

    id: EventId
    dedup_id: str
    platform: str
    account: str
    kind: str
    key: SessionKey
    message_id: str
    sender_id: str
    payload: str
    received_at: datetime
    fate: Fate
    detail: str
    turn_id: TurnId | None
    owner: Owner | None
    attempts: int
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRow:
    """The result of accepting: `is_new` is false where the event was known."""

    event_id: EventId
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBinding:
    """Which session a key leads to. `version` is for compare-and-set."""

    key: SessionKey
    session_id: SessionId | None
    state: BindingState
    claim_owner: Owner | None
    address_json: str
    moved_to: str | None
    settings_json: str
    """Settings of this chat (busy mode and so on), a JSON object."""
    version: int
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation. `prompt` is the frozen system prompt as JSON text, None until the first turn.

    A child (`parent_id`) begins with the parent's rows after `parent_from` up to `parent_upto`
    (both inclusive row ids, None = open), which are referred to and not copied.
    """

    id: SessionId
    person: str
    title: str | None
    model: str | None
    prompt: str | None
    prompt_reason: str | None
    parent_id: SessionId | None
    parent_from: RowId | None
    parent_upto: RowId | None
    reason: str
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLease:
    """The right to run a turn. `fence` grows with every lease on the session and guards every write.

    `expires_at` is in seconds of this machine's boot clock.
    """

    session_id: SessionId
    turn_id: TurnId
    owner: Owner
    fence: int
    acquired_at: float
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One run of the agent loop."""

    id: TurnId
    session_id: SessionId
    key: SessionKey
    state: TurnState
    fence: int
    attempts: int
    detail: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asked for. `arguments` is the model's own JSON text, unchanged."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A transcript row to be written.

    `content` is what people and search see. `wire` is the exact JSON text of the message as it is
    sent to the model (P5); None for a row that is never sent (its tool result is still to come).
    `extract` is the bounded text of tool arguments and results for search.
    """

    role: Role
    content: str
    wire: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_status: ToolStatus | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    platform_message_id: str | None = None
    author: str | None = None
    audience: str | None = None
    extract: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMessage:
    """A transcript row. `id` is the order of insertion and of replay; never the clock.

    `active` is false for rows taken out of the context (/undo, /retry, a superseded attempt).
    """

    id: RowId
    session_id: SessionId
    turn_id: TurnId
    fence: int
    role: Role
    content: str
    wire: str | None
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    tool_name: str | None
    tool_status: ToolStatus | None
    reasoning: str | None
    finish_reason: str | None
    platform_message_id: str | None
    author: str | None
    audience: str | None
    active: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """One rendered platform message of a delivery."""

    payload: str
    plain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """Something to be said. `address_json` is the address (gateway/convert.py); `chat` is the arbiter's
    queue ("platform|account|chat" built by gateway/keys.py); `blocks` the neutral blocks as JSON, kept
    so that `/why` and `/retry` can show it. `adopts` names an open draft whose message it replaces."""

    id: DeliveryId
    platform: str
    account: str
    chat: str
    address_json: str
    kind: str
    blocks: str
    chunks: tuple[NewChunk, ...]
    reply_to: str | None = None
    edits: str | None = None
    adopts: DeliveryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk as stored. `id` is its idempotency key. `tries` counts sends whose outcome was unknown."""

    id: ChunkId
    delivery_id: DeliveryId
    number: int
    payload: str
    plain: str
    state: ChunkState
    edits: str | None
    """Our own platform message that this chunk replaces, where there is one."""
    message_ids: tuple[str, ...]
    tries: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDelivery:
    """A delivery with its chunks in order."""

    id: DeliveryId
    seq: int
    """The order of insertion."""
    platform: str
    account: str
    chat: str
    address_json: str
    kind: str
    state: DeliveryState
    session_id: SessionId | None
    turn_id: TurnId | None
    reply_to: str | None
    blocks: str
    chunks: tuple[Chunk, ...]
    created_at: datetime
    not_before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A durable question to a person. `kind` is `approval` (owners only) or `clarify` (`asked` only).

    `question` is the JSON that the gateway shows (command, options); `answer` the choice.
    """

    id: ApprovalId
    kind: Literal["approval", "clarify"]
    session_id: SessionId
    turn_id: TurnId
    call_id: str
    asked: str
    question: str
    state: ApprovalState
    answer: str | None
    answered_by: str | None
    boot_id: str
    expires_at: float
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A hand-off row. `token` proves the claim; `thread_id` is the thread made for it."""

    id: HandoffId
    session_id: SessionId
    source_key: SessionKey
    target: str
    asked_by: str
    state: HandoffState
    token: str | None
    owner: Owner | None
    thread_id: str | None
    reason: str | None
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUsage:
    """The figures of one model call, as the provider gave them (0 where it gave none)."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    request_bytes: int = 0
    prefix_bytes: int = 0
    """Bytes of the request that equal the previous request of the session."""
    break_reason: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """Sums of a session or of all."""

    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    request_bytes: int
    prefix_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A row that matches. `lineage` is the root session of its line."""

    session_id: SessionId
    lineage: SessionId
    row_id: RowId
    role: str
    title: str | None
    snippet: str
    score: float
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """A model call whose request did not begin with the whole one before: how much of it did, and why not all."""

    model: str
    prefix_bytes: int
    request_bytes: int
    cached_tokens: int
    reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A row as it is searched: what was said whole, of tools their names and extracts."""

    row_id: RowId
    role: str
    author: str | None
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProcess:
    """A process group that a tool started: reaped before a resume. `started` is its start time in
    clock ticks since boot, which tells a recycled pid from the old process."""

    pgid: int
    started: int
    boot_id: str
    turn_id: TurnId
    call_id: str
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A platform's `retry_after`, kept over restarts. `chat` is the arbiter's queue, or the account's."""

    chat: str
    until: datetime
    reason: str
