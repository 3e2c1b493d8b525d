"""What a message of Telegram holds besides its text: files that can be fetched, and facts in a line each.

The SDK's durations are not read: it warns of their coming change of type.
"""

from __future__ import annotations

from collections.abc import Iterator

from telegram import Message, MessageOriginChannel, MessageOriginChat, MessageOriginHiddenUser, MessageOriginUser, User

from adapters.events import Attachment, AttachmentKind
from adapters.fetch import too_large

NAME = 256
"""Characters of a name of people or chats that are kept; the gateway neutralises them."""
OPTIONS = 12


def attachments_of(message: Message, limit: int) -> tuple[Attachment, ...]:
    """The files of a message, unfetched. What is larger than `limit` bytes has a note at once."""
    return tuple(_within(one, limit) for one in _files(message))


def _within(one: Attachment, limit: int) -> Attachment:
    if one.size is None or one.size <= limit:
        return one
    return Attachment(
        kind=one.kind, name=one.name, mime=one.mime, size=one.size, ref=one.ref, note=too_large(limit)
    )  # fmt: skip


def _files(message: Message) -> Iterator[Attachment]:
    if message.photo:  # the same picture in several sizes
        best = max(message.photo, key=lambda one: (one.width * one.height, one.file_size or 0))
        yield _file("image", best.file_id, best.file_size, "photo.jpg", "image/jpeg")
    if (voice := message.voice) is not None:
        yield _file("voice", voice.file_id, voice.file_size, "voice.ogg", voice.mime_type or "audio/ogg")
    if (audio := message.audio) is not None:
        yield _file(
            "audio", audio.file_id, audio.file_size, audio.file_name or "audio.mp3", audio.mime_type or "audio/mpeg"
        )
    if (video := message.video) is not None:
        yield _file(
            "video", video.file_id, video.file_size, video.file_name or "video.mp4", video.mime_type or "video/mp4"
        )
    if (note := message.video_note) is not None:
        yield _file("video", note.file_id, note.file_size, "video-note.mp4", "video/mp4")
    if (sticker := message.sticker) is not None:
        suffix, mime = ("tgs", "application/x-tgsticker") if sticker.is_animated else ("webp", "image/webp")
        if sticker.is_video:
            suffix, mime = "webm", "video/webm"
        yield _file("sticker", sticker.file_id, sticker.file_size, f"sticker.{suffix}", mime)
    if (moving := message.animation) is not None:  # told as a document too, for old clients
        yield _file(
            "video",
            moving.file_id,
            moving.file_size,
            moving.file_name or "animation.mp4",
            moving.mime_type or "video/mp4",
        )
    elif (document := message.document) is not None:
        mime = document.mime_type or "application/octet-stream"
        kind: AttachmentKind = "image" if mime in ("image/png", "image/jpeg", "image/webp", "image/gif") else "document"
        yield _file(kind, document.file_id, document.file_size, document.file_name or "file", mime)


def _file(kind: AttachmentKind, ref: str, size: int | None, name: str, mime: str) -> Attachment:
    return Attachment(kind=kind, name=name, mime=mime, size=size or None, ref=ref)


def facts_of(message: Message) -> tuple[str, ...]:
    """What is neither text nor file, a short line each, in people's words."""
    return tuple(_facts(message))


def _facts(message: Message) -> Iterator[str]:
    if (venue := message.venue) is not None:
        yield f"a place: {venue.title}, {venue.address} ({venue.location.latitude:.6f}, {venue.location.longitude:.6f})"
    elif (place := message.location) is not None:
        live = " (live)" if message.to_dict().get("location", {}).get("live_period") else ""
        yield f"a location{live}: {place.latitude:.6f}, {place.longitude:.6f}"
    if (contact := message.contact) is not None:
        name = " ".join(part for part in (contact.first_name, contact.last_name) if part)
        yield f"a contact: {name}, {contact.phone_number}"
    if (poll := message.poll) is not None:
        options = "; ".join(option.text for option in poll.options[:OPTIONS])
        yield f"a poll: {poll.question} ({options})"
    if (tasks := message.checklist) is not None:
        lines = "; ".join(task.text for task in tasks.tasks[:OPTIONS])
        yield f"a list of tasks: {tasks.title} ({lines})"
    if (dice := message.dice) is not None:
        yield f"a dice {dice.emoji} that shows {dice.value}"
    if message.sticker is not None:
        yield f"a sticker {message.sticker.emoji or ''}".strip()
    if message.game is not None:
        yield f"a game: {message.game.title}"
    if message.story is not None:
        yield "a story was forwarded; I cannot see it"
    if message.paid_media is not None:
        yield "paid media; I cannot see them"
    if message.invoice is not None:
        yield f"an invoice: {message.invoice.title}"


def origin_of(message: Message) -> str | None:
    """Whose words a forwarded message are."""
    match message.forward_origin:
        case None:
            return None
        case MessageOriginUser(sender_user=user):
            return f"{name_of(user)} (id {user.id})"
        case MessageOriginHiddenUser(sender_user_name=name):
            return f"{name[:NAME]} (an account that hides its id)"
        case MessageOriginChat(sender_chat=chat):
            return f"the chat {(chat.title or '')[:NAME]} (id {chat.id})"
        case MessageOriginChannel(chat=chat):
            return f"the channel {(chat.title or '')[:NAME]} (id {chat.id})"
        case other:
            return f"somebody ({other.type})"


def name_of(user: User) -> str:
    """What Telegram displays for a person; it proves nothing."""
    return (user.full_name or user.username or str(user.id))[:NAME]
