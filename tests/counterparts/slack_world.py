"""What the workspace of the Slack counterpart holds: people, channels, messages with their threads, files.

No sockets here. Messages are kept as Slack shows them in the history; what only a test wants to know (how often a
message was changed) is kept beside them.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.counterparts.slack_rules import Refused, rich_text

Message = dict[str, Any]
Event = dict[str, Any]

TEAM = "T0LOOPBACK"
DOMAIN = "loopback"
APP = "A0TIDINGS01"
BOT_USER = "U0TIDINGS01"
BOT_ID = "B0TIDINGS01"
SLACKBOT = "USLACKBOT"
KINDS = ("channel", "group", "im", "mpim")
"""As `channel_type` names them; `group` is a private channel."""
TYPES = {"channel": "public_channel", "group": "private_channel", "im": "im", "mpim": "mpim"}


@dataclass(slots=True, eq=False)
class Channel:
    """A conversation. `refuses` is an error that every post there gets (restricted_action and its likes)."""

    id: str
    kind: str
    name: str
    members: set[str]
    created: int
    user: str | None = None
    archived: bool = False
    refuses: str | None = None
    shared: bool = False
    messages: dict[str, Message] = field(default_factory=dict)
    """By ts, in order."""
    edits: dict[str, list[str]] = field(default_factory=dict)
    """The earlier texts of a message, by its ts."""
    pinned: list[str] = field(default_factory=list)

    @property
    def has_bot(self) -> bool:
        """Whether the bot is a member."""
        return BOT_USER in self.members

    def as_json(self) -> dict[str, Any]:
        """As `conversations.info` gives it."""
        found: dict[str, Any] = {
            "id": self.id, "created": self.created, "context_team_id": TEAM, "updated": self.created * 1000,
            "is_archived": self.archived, "is_im": self.kind == "im", "is_org_shared": False,
        }  # fmt: skip
        if self.kind == "im":
            return {**found, "user": self.user, "is_user_deleted": False, "priority": 0}
        return {
            **found, "name": self.name, "name_normalized": self.name, "is_channel": self.kind == "channel",
            "is_group": self.kind == "group", "is_mpim": self.kind == "mpim", "is_private": self.kind != "channel",
            "is_general": False, "is_shared": self.shared, "is_ext_shared": self.shared, "is_member": self.has_bot,
            "creator": min(self.members, default=BOT_USER), "unlinked": 0, "shared_team_ids": [TEAM],
            "pending_shared": [], "pending_connected_team_ids": [], "is_pending_ext_shared": False,
            "topic": {"value": "", "creator": "", "last_set": 0}, "previous_names": [],
            "purpose": {"value": "", "creator": "", "last_set": 0}, "num_members": len(self.members),
        }  # fmt: skip


@dataclass(slots=True, eq=False)
class File:
    """A file. `data` is None while only its upload was announced."""

    id: str
    name: str
    mime: str
    data: bytes | None
    user: str
    created: int
    title: str = ""
    expected: int = 0
    completed: bool = False
    deleted: bool = False
    hidden: bool = False
    """Whether it is shown with `file_access: check_file_info`, as in shared channels."""
    mode: str = "hosted"


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as people see it."""

    channel: str
    ts: str
    thread_ts: str | None
    text: str
    blocks: list[dict[str, Any]]
    files: list[dict[str, Any]]
    edits: list[str]
    """Its earlier texts, oldest first."""
    metadata: dict[str, Any] | None
    raw: Message


class World:
    """Everything there is. Timestamps grow, and are near the real time as Slack's are."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.bots: dict[str, dict[str, Any]] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, File] = {}
        self.shift = 0.0
        """Seconds that the workspace's clock is ahead of the real time (it goes back for no timestamp)."""
        self._numbers = itertools.count(1)
        self._last = 0
        self._add_user(BOT_USER, "tidings", "Tidings", is_bot=True, bot_id=BOT_ID)

    def number(self) -> int:
        """A number that was not given before."""
        return next(self._numbers)

    def id(self, prefix: str) -> str:
        """An id that was not given before, of the look of Slack's."""
        return f"{prefix}{self.number():010d}"

    def now(self) -> float:
        """The workspace's clock, in seconds; the `Date` of its answers, too."""
        return time.time() + self.shift

    def ts(self) -> str:
        """A timestamp later than every other."""
        self._last = max(self._last + 100, int(self.now() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    # people and places ---------------------------------------------------------------------------

    def person(self, name: str, *, is_bot: bool = False, deleted: bool = False, tz: str = "Europe/Amsterdam") -> str:
        """A member of the workspace; the user id. `is_bot`: another app's user, with a bot id of its own."""
        user = self.id("U")
        self._add_user(user, name.lower(), name, is_bot=is_bot, bot_id=self.id("B") if is_bot else None, tz=tz)
        self.users[user]["deleted"] = deleted
        return user

    def _add_user(
        self, user: str, handle: str, name: str, *, is_bot: bool, bot_id: str | None = None, tz: str = "UTC"
    ) -> None:
        profile: dict[str, Any] = {
            "real_name": name, "real_name_normalized": name, "display_name": handle, "team": TEAM,
            "display_name_normalized": handle, "status_text": "", "status_emoji": "",
        }  # fmt: skip
        if bot_id is not None:
            app = APP if bot_id == BOT_ID else self.id("A")
            profile |= {"bot_id": bot_id, "api_app_id": app}
            self.bots[bot_id] = {
                "id": bot_id, "deleted": False, "name": handle, "updated": 1_700_000_000, "app_id": app,
                "user_id": user, "icons": {"image_36": "https://a.slack-edge.example/36.png"}, "team_id": TEAM,
            }  # fmt: skip
        self.users[user] = {
            "id": user, "team_id": TEAM, "name": handle, "deleted": False, "real_name": name, "tz": tz,
            "tz_label": tz, "tz_offset": 0, "profile": profile, "is_admin": False, "is_owner": False,
            "is_primary_owner": False, "is_restricted": False, "is_ultra_restricted": False, "is_bot": is_bot,
            "is_app_user": False, "updated": 1_700_000_000,
        }  # fmt: skip

    def bot_of(self, user: str) -> dict[str, Any]:
        """The bot behind a bot's user id."""
        return next(one for one in self.bots.values() if one["user_id"] == user)

    def channel(self, name: str, *members: str, kind: str = "channel", bot: bool = True) -> Channel:
        """A channel, with the bot in it unless `bot` is false. `kind` is channel, group (private) or mpim."""
        assert kind in KINDS, kind
        prefix = "G" if kind == "mpim" else "C"
        people = {*members, BOT_USER} if bot else set(members)
        return self._keep(Channel(self.id(prefix), kind, name, people, int(time.time())))

    def im(self, user: str) -> Channel:
        """The direct message of a person with the bot: always the same."""
        for one in self.channels.values():
            if one.kind == "im" and one.user == user:
                return one
        return self._keep(Channel(self.id("D"), "im", "", {BOT_USER, user}, int(time.time()), user=user))

    def mpim(self, *users: str) -> Channel:
        """The group direct message of these people and the bot: always the same."""
        wanted = {*users, BOT_USER}
        for one in self.channels.values():
            if one.kind == "mpim" and one.members == wanted:
                return one
        name = "mpdm-" + "--".join(sorted(self.users[one]["name"] for one in wanted)) + "-1"
        return self.channel(name, *users, kind="mpim")

    def _keep(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        return channel

    def at(self, channel: Channel | str) -> Channel:
        """The channel, for its id too."""
        return channel if isinstance(channel, Channel) else self.channels[channel]

    def seen(self, name: Any) -> Channel:
        """The channel of that id if the bot can see it; refuses as Slack does."""
        found = self.channels.get(str(name))
        if found is None or (found.kind != "channel" and not found.has_bot):
            raise Refused("channel_not_found")
        return found

    # messages ------------------------------------------------------------------------------------

    def said(self, user: str, text: str, **more: Any) -> Message:
        """What somebody says, as Slack would keep it; it is not kept yet."""
        return {
            "user": user, "type": "message", "ts": self.ts(), "client_msg_id": str(uuid.uuid4()), "text": text,
            "team": TEAM, "blocks": rich_text(text, self.id("b")) if text else [], **more,
        }  # fmt: skip

    def add(self, channel: Channel, message: Message) -> Message:
        """Keep a message, and count it at its root."""
        channel.messages[message["ts"]] = message
        root = channel.messages.get(message.get("thread_ts", ""))
        if root is not None and root is not message:
            author = message.get("user") or message.get("bot_id")
            root["thread_ts"] = root["ts"]
            root["reply_count"] = root.get("reply_count", 0) + 1
            root["reply_users"] = list(dict.fromkeys([*root.get("reply_users", []), author]))
            root["reply_users_count"] = len(root["reply_users"])
            root["latest_reply"] = message["ts"]
            root.setdefault("is_locked", False)
            message["parent_user_id"] = root.get("user")
        return message

    def remove(self, channel: Channel, ts: str) -> Message:
        """Take a message away. A root that has replies stays as a tombstone, as in Slack."""
        gone = channel.messages[ts]
        if gone.get("reply_count"):
            kept = ("thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply", "is_locked")
            channel.messages[ts] = {
                "type": "message", "subtype": "tombstone", "user": SLACKBOT, "hidden": True, "ts": ts,
                "text": "This message was deleted.", **{name: gone[name] for name in kept if name in gone},
            }  # fmt: skip
            return gone
        del channel.messages[ts]
        root = channel.messages.get(gone.get("thread_ts", ""))
        if root is not None:
            replies = self.thread(channel, root["ts"])[1:]
            root["reply_count"] = len(replies)
            if replies:
                root["latest_reply"] = replies[-1]["ts"]
            else:
                for name in ("reply_count", "reply_users", "reply_users_count", "latest_reply", "thread_ts"):
                    root.pop(name, None)
        return gone

    def thread(self, channel: Channel, ts: str) -> list[Message]:
        """The root and its replies, oldest first."""
        return [one for one in channel.messages.values() if one["ts"] == ts or one.get("thread_ts") == ts]

    def shown(self, channel: Channel, thread_ts: str | None = None) -> list[Shown]:
        """The bot's messages there that people see, in order (or those of one thread)."""
        return [
            Shown(
                channel=channel.id,
                ts=one["ts"],
                thread_ts=one.get("thread_ts"),
                text=one.get("text", ""),
                blocks=one.get("blocks", []),
                files=one.get("files", []),
                edits=list(channel.edits.get(one["ts"], ())),
                metadata=one.get("metadata"),
                raw=one,
            )
            for one in channel.messages.values()
            if one.get("bot_id") == BOT_ID and (thread_ts is None or one.get("thread_ts") == thread_ts)
        ]

    # files ---------------------------------------------------------------------------------------

    def file(self, name: str, mime: str, data: bytes | None, user: str, *, expected: int = 0) -> File:
        """Store a file, or announce it where `data` is None."""
        made = File(self.id("F"), name, mime, data, user, int(time.time()), title=name, expected=expected)
        made.completed = data is not None
        self.files[made.id] = made
        return made

    def places(self, file: File) -> Iterable[tuple[Channel, Message]]:
        """Where a file was shared."""
        for channel in self.channels.values():
            for message in channel.messages.values():
                if any(one.get("id") == file.id for one in message.get("files", ())):
                    yield channel, message


def file_json(file: File, url: str) -> dict[str, Any]:
    """A file as messages and `files.info` show it, at the origin `url`."""
    if file.deleted:
        return {"id": file.id, "mode": "tombstone"}
    if file.hidden:
        return {"id": file.id, "created": file.created, "timestamp": file.created, "file_access": "check_file_info"}
    size = len(file.data or b"")
    place = f"{url}/files-pri/{TEAM}-{file.id}"
    ending = file.name.rpartition(".")[2].lower() if "." in file.name else "binary"
    return {
        "id": file.id, "created": file.created, "timestamp": file.created, "name": file.name,
        "title": file.title or file.name, "mimetype": file.mime, "filetype": ending, "pretty_type": ending.upper(),
        "user": file.user, "user_team": TEAM, "editable": False, "size": size, "mode": file.mode,
        "is_external": file.mode == "external", "external_type": "", "is_public": True, "public_url_shared": False,
        "display_as_bot": False, "username": "", "file_access": "visible",
        "url_private": f"{place}/{file.name}", "url_private_download": f"{place}/download/{file.name}",
        "permalink": f"https://{DOMAIN}.slack.example/files/{file.user}/{file.id}/{file.name}",
        "permalink_public": f"https://slack-files.example/{TEAM}-{file.id}", "has_rich_preview": False,
    }  # fmt: skip
