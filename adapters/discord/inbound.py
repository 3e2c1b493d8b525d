"""Discord's messages as events. Pure: what was received goes in, a `MessageEvent` or None comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adapters.discord.directory import CAN_HAVE_THREADS, FORUM, MEDIA, Directory, Place, dicts
from adapters.discord.readable import means_us, moment_of, plain_name, readable, user_name
from adapters.events import (
    Attachment,
    AttachmentKind,
    ChatAddress,
    EventKind,
    MessageEvent,
    ReplyTo,
    Sender,
)
from adapters.fetch import too_large

PLATFORM = "discord"

DEFAULT, JOIN, REPLY, SLASH, CONTEXT, STARTER = 0, 7, 19, 20, 23, 21
SPOKEN = frozenset({DEFAULT, REPLY, SLASH, CONTEXT})
"""Types of messages that somebody has said. Source: https://discord.com/developers/docs/resources/message."""
FORWARD = 1
VOICE_FLAG = 1 << 13
EPHEMERAL_FLAG = 1 << 6
QUOTE = 4000
LATE = 60.0
"""Seconds after which a message did not come live any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is needed beside the message itself. `threadless` are channels in which we cannot make threads."""

    directory: Directory
    auto_thread: bool
    attachment_bytes: int
    threadless: frozenset[str] | set[str] = frozenset()


def type_of(data: Mapping[str, Any]) -> int:
    """The type of a message; one that is not understood is none of ours."""
    kind = data.get("type", DEFAULT)
    return kind if isinstance(kind, int) else -1


def author_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The author of a message; empty where there is none."""
    author = data.get("author")
    return author if isinstance(author, dict) else {}


def sender_of(data: Mapping[str, Any]) -> Sender | None:
    """Who said a message. A webhook is a bot whose id is the webhook's."""
    author = author_of(data)
    webhook = data.get("webhook_id")
    sender_id = webhook if isinstance(webhook, str) else author.get("id")
    if not isinstance(sender_id, str) or not sender_id:
        return None
    is_bot = isinstance(webhook, str) or bool(author.get("bot")) or bool(author.get("system"))
    return Sender(id=sender_id, name=user_name(author, data.get("member")), is_bot=is_bot)


def address_of(place: Place, us: str, thread_id: str | None = None) -> ChatAddress:
    """Where something was said. `thread_id` names a thread that is still to be made."""
    if place.guild_id is None:
        return ChatAddress(platform=PLATFORM, account=us, chat_id=place.id, chat_kind="private")
    chat, thread = place.id, thread_id
    if place.is_thread and place.parent_id is not None:
        chat, thread = place.parent_id, place.id
    return ChatAddress(
        platform=PLATFORM,
        account=us,
        scope=place.guild_id,
        chat_id=chat,
        thread_id=thread,
        chat_kind="group" if thread is None else "thread",
    )


def is_starter_twin(data: Mapping[str, Any], place: Place, directory: Directory) -> bool:
    """Whether a message in a thread is the copy of the message that the thread was made from.

    Discord gives it the type 21, or the thread's own id; a forum's first message has that id and is no copy.
    """
    if data.get("type") == STARTER:
        return True
    if not place.is_thread:
        return False
    parent = directory.place(place.parent_id or "")
    if data.get("id") == place.id:
        return parent is None or parent.type not in (FORUM, MEDIA)
    reference = data.get("message_reference")
    if not isinstance(reference, dict) or reference.get("type", 0) == FORWARD:
        return False
    return reference.get("channel_id") == place.parent_id and reference.get("message_id") == place.id


def is_forward(data: Mapping[str, Any]) -> bool:
    """Whether the message passes on another's words."""
    reference = data.get("message_reference")
    return isinstance(reference, dict) and reference.get("type") == FORWARD and bool(_snapshot(data))


def message_event(
    data: Mapping[str, Any], place: Place, reading: Reading, now: datetime, *, came: str | None = None
) -> MessageEvent | None:
    """The event of a message, or None where nobody has said anything to anybody (pins, boosts, copies)."""
    directory, sender, message_id = reading.directory, sender_of(data), data.get("id")
    kind = type_of(data)
    if sender is None or not isinstance(message_id, str) or sender.id == directory.us:
        return None
    if author_of(data).get("id") == directory.us or _flags(data) & EPHEMERAL_FLAG:
        return None
    if kind == JOIN:
        return _joined(data, place, sender, message_id, directory.us, now)
    if kind not in SPOKEN or is_starter_twin(data, place, directory):
        return None
    reply = _reply(data, place, directory)
    for_us = means_us(data, place.guild_id, directory) or (reply is not None and reply.is_ours)
    text = _text(data, place, directory)
    sent = moment_of(message_id)
    thread = thread_for(message_id, text, place, reading, addressed=for_us)
    if came is None and sent is not None and (now - sent).total_seconds() > LATE:
        came = f"came {_minutes((now - sent).total_seconds())} late"
    return MessageEvent(
        dedup_id=message_id,
        kind=EventKind.MESSAGE,
        message_id=message_id,
        address=address_of(place, directory.us, thread),
        sender=sender,
        received_at=now,
        sent_at=sent,
        text=text,
        attachments=_files(data, place.id, message_id, reading.attachment_bytes),
        reply_to=reply,
        forwarded_from=_origin(data, directory) if is_forward(data) else None,
        chat_name=plain_name(place.name) or None,
        facts=_facts(data),
        mentions_us=for_us or (place.is_thread and place.owner_id == directory.us),
        came=came,
    )


def thread_for(message_id: str, text: str, place: Place, reading: Reading, *, addressed: bool) -> str | None:
    """The id of the thread in which a message of a channel is answered: Discord gives a thread that is made
    from a message the id of the message. None where it is answered in the channel."""
    if not reading.auto_thread or not addressed or place.type not in CAN_HAVE_THREADS or place.guild_id is None:
        return None
    if place.id in reading.threadless or text.startswith("/"):
        return None
    return message_id


def edit_event(
    data: Mapping[str, Any], address: ChatAddress, place: Place, reading: Reading, now: datetime
) -> MessageEvent | None:
    """The event of an edit, or None where no words were changed (a preview of a link, a pin)."""
    directory, sender, message_id = reading.directory, sender_of(data), data.get("id")
    edited = data.get("edited_timestamp")
    if sender is None or not isinstance(message_id, str) or not isinstance(edited, str):
        return None
    if author_of(data).get("id") == directory.us or not isinstance(data.get("content"), str):
        return None
    if type_of(data) not in SPOKEN or is_starter_twin(data, place, directory):
        return None
    return MessageEvent(
        dedup_id=f"{message_id}:edit:{edited}",
        kind=EventKind.EDIT,
        message_id=message_id,
        address=address,
        sender=sender,
        received_at=now,
        sent_at=_parsed(edited),
        text=_text(data, place, directory),
        mentions_us=means_us(data, place.guild_id, directory),
        facts=_facts(data),
    )


def deletion_event(message_id: str, address: ChatAddress, sender: Sender, now: datetime) -> MessageEvent:
    """The event of a deletion."""
    return MessageEvent(
        dedup_id=f"{message_id}:delete",
        kind=EventKind.DELETE,
        message_id=message_id,
        address=address,
        sender=sender,
        received_at=now,
    )


def reaction_event(
    data: Mapping[str, Any], address: ChatAddress, name: str | None, text: str, us: str, now: datetime
) -> MessageEvent | None:
    """The event of a reaction that somebody adds. `name` and `text` are what is known of person and message."""
    user, message_id, emoji = data.get("user_id"), data.get("message_id"), data.get("emoji")
    if not isinstance(user, str) or not isinstance(message_id, str) or not isinstance(emoji, dict) or user == us:
        return None
    member = data.get("member") if isinstance(data.get("member"), dict) else None
    account = member.get("user") if member is not None and isinstance(member.get("user"), dict) else None
    shown = user_name(account, member) if account is not None else plain_name(name, user)
    sign = plain_name(emoji.get("name"), "something")
    sign = f":{sign}:" if emoji.get("id") else sign
    return MessageEvent(
        dedup_id=f"r:{message_id}:{user}:{emoji.get('id') or emoji.get('name')}",
        kind=EventKind.REACTION,
        message_id=message_id,
        address=address,
        sender=Sender(id=user, name=shown, is_bot=bool(account and account.get("bot"))),
        received_at=now,
        facts=(f"reacted with {sign}",),
        reply_to=ReplyTo(message_id=message_id, text=text, is_ours=data.get("message_author_id") == us),
    )


def _joined(
    data: Mapping[str, Any], place: Place, sender: Sender, message_id: str, us: str, now: datetime
) -> MessageEvent:
    return MessageEvent(
        dedup_id=message_id,
        kind=EventKind.MEMBERSHIP,
        message_id=message_id,
        address=address_of(place, us),
        sender=sender,
        received_at=now,
        sent_at=moment_of(message_id),
        facts=(f"{sender.name} has joined the server",),
    )


# parts of a message ----------------------------------------------------------------------------------


def _flags(data: Mapping[str, Any]) -> int:
    flags = data.get("flags")
    return flags if isinstance(flags, int) else 0


def _snapshot(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that is passed on, as it was then."""
    message = next((one.get("message") for one in dicts(data.get("message_snapshots"))), None)
    return message if isinstance(message, dict) else {}


def _text(data: Mapping[str, Any], place: Place, directory: Directory) -> str:
    own = readable(data.get("content"), data, place.guild_id, directory, strip_us=True)
    parts = [own]
    if is_forward(data):
        shot = _snapshot(data)
        parts.append(readable(shot.get("content"), shot, place.guild_id, directory))
    sender = sender_of(data)
    if sender is not None and sender.is_bot:
        parts += _embedded(data)
    return "\n\n".join(part for part in parts if part.strip())


def _embedded(data: Mapping[str, Any]) -> list[str]:
    """What a program says in a card. Previews of links are another's words, and are left out."""
    found = []
    for embed in dicts(data.get("embeds")):
        if embed.get("type", "rich") != "rich":
            continue
        fields = [f"{one.get('name')}: {one.get('value')}" for one in dicts(embed.get("fields"))]
        lines = [embed.get("title"), embed.get("description"), *fields]
        found.append("\n".join(line for line in lines if isinstance(line, str) and line))
    return found


def _reply(data: Mapping[str, Any], place: Place, directory: Directory) -> ReplyTo | None:
    reference, original = data.get("message_reference"), data.get("referenced_message")
    if not isinstance(reference, dict) or reference.get("type", 0) == FORWARD or data.get("type") != REPLY:
        return None
    message_id = reference.get("message_id")
    if not isinstance(message_id, str):
        return None
    if not isinstance(original, dict):  # it was deleted
        return ReplyTo(message_id=message_id)
    text = readable(original.get("content"), original, place.guild_id, directory)
    if not text and is_forward(original):
        shot = _snapshot(original)
        text = readable(shot.get("content"), shot, place.guild_id, directory)
    text = text or "; ".join(_facts(original)) or ", ".join(
        f"({one.kind}: {one.name})" for one in _files(original, place.id, message_id, 0)
    )  # fmt: skip
    author = author_of(original)
    return ReplyTo(
        message_id=message_id,
        text=text[:QUOTE],
        is_ours=author.get("id") == directory.us,
        author=user_name(author, None) if author else "",
    )


def _origin(data: Mapping[str, Any], directory: Directory) -> str:
    """Where forwarded words come from. Discord tells the channel and not the author."""
    reference = data.get("message_reference")
    place = directory.place(str(reference.get("channel_id"))) if isinstance(reference, dict) else None
    return f"#{plain_name(place.name)}" if place is not None and plain_name(place.name) else "another channel"


def _facts(data: Mapping[str, Any]) -> tuple[str, ...]:
    source = _snapshot(data) if is_forward(data) else data
    facts = [f'a sticker: "{plain_name(one.get("name"), "?")}"' for one in dicts(source.get("sticker_items"))]
    poll = source.get("poll")
    if isinstance(poll, dict):
        question = poll.get("question")
        words = plain_name(question.get("text"), "?") if isinstance(question, dict) else "?"
        answers = [plain_name(_answer(one), "?") for one in dicts(poll.get("answers"))]
        facts.append(f'a poll: "{words}" with the answers: {" · ".join(answers)}')
    return tuple(facts)


def _answer(one: Mapping[str, Any]) -> object:
    media = one.get("poll_media")
    return media.get("text") if isinstance(media, dict) else None


def _files(data: Mapping[str, Any], channel: str, message_id: str, limit: int) -> tuple[Attachment, ...]:
    source = _snapshot(data) if is_forward(data) else data
    voice = bool(_flags(source) & VOICE_FLAG)
    return tuple(_file(one, channel, message_id, limit, voice=voice) for one in dicts(source.get("attachments")))


def _file(one: Mapping[str, Any], channel: str, message_id: str, limit: int, *, voice: bool) -> Attachment:
    mime = str(one.get("content_type") or "application/octet-stream").partition(";")[0].strip()
    size = one.get("size") if isinstance(one.get("size"), int) else None
    ref = json.dumps({"url": one.get("url"), "channel": channel, "message": message_id, "id": one.get("id")})
    return Attachment(
        kind="voice" if voice else _kind(mime),
        name=plain_name(one.get("filename"), "file"),
        mime=mime,
        size=size,
        ref=ref,
        note=too_large(limit) if size is not None and limit and size > limit else None,
    )


def _kind(mime: str) -> AttachmentKind:
    match mime.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def _parsed(timestamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC)
    except ValueError:
        return None


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
