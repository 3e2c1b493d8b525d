"""The methods of the Slack counterpart with which the bot speaks: messages, streams, ephemeral words."""

from __future__ import annotations

from typing import Any

from tests.counterparts.slack_limits import Answer, Fields, Limits, Method, OwnDeeds
from tests.counterparts.slack_rules import (
    MARKDOWN_LIMIT,
    Refused,
    check_blocks,
    check_metadata,
    escaped,
    given_json,
    invalid_blocks,
    pings,
    true,
)
from tests.counterparts.slack_world import APP, BOT_ID, BOT_USER, DOMAIN, TEAM, Channel, Message, World


class Chat:
    """The methods. `broadcasts` are the calls that would have called a whole channel or group."""

    def __init__(self, world: World, limits: Limits, own: OwnDeeds, scopes: set[str]) -> None:
        self._world = world
        self._limits = limits
        self._own = own
        self._scopes = scopes
        self.broadcasts: list[Fields] = []
        self.warnings: list[str] = []
        """What Slack takes and its reference advises against."""
        self.ephemerals: list[tuple[str, str, Message]] = []
        """(channel, user, message)."""
        self.methods: dict[str, Method] = {
            "chat.appendStream": self._append, "chat.delete": self._delete, "chat.getPermalink": self._permalink,
            "chat.postEphemeral": self._ephemeral, "chat.postMessage": self._post, "chat.startStream": self._start,
            "chat.stopStream": self._stop, "chat.update": self._update,
        }  # fmt: skip

    # places --------------------------------------------------------------------------------------

    def place(self, name: Any) -> Channel:
        """Where a post goes: by the id of a channel or of a person, or by name."""
        asked = str(name or "")
        if (person := self._world.users.get(asked)) is not None:
            if person["is_bot"]:
                raise Refused(self._limits.bot_dm_error)
            return self._world.im(asked)
        for one in self._world.channels.values():
            if one.kind == "channel" and asked.removeprefix("#") == one.name:
                return one
        return self._world.seen(asked)

    def writable(self, name: Any) -> Channel:
        """That place, if the bot may write there."""
        channel = self.place(name)
        if channel.archived:
            raise Refused("is_archived")
        if not channel.has_bot and "chat:write.public" not in self._scopes:
            raise Refused("not_in_channel")
        if channel.refuses is not None:
            raise Refused(channel.refuses)
        return channel

    def thread(self, channel: Channel, given: Any) -> str | None:
        """The root that a reply goes under; None where it lands in the channel."""
        if not given:
            return None
        found = channel.messages.get(str(given))
        if found is None:
            if not self._limits.unthreads:
                raise Refused("thread_not_found")
            return None
        root = str(found.get("thread_ts") or found["ts"])
        if root != found["ts"]:
            self.warnings.append(f"thread_ts {given} is that of a reply; its root is {root}")
        return root

    # messages ------------------------------------------------------------------------------------

    def compose(self, fields: Fields, limit: int) -> Message:
        """Text, blocks and attachments of a post; raises what Slack refuses about them."""
        text, markdown = str(fields.get("text") or ""), str(fields.get("markdown_text") or "")
        if markdown and (text or fields.get("blocks")):
            raise Refused("markdown_text_conflict")
        if len(text) > limit or len(markdown) > MARKDOWN_LIMIT:
            raise Refused("msg_too_long")
        blocks = check_blocks(fields["blocks"]) if fields.get("blocks") else []
        attachments = given_json(fields.get("attachments") or [], "invalid_attachments")
        if not isinstance(attachments, list):
            raise Refused("invalid_attachments")
        if len(attachments) > 100:
            raise Refused("too_many_attachments")
        if not text.strip() and not markdown.strip() and not blocks and not attachments:
            raise Refused("no_text")
        if pings(fields):
            self.broadcasts.append(dict(fields))
        made: Message = {"text": escaped(text or markdown)}
        if markdown:
            blocks = [{"type": "markdown", "text": markdown}]
        if blocks:
            made["blocks"] = [{"block_id": self._world.id("b"), **one} for one in blocks]
        if attachments:
            made["attachments"] = [{"id": at, **one} for at, one in enumerate(attachments, 1)]
        return made

    def keep(self, channel: Channel, root: str | None, **more: Any) -> Message:
        """Keep a message of the bot, and tell of it."""
        profile = {name: value for name, value in self._world.bots[BOT_ID].items() if name != "user_id"}
        message: Message = {
            "user": BOT_USER, "type": "message", "ts": self._world.ts(), "bot_id": BOT_ID, "app_id": APP,
            "text": "", "team": TEAM, "bot_profile": profile, **more,
        }  # fmt: skip
        if root is not None:
            message["thread_ts"] = root
        self._world.add(channel, message)
        self._own("posted", channel, message, None)
        return message

    def _post(self, fields: Fields) -> Answer:
        channel = self.writable(fields.get("channel"))
        made = self.compose(fields, self._limits.post)
        metadata = check_metadata(fields.get("metadata"))
        root = self.thread(channel, fields.get("thread_ts"))
        if metadata is not None:
            made["metadata"] = metadata
        if root is not None and true(fields.get("reply_broadcast")):
            made |= {"subtype": "thread_broadcast", "root": dict(channel.messages[root])}
        message = self.keep(channel, root, **made)
        return {"channel": channel.id, "ts": message["ts"], "message": dict(message)}

    def _own_message(self, channel: Channel, ts: Any, error: str) -> Message:
        found = channel.messages.get(str(ts or ""))
        if found is None or found.get("subtype") == "tombstone":
            raise Refused("message_not_found")
        if found.get("bot_id") != BOT_ID:
            raise Refused(error)
        return found

    def _update(self, fields: Fields) -> Answer:
        channel = self._world.seen(fields.get("channel"))
        message = self._own_message(channel, fields.get("ts"), "cant_update_message")
        if channel.archived:
            raise Refused("is_inactive")
        age = self._world.now() - float(message["ts"])
        if self._limits.edit_seconds is not None and age >= self._limits.edit_seconds:
            raise Refused("edit_window_closed")
        if message.get("streaming_state") == "in_progress":
            raise Refused("streaming_state_conflict")
        kept_only = fields.get("text") is None and not fields.get("blocks") and fields.get("attachments") is None
        if kept_only and fields.get("metadata") is None:
            raise Refused("no_text")
        made = {} if kept_only else self.compose(fields, self._limits.update)
        metadata = fields.get("metadata")
        before = dict(message)
        if metadata is not None:
            asked = given_json(metadata, "invalid_metadata_format")
            message.pop("metadata", None)
            if asked:
                message["metadata"] = check_metadata(asked)
        self._change(channel, message, made, fields)
        self._own("changed", channel, message, before)
        return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": dict(message)}

    def _change(self, channel: Channel, message: Message, made: Message, fields: Fields) -> None:
        """Blocks go where a text comes without them; attachments stay unless others are given."""
        channel.edits.setdefault(message["ts"], []).append(message["text"])
        if made.get("text") or "blocks" in made:
            message["text"] = made["text"]
            message.pop("blocks", None)
        if fields.get("attachments") is not None:
            message.pop("attachments", None)
        message |= {name: made[name] for name in ("blocks", "attachments") if name in made}
        if "blocks" not in made:
            message["edited"] = {"user": BOT_USER, "ts": self._world.ts()}

    def _delete(self, fields: Fields) -> Answer:
        channel = self._world.seen(fields.get("channel"))
        message = self._own_message(channel, fields.get("ts"), "cant_delete_message")
        self._world.remove(channel, message["ts"])
        self._own("deleted", channel, message, message)
        return {"channel": channel.id, "ts": message["ts"]}

    def _ephemeral(self, fields: Fields) -> Answer:
        channel, user = self.writable(fields.get("channel")), str(fields.get("user") or "")
        if user not in channel.members:
            raise Refused("user_not_in_channel")
        made = self.compose(fields, self._limits.post)
        message = {"type": "message", "bot_id": BOT_ID, "user": BOT_USER, "ts": self._world.ts(), **made}
        root = self.thread(channel, fields.get("thread_ts"))
        if root is not None:
            message["thread_ts"] = root
        self.ephemerals.append((channel.id, user, message))
        return {"message_ts": message["ts"]}

    def _permalink(self, fields: Fields) -> Answer:
        channel, ts = self._world.seen(fields.get("channel")), str(fields.get("message_ts") or "")
        if ts not in channel.messages:
            raise Refused("message_not_found")
        link = f"https://{DOMAIN}.slack.example/archives/{channel.id}/p{ts.replace('.', '')}"
        return {"channel": channel.id, "permalink": link}

    # streams -------------------------------------------------------------------------------------

    def _start(self, fields: Fields) -> Answer:
        channel = self.writable(fields.get("channel"))
        if channel.kind in ("channel", "group"):
            for name in ("recipient_team_id", "recipient_user_id"):
                if not fields.get(name):
                    raise Refused(f"missing_{name}")
        elif not fields.get("thread_ts"):
            raise Refused("invalid_thread_ts")
        root = self.thread(channel, fields.get("thread_ts"))
        if fields.get("thread_ts") and root is None:
            raise Refused("invalid_thread_ts")
        message = self.keep(channel, root, text=self._streamed(fields), streaming_state="in_progress")
        return {"channel": channel.id, "ts": message["ts"]}

    def _streaming(self, fields: Fields) -> tuple[Channel, Message]:
        channel = self._world.seen(fields.get("channel"))
        message = self._own_message(channel, fields.get("ts"), "message_not_owned_by_app")
        if message.get("streaming_state") != "in_progress":
            raise Refused("message_not_in_streaming_state")
        return channel, message

    def _streamed(self, fields: Fields) -> str:
        """The text that a call adds."""
        text, chunks = str(fields.get("markdown_text") or ""), given_json(fields.get("chunks") or [], "invalid_chunks")
        if not isinstance(chunks, list) or any(not isinstance(one, dict) for one in chunks):
            raise Refused("invalid_chunks")
        text += "".join(str(one.get("text") or "") for one in chunks if one.get("type") == "markdown_text")
        if len(text) > MARKDOWN_LIMIT:
            raise Refused("msg_too_long")
        if pings({"text": text}):
            self.broadcasts.append(dict(fields))
        return text

    def _append(self, fields: Fields) -> Answer:
        channel, message = self._streaming(fields)
        text = self._streamed(fields)
        if not text and not fields.get("chunks"):
            raise Refused("no_text")
        channel.edits.setdefault(message["ts"], []).append(message["text"])
        message["text"] += text
        return {"channel": channel.id, "ts": message["ts"]}

    def _stop(self, fields: Fields) -> Answer:
        channel, message = self._streaming(fields)
        metadata = check_metadata(fields.get("metadata"))
        blocks = check_blocks(fields["blocks"]) if fields.get("blocks") else []
        before = dict(message)
        message["text"] += self._streamed(fields)
        shown = [{"type": "markdown", "text": message["text"]}] if message["text"] else []
        if not shown and not blocks:
            raise invalid_blocks("must contain at least 1 item [json-pointer:/blocks]")
        message |= {"streaming_state": "completed", "blocks": [*shown, *blocks]}
        if metadata is not None:
            message["metadata"] = metadata
        self._own("changed", channel, message, before)
        return {"channel": channel.id, "ts": message["ts"], "message": dict(message)}
