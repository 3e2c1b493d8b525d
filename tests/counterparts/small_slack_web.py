"""The Web API of the small Slack: each method as a function from its fields to its answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.counterparts.small_slack_rules import UPDATE, Refused, check_blocks, check_text, pings
from tests.counterparts.small_slack_world import APP, BOT_ID, BOT_USER, TEAM, Channel, Message, World, file_json

Fields = Mapping[str, Any]
Answer = dict[str, Any]
Told = Callable[[str, Channel, Message, Any], None]


class Web:
    """The methods. `told` is called with (kind, channel, message, before) for what people and the bot hear of."""

    def __init__(
        self, world: World, url: Callable[[], str], told: Callable[[str, Channel, Message, Any], None]
    ) -> None:
        self.world = world
        self.url = url
        self.told = told
        self.update_limit = UPDATE
        self.post_limit = 40_000
        self.broadcasts: list[Fields] = []
        self.statuses: list[tuple[str, str, str]] = []
        self.uploads: dict[str, str] = {}
        self.methods: dict[str, Callable[[Fields], Answer]] = {
            "auth.test": self._auth, "bots.info": self._bot, "users.info": self._user,
            "users.conversations": self._conversations, "conversations.info": self._info,
            "conversations.history": self._history, "conversations.replies": self._replies,
            "chat.postMessage": self._post, "chat.update": self._update, "chat.delete": self._delete,
            "assistant.threads.setStatus": self._status, "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete, "files.info": self._file, "files.delete": self._drop,
        }  # fmt: skip

    def _auth(self, _fields: Fields) -> Answer:
        return {
            "url": "https://small.slack.example/", "team": "Small", "user": "tidy", "team_id": TEAM,
            "user_id": BOT_USER, "bot_id": BOT_ID, "is_enterprise_install": False,
        }  # fmt: skip

    def _bot(self, fields: Fields) -> Answer:
        return {
            "bot": {
                "id": fields.get("bot", BOT_ID),
                "app_id": APP,
                "user_id": BOT_USER,
                "name": "tidy",
                "deleted": False,
            }
        }

    def _user(self, fields: Fields) -> Answer:
        user = self.world.people.get(str(fields.get("user")))
        if user is None:
            raise Refused("user_not_found")
        return {"user": user}

    # conversations -------------------------------------------------------------------------------

    def channel(self, fields: Fields, name: str = "channel") -> Channel:
        """The channel that is meant, if the bot can see it."""
        found = self.world.channels.get(str(fields.get(name)))
        if found is None or (found.kind != "channel" and BOT_USER not in found.members):
            raise Refused("channel_not_found")
        return found

    def _conversations(self, fields: Fields) -> Answer:
        names = {"im": "im", "mpim": "mpim", "channel": "public_channel", "group": "private_channel"}
        kinds = str(fields.get("types", "public_channel")).split(",")
        mine = [
            one.as_json()
            for one in self.world.channels.values()
            if BOT_USER in one.members and names[one.kind] in kinds and not one.archived
        ]
        return _page(mine, fields, "channels")

    def _info(self, fields: Fields) -> Answer:
        return {"channel": self.channel(fields).as_json()}

    def _history(self, fields: Fields) -> Answer:
        channel = self.channel(fields)
        if BOT_USER not in channel.members:
            raise Refused("not_in_channel")
        roots = [one for one in channel.messages.values() if one.get("thread_ts", one["ts"]) == one["ts"]
                 or one.get("subtype") == "thread_broadcast"]  # fmt: skip
        return self._window(list(reversed(roots)), fields)

    def _replies(self, fields: Fields) -> Answer:
        channel, ts = self.channel(fields), str(fields.get("ts"))
        if ts not in channel.messages:
            raise Refused("thread_not_found")
        return self._window(self.world.thread(channel, ts), fields)

    def _window(self, messages: list[Message], fields: Fields) -> Answer:
        oldest, latest = float(fields.get("oldest") or 0), float(fields.get("latest") or 1e12)
        inclusive = _true(fields.get("inclusive"))
        metadata = _true(fields.get("include_all_metadata"))
        found = [
            one
            for one in messages
            if oldest < float(one["ts"]) < latest or (inclusive and float(one["ts"]) in (oldest, latest))
        ]
        shown = [one if metadata else {k: v for k, v in one.items() if k != "metadata"} for one in found]
        return _page(shown, fields, "messages")

    # messages ------------------------------------------------------------------------------------

    def _post(self, fields: Fields) -> Answer:
        channel = self._writable(fields)
        text, blocks = str(fields.get("text") or ""), fields.get("blocks")
        check_text(text, self.post_limit)
        kept = check_blocks(blocks) if blocks else []
        if not text.strip() and not kept:
            raise Refused("no_text")
        root = fields.get("thread_ts")
        if root is not None and str(root) not in channel.messages:
            raise Refused("thread_not_found")
        if pings(fields):
            self.broadcasts.append(dict(fields))
        message: Message = {
            "type": "message", "user": BOT_USER, "bot_id": BOT_ID, "app_id": APP, "team": TEAM, "text": text,
            "ts": self.world.ts(),
        }  # fmt: skip
        if kept:
            message["blocks"] = kept
        if root is not None:
            message["thread_ts"] = str(root)
        metadata = fields.get("metadata")
        if metadata:
            message["metadata"] = json.loads(metadata) if isinstance(metadata, str) else dict(metadata)
        self.world.add(channel, message)
        self.told("posted", channel, message, None)
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _writable(self, fields: Fields) -> Channel:
        channel = self.channel(fields)
        if BOT_USER not in channel.members:
            raise Refused("not_in_channel")
        if channel.archived:
            raise Refused("is_archived")
        return channel

    def _own(self, channel: Channel, ts: Any, error: str) -> Message:
        found = channel.messages.get(str(ts))
        if found is None:
            raise Refused("message_not_found")
        if found.get("bot_id") != BOT_ID:
            raise Refused(error)
        return found

    def _update(self, fields: Fields) -> Answer:
        channel = self.channel(fields)
        message = self._own(channel, fields.get("ts"), "cant_update_message")
        text = str(fields.get("text") or "")
        check_text(text, self.update_limit)
        blocks = check_blocks(fields["blocks"]) if fields.get("blocks") else []
        if pings(fields):
            self.broadcasts.append(dict(fields))
        before = dict(message)
        message["text"] = text
        message.pop("blocks", None)
        if blocks:
            message["blocks"] = blocks
        message["edited"] = {"user": BOT_USER, "ts": self.world.ts()}
        message["edits"] = message.get("edits", 0) + 1
        self.told("changed", channel, message, before)
        return {"channel": channel.id, "ts": message["ts"], "text": text, "message": message}

    def _delete(self, fields: Fields) -> Answer:
        channel = self.channel(fields)
        message = self._own(channel, fields.get("ts"), "cant_delete_message")
        del channel.messages[message["ts"]]
        self.told("deleted", channel, message, message)
        return {"channel": channel.id, "ts": message["ts"]}

    def _status(self, fields: Fields) -> Answer:
        channel = self.channel(fields, "channel_id")
        self.statuses.append((channel.id, str(fields.get("thread_ts")), str(fields.get("status"))))
        return {}

    # files ---------------------------------------------------------------------------------------

    def _upload_url(self, fields: Fields) -> Answer:
        if int(fields.get("length") or 0) < 1:
            raise Refused("invalid_arguments")
        file = self.world.file(str(fields["filename"]), "application/octet-stream", b"", BOT_USER)
        return {"upload_url": f"{self.url()}/upload/{file.id}", "file_id": file.id}

    def _complete(self, fields: Fields) -> Answer:
        files = fields["files"]
        asked = json.loads(files) if isinstance(files, str) else files
        kept = [self.world.files.get(one["id"]) for one in asked]
        if any(one is None or not one.data for one in kept):
            raise Refused("file_not_found")
        channel = self._writable({"channel": fields.get("channel_id")})
        shown = [file_json(one, self.url()) for one in kept if one is not None]
        message: Message = {
            "type": "message", "user": BOT_USER, "bot_id": BOT_ID, "text": str(fields.get("initial_comment") or ""),
            "files": shown, "upload": True, "ts": self.world.ts(),
        }  # fmt: skip
        if fields.get("thread_ts"):
            message["thread_ts"] = str(fields["thread_ts"])
        self.world.add(channel, message)
        self.told("posted", channel, message, None)
        for one in kept:
            assert one is not None
            one.shared = True
            self.uploads[one.id] = message["ts"]
        kind = "public" if channel.kind == "channel" else "private"
        share = {"ts": message["ts"], "thread_ts": message.get("thread_ts")}
        return {"files": [{**one, "shares": {kind: {channel.id: [share]}}} for one in shown]}

    def _file(self, fields: Fields) -> Answer:
        file = self.world.files.get(str(fields.get("file")))
        if file is None:
            raise Refused("file_not_found")
        shares: dict[str, Any] = {}
        for channel in self.world.channels.values():
            for message in channel.messages.values():
                if any(one["id"] == file.id for one in message.get("files", ())):
                    kind = "public" if channel.kind == "channel" else "private"
                    place = {"ts": message["ts"], "thread_ts": message.get("thread_ts")}
                    shares.setdefault(kind, {}).setdefault(channel.id, []).append(place)
        return {"file": {**file_json(file, self.url()), "shares": shares}}

    def _drop(self, fields: Fields) -> Answer:
        file = self.world.files.get(str(fields.get("file")))
        if file is None or file.deleted:
            raise Refused("file_deleted" if file else "file_not_found")
        file.deleted = True
        for channel in self.world.channels.values():
            for message in list(channel.messages.values()):
                if message.get("bot_id") == BOT_ID and any(one["id"] == file.id for one in message.get("files", ())):
                    del channel.messages[message["ts"]]
        return {}


def _page(items: list[Any], fields: Fields, key: str) -> Answer:
    limit = min(int(fields.get("limit") or 100), 1000)
    cursor = str(fields.get("cursor") or "")
    start = int(base64.b64decode(cursor).decode().partition(":")[2]) if cursor else 0
    end = start + limit
    more = base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""
    return {key: items[start:end], "has_more": bool(more), "response_metadata": {"next_cursor": more}}


def _true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")
