"""The chat vocabulary: frozen values that cross the border between a platform and the gateway.

Ids are the platform's own, as text, and opaque to everybody but the adapter that made them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

ChatKind = Literal["private", "group", "channel", "thread"]
AttachmentKind = Literal["image", "audio", "voice", "video", "document", "sticker"]


class EventKind(StrEnum):
    """What kind of thing a platform told us."""

    MESSAGE = "message"
    EDIT = "edit"
    DELETE = "delete"
    ACTION = "action"
    COMMAND = "command"
    REACTION = "reaction"
    """Somebody reacted to a message; `facts` says with what, `reply_to` to which."""
    MEMBERSHIP = "membership"
    """Somebody (or we) joined or left; `facts` says so in words."""
    INTERNAL = "internal"
    """The gateway's own (a session has been handed off to this place). Never from an adapter."""


class DeliveryKind(StrEnum):
    """Why something is said. The order of the arbiter's priorities follows from it."""

    FINAL = "final"
    APPROVAL = "approval"
    NOTICE = "notice"
    INTERIM = "interim"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAddress:
    """Where something was said or is to be said.

    `account` is the bot's own identity there, `scope` the guild or workspace. `chat_kind` describes
    the chat but is no part of its identity (a platform may turn a group into a channel).
    """

    platform: str
    account: str
    chat_id: str
    scope: str | None = None
    thread_id: str | None = None
    chat_kind: ChatKind = field(default="private", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who said it. `id` is stable; `name` is what the platform displays and proves nothing."""

    id: str
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with an event or goes out with a delivery.

    `path` is a local file below `home/files` (None: it was not fetched, and `note` says why).
    `size` is in bytes, `sha256` is of the stored bytes.
    """

    kind: AttachmentKind
    name: str
    mime: str
    size: int | None = None
    path: str | None = None
    sha256: str | None = None
    note: str | None = None
    shelf: str | None = None
    """Where a copy of it lies below the working folder of the tools; set by the gateway."""
    ref: str | None = None
    """The platform's own handle of a file that is not fetched yet; only the adapter reads it (`CanFetch`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTo:
    """The message that was replied to. `text` is the quoted part where one was selected, `author` the name of who
    wrote it where that is known (it proves nothing)."""

    message_id: str
    text: str = ""
    is_ours: bool = False
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A button press: `button_id` is the durable id that we gave the button, `value` the choice."""

    button_id: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItem:
    """An earlier message that a stateless client keeps itself and sends along (OpenAI-style fronts)."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """One thing that a platform told us. `dedup_id` is its durable identity within (platform, account).

    `message_id` is the platform's message that it is or refers to; for an edit or a deletion the id
    of the original. For COMMAND `text` is the whole line, beginning with `/`. `platform_data` is an
    opaque JSON text that only the adapter reads. `sent_at` and `received_at` are UTC.
    """

    dedup_id: str
    kind: EventKind
    message_id: str
    address: ChatAddress
    sender: Sender
    received_at: datetime
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    forwarded_from: str | None = None
    chat_name: str | None = None
    """What people call the chat or thread, where the platform tells."""
    facts: tuple[str, ...] = ()
    """What came with it that is neither text nor file (a location, a contact, a reaction), a line each.
    The words of a platform's user: the gateway neutralises them."""
    mentions_us: bool = False
    came: str | None = None
    """How it came where it did not come live ("found in the history after a gap of 3 min"), for `/why`."""
    sent_at: datetime | None = None
    action: Action | None = None
    group_id: str | None = None
    """An id shared by events that are one message (the pictures of an album)."""
    history: tuple[HistoryItem, ...] = ()
    instructions: str | None = None
    """Instructions that a stateless client sends along (its own system message)."""
    model: str | None = None
    """The name of a configured model that the client asks for; None is the default."""
    platform_data: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Markdown:
    """Text in the neutral markdown (CommonMark with tables and strike-through)."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A file to be sent."""

    attachment: Attachment


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One choice. `id` is durable and opaque; the press comes back as an ACTION event."""

    id: str
    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """A row of choices below the text before it."""

    buttons: tuple[Button, ...]


Block = Markdown | Media | Buttons


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One thing to be said in a chat. `edits` names our own message that it replaces."""

    delivery_id: str
    address: ChatAddress
    kind: DeliveryKind
    blocks: tuple[Block, ...]
    created_at: datetime
    reply_to: str | None = None
    edits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedChunk:
    """One platform message, ready to be sent: made once, stored, never rendered again.

    `payload` is a JSON text that only the adapter's `send` reads; `plain` is the same content as
    plain text, within the same limits, used when the platform refuses the markup. An empty `payload`
    asks the adapter to send (or edit to) `plain` without any markup.
    """

    payload: str
    plain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The platform took it. `message_ids` are the platform's own."""

    message_ids: tuple[str, ...]
    sent_at: datetime
