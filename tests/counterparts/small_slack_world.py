"""What a small Slack holds: people, channels, messages with their threads, files. No sockets here."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
TEAM = "T0TEAM"
BOT_USER = "U0BOT"
BOT_ID = "B0BOT"
APP = "A0APP"


@dataclass(slots=True, eq=False)
class Channel:
    """A conversation. `kind` is im, mpim, channel or group (private)."""

    id: str
    kind: str
    name: str
    members: set[str]
    user: str | None = None
    archived: bool = False
    messages: dict[str, Message] = field(default_factory=dict)
    """By ts, oldest first."""

    @property
    def channel_type(self) -> str:
        """As events name it."""
        return self.kind

    def as_json(self) -> dict[str, Any]:
        """As conversations.info and users.conversations give it."""
        flags = {
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "is_archived": self.archived,
            "is_member": BOT_USER in self.members,
        }
        named = {"user": self.user} if self.kind == "im" else {"name": self.name}
        return {"id": self.id, "created": 1_700_000_000, **flags, **named}


@dataclass(slots=True, eq=False)
class File:
    """A file as Slack keeps it."""

    id: str
    name: str
    mime: str
    data: bytes
    user: str
    shared: bool = False
    deleted: bool = False


class World:
    """Everything there is. Timestamps grow and are near the real time, as Slack's are."""

    def __init__(self) -> None:
        self.people: dict[str, dict[str, Any]] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, File] = {}
        self._numbers = itertools.count(1)
        self._last = 0.0

    def number(self) -> int:
        """A number that was not given before."""
        return next(self._numbers)

    def ts(self) -> str:
        """A timestamp later than every other."""
        self._last = max(self._last + 0.000100, time.time())
        return f"{self._last:.6f}"

    def person(self, name: str, *, is_bot: bool = False) -> str:
        """A member of the workspace; the user id."""
        user = f"U{self.number():04d}"
        self.people[user] = {
            "id": user, "team_id": TEAM, "name": name.lower(), "real_name": name, "is_bot": is_bot, "deleted": False,
            "profile": {"real_name": name, "display_name": name},
        }  # fmt: skip
        return user

    def channel(self, name: str, *members: str, kind: str = "channel") -> Channel:
        """A channel with the bot in it."""
        prefix = "G" if kind in ("group", "mpim") else "C"
        made = Channel(f"{prefix}{self.number():04d}", kind, name, {BOT_USER, *members})
        self.channels[made.id] = made
        return made

    def im(self, user: str) -> Channel:
        """The direct message of a person and the bot."""
        for one in self.channels.values():
            if one.kind == "im" and one.user == user:
                return one
        made = Channel(f"D{self.number():04d}", "im", "", {BOT_USER, user}, user=user)
        self.channels[made.id] = made
        return made

    def add(self, channel: Channel, message: Message) -> Message:
        """Keep a message, and note it at its root."""
        channel.messages[message["ts"]] = message
        root = channel.messages.get(message.get("thread_ts", ""))
        if root is not None and root is not message:
            root["thread_ts"] = root["ts"]
            root["reply_count"] = root.get("reply_count", 0) + 1
            root["latest_reply"] = message["ts"]
            message["parent_user_id"] = root.get("user")
        return message

    def thread(self, channel: Channel, ts: str) -> list[Message]:
        """The root and its replies, oldest first."""
        return [one for one in channel.messages.values() if one["ts"] == ts or one.get("thread_ts") == ts]

    def file(self, name: str, mime: str, data: bytes, user: str) -> File:
        """Store a file."""
        made = File(f"F{self.number():04d}", name, mime, data, user)
        self.files[made.id] = made
        return made


def file_json(file: File, url: str) -> dict[str, Any]:
    """A file as messages and files.info show it."""
    if file.deleted:
        return {"id": file.id, "mode": "tombstone"}
    return {
        "id": file.id, "name": file.name, "title": file.name, "mimetype": file.mime, "size": len(file.data),
        "filetype": file.name.rpartition(".")[2], "mode": "hosted", "user": file.user, "file_access": "visible",
        "url_private": f"{url}/files-pri/{file.id}/{file.name}",
        "url_private_download": f"{url}/files-pri/{file.id}/download/{file.name}",
    }  # fmt: skip
