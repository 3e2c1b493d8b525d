"""The state of a small Discord: simcord's in-memory backend on the wall clock, with what it leaves out.

`World` is simcord's `Backend`, changed where it differs from what is documented of Discord: ids and times are those of
now (discord.py reads the age of an interaction from its id), attachments have addresses that this process serves and
that expire, system messages carry no text of their own, a message's thread has the message's id and starts with a
message of type 21, and what was written before an edit is kept for the tests.
"""

from __future__ import annotations

import mimetypes
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import discord
from simcord._clock import Clock
from simcord.backend import Backend, serializers
from simcord.backend.cdn import CdnStore
from simcord.backend.errors import BackendError
from simcord.backend.models import Channel, Message, Overwrite
from simcord.enums import MessageType, OverwriteType

HAS_THREAD = 1 << 5
VOICE_MESSAGE = 1 << 13

BOT_PERMISSIONS = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    create_public_threads=True,
    read_message_history=True,
    add_reactions=True,
    embed_links=True,
    attach_files=True,
    external_emojis=True,
    use_application_commands=True,
    change_nickname=True,
)
"""What a modest bot is invited with. Nothing that manages."""

_WORDLESS = frozenset({MessageType.PINS_ADD, MessageType.NEW_MEMBER, MessageType.THREAD_STARTER_MESSAGE})
_SPOKEN = frozenset({0, 19, 20, 23})
"""Types of messages that can be answered."""

Ref = int | str | Mapping[str, Any]
"""An id, or the raw dict of the thing."""
Raw = dict[str, Any]
File = tuple[str, str, bytes]
"""Name, MIME type, bytes."""


def to_id(ref: Ref) -> int:
    """The id of what `ref` names."""
    return int(ref["id"]) if isinstance(ref, Mapping) else int(ref)


class WallClock(Clock):
    """The time of now, moved ahead by what `advance` has added."""

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC) + timedelta(seconds=self.elapsed)


class Cdn(CdnStore):
    """Attachments served by this process. Addresses are signed; `generation` is raised when they expire."""

    def __init__(self) -> None:
        super().__init__()
        self.origin = ""
        self.generation = 1
        self.files: dict[str, tuple[bytes, str]] = {}

    def store_attachment(
        self, attachment_id: int, channel_id: int, filename: str, data: bytes, description: str | None
    ) -> dict[str, Any]:
        """Keep the bytes; the attachment as Discord tells of it."""
        name = filename.replace(" ", "_")
        path = f"/attachments/{channel_id}/{attachment_id}/{name}"
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self.files[path] = (data, mime)
        return {
            "id": str(attachment_id),
            "filename": name,
            "size": len(data),
            "url": self.sign(path),
            "proxy_url": self.sign(path),
            "content_type": mime,
            **({"description": description} if description else {}),
        }

    def sign(self, path: str) -> str:
        """The address of a stored file, good until the next `generation`."""
        return f"{self.origin}{quote(path)}?ex=6{self.generation:07x}&is=60000000&hm={self.generation:064x}&"

    def read(self, path: str, signature: str) -> tuple[bytes, str] | None:
        """The bytes and the type, or None where the address has expired or never was."""
        return self.files.get(path) if signature == f"{self.generation:064x}" else None


@dataclass(frozen=True, slots=True)
class Edit:
    """What a message was before an edit."""

    content: str
    components: list[dict[str, Any]]


class World(Backend):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(clock=WallClock())
        self.cdn: Cdn = Cdn()
        self.bot_user.name = "tidings"
        self.application_id = self.bot_user.id
        self.nonces: dict[int, str] = {}
        """Nonces by message."""
        self.edits: dict[int, list[Edit]] = defaultdict(list)
        self.pending_nonce: str | None = None
        """The nonce of the message that is being sent by the bot right now."""
        self._starter: int | None = None

    # what simcord does otherwise

    def emit(self, event: str, payload: Mapping[str, Any]) -> None:
        """Announce an event, completed by what simcord leaves out."""
        whole = dict(payload)
        if event in {"MESSAGE_CREATE", "MESSAGE_UPDATE"}:
            whole = self.finish(whole)
            if event == "MESSAGE_CREATE" and self.pending_nonce is not None:
                whole["nonce"] = self.pending_nonce
            if "guild_id" in whole:
                guild = self.guilds[int(whole["guild_id"])]
                for user in whole["mentions"]:
                    if member := guild.members.get(int(user["id"])):
                        user["member"] = serializers.member_payload(self, guild, member, with_user=False)
        elif event == "GUILD_CREATE":
            whole["threads"] = [t for t in whole["threads"] if not t["thread_metadata"]["archived"]]
        super().emit(event, complete(whole))

    def prepare_message(self, *args: Any, **kwargs: Any) -> Message:
        """As simcord does; text is trimmed, and a message of the service has none of its own."""
        message = super().prepare_message(*args, **kwargs)
        message.content = "" if message.type in _WORDLESS else message.content.strip()
        return message

    def edit_message(self, channel_id: int, message_id: int, fields: dict[str, Any]) -> Message:
        """As simcord does; keeps what was there before, and trims the text."""
        if fields.get("content"):
            fields = {**fields, "content": fields["content"].strip()}
        message = self.get_message(channel_id, message_id)
        before = Edit(message.content, list(message.components))
        message = super().edit_message(channel_id, message_id, fields)
        self.edits[message_id].append(before)
        return message

    def create_forum_post(self, forum_id: int, name: str, starter: Message, **kwargs: Any) -> tuple[Channel, Message]:
        """As simcord does; the post has the id of its first message."""
        self._starter = starter.id
        try:
            return super().create_forum_post(forum_id, name, starter, **kwargs)
        finally:
            self._starter = None

    def create_thread(
        self, parent_id: int, name: str, owner_id: int, *, message_id: int | None = None, **kwargs: Any
    ) -> Channel:
        """As simcord does."""
        return super().create_thread(parent_id, name, owner_id, message_id=message_id or self._starter, **kwargs)

    def finish(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A raw message with the thread it has, and null for an answered message that is gone."""
        if payload["type"] == MessageType.REPLY and "message_reference" in payload:
            payload.setdefault("referenced_message", None)
        thread = self.channels.get(int(payload["id"]))
        if thread is not None and thread.parent_id == int(payload["channel_id"]):
            payload["thread"] = dict(serializers.thread_payload(self, thread))
        return payload

    # what simcord does not have

    def raw(self, message: Message, *, for_user: int | None = None) -> dict[str, Any]:
        """The message as it goes over the wire."""
        whole: Raw = complete(self.finish(dict(serializers.message_payload(self, message, for_user=for_user))))
        return whole

    def find(self, message_id: int) -> Message:
        """The message, wherever it is."""
        for messages in self.messages.values():
            if message_id in messages:
                return messages[message_id]
        raise LookupError(f"no message {message_id}")

    def store_file(self, channel_id: int, file: File, *, voice: bool = False) -> Raw:
        """Keep a file of a person; the attachment."""
        name, mime, data = file
        stored = self.cdn.store_attachment(self.snowflake(), channel_id, name, data, None)
        stored["content_type"] = mime
        self.cdn.files[f"/attachments/{channel_id}/{stored['id']}/{stored['filename']}"] = (data, mime)
        return stored | ({"duration_secs": 1.5, "waveform": "AAAA"} if voice else {})

    def branch(self, message: Message, name: str, owner: int, archive_after: int = 1440) -> Channel:
        """A thread on `message`: it has the message's id, and its first message is one of type 21."""
        if message.id in self.channels:
            raise BackendError(400, 160004, "A thread has already been created for this message")
        thread = self.create_thread(
            message.channel_id,
            name,
            owner,
            message_id=message.id,
            auto_archive_duration=archive_after,
            broadcast=False,
        )
        message.flags |= HAS_THREAD
        self.announce_thread_create(thread)
        self.emit("MESSAGE_UPDATE", dict(serializers.message_payload(self, message)))
        starter = Message(
            id=self.snowflake(),
            channel_id=thread.id,
            author_id=owner,
            timestamp=self.now_iso(),
            type=MessageType.THREAD_STARTER_MESSAGE,
            reference={"channel_id": str(message.channel_id), "message_id": str(message.id)},
        )
        if message.author_id != owner:
            starter.author_id = message.author_id
        self.commit_message(starter)
        return thread

    def wake(self, channel: Channel) -> None:
        """What a new message does to an archived thread: it is archived no more."""
        if channel.thread_metadata is not None and channel.thread_metadata.archived:
            channel.thread_metadata.archived = False
            self.announce_channel_update(channel.id)

    def may(self, channel: Channel, name: str) -> bool:
        """Whether the bot holds a permission there. In direct messages it holds all."""
        if channel.guild_id is None:
            return True
        held = self.compute_permissions(channel.guild_id, self.bot_user.id, channel.id)
        return bool(held & getattr(discord.Permissions, name).flag)

    def set_overwrite_of_bot(self, channel_id: int, changes: Mapping[str, bool]) -> None:
        """Allow and deny the bot permissions in one channel."""
        mine = [o for o in self.get_channel(channel_id).overwrites if o.target_id == self.bot_user.id]
        overwrite = mine[0] if mine else Overwrite(self.bot_user.id, OverwriteType.MEMBER)
        for name, allowed in changes.items():
            flag: int = getattr(discord.Permissions, name).flag
            overwrite.allow = (overwrite.allow | flag) if allowed else (overwrite.allow & ~flag)
            overwrite.deny = (overwrite.deny & ~flag) if allowed else (overwrite.deny | flag)
        self.set_overwrite(channel_id, overwrite)

    def expire_links(self) -> None:
        """Let every address of an attachment that was told so far expire; fetching the message tells a new one."""
        self.cdn.generation += 1
        for messages in self.messages.values():
            for message in messages.values():
                for attachment in message.attachments:
                    path = f"/attachments/{message.channel_id}/{attachment['id']}/{attachment['filename']}"
                    attachment["url"] = attachment["proxy_url"] = self.cdn.sign(path)


def complete(payload: Any) -> Any:
    """A payload with the fields that Discord's description demands and simcord leaves out, at every depth."""
    if isinstance(payload, list):
        return [complete(item) for item in payload]
    if not isinstance(payload, Mapping):
        return payload
    whole = {key: complete(value) for key, value in payload.items()}
    if whole.get("nonce", "") is None:
        del whole["nonce"]
    if "username" in whole and "discriminator" in whole:
        whole.setdefault("primary_guild", None)
    elif "last_message_id" in whole:
        whole.setdefault("flags", 0)
    return whole


def can_be_answered(message: Message) -> bool:
    """Whether Discord lets a reply point at it: not at messages of the service."""
    return int(message.type) in _SPOKEN
