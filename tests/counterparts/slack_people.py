"""The people of the Slack counterpart: what they say and change, as the events that Slack makes of it.

Every method returns the (inner) event as the app hears it. With `live=False` nothing is told: it is in the history
only, as what happens while no socket is open.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tests.counterparts.slack_outbox import Outbox
from tests.counterparts.slack_rules import rich_text
from tests.counterparts.slack_world import BOT_USER, Channel, Event, Message, World, file_json

Place = Channel | str
Which = Event | str
"""A message: its event, or its ts."""
Given = Sequence[tuple[str, str, bytes]]
"""Files: (name, mime, bytes)."""


def ts_of(which: Which) -> str:
    """The ts of a message."""
    return which if isinstance(which, str) else str(which["ts"])


class Told:
    """What speaking and acting share."""

    world: World
    outbox: Outbox
    url: str

    def message_event(self, channel: Channel, message: Message, *, live: bool = True) -> Event:
        """Tell of a message."""
        event = {
            **copy.deepcopy(message), "channel": channel.id, "event_ts": message["ts"], "channel_type": channel.kind,
        }  # fmt: skip
        if live:
            self.outbox.event(event)
        return event

    def hidden_event(self, channel: Channel, subtype: str, **more: Any) -> Event:
        """The event of a change to a message."""
        ts = self.world.ts()
        return {
            "type": "message", "subtype": subtype, **copy.deepcopy(more), "channel": channel.id, "hidden": True,
            "ts": ts, "event_ts": ts, "channel_type": channel.kind,
        }  # fmt: skip

    def tell(self, event: Event, *, live: bool = True) -> Event:
        """Tell any event, whatever is in it."""
        if live:
            self.outbox.event(event)
        return event


class Speaking(Told):
    """People write, change and take back."""

    def say(
        self,
        channel: Place,
        user: str,
        text: str,
        *,
        thread_ts: str | None = None,
        files: Given = (),
        twins: Sequence[str] = ("app_mention", "message"),
        live: bool = True,
        **more: Any,
    ) -> Event:
        """Somebody writes; the `message` event. A mention of the bot in a channel comes as the `twins` in that order,
        each with an event id of its own (or as one of them). `more` goes into the message."""
        where = self.world.at(channel)
        message = self.world.said(user, text, **more)
        if thread_ts is not None:
            message["thread_ts"] = thread_ts
        if files:
            kept = [self.world.file(name, mime, data, user) for name, mime, data in files]
            message = {name: value for name, value in message.items() if name not in ("client_msg_id", "team")}
            message |= {"subtype": "file_share", "upload": False, "display_as_bot": False}
            message["files"] = [file_json(one, self.url) for one in kept]
        self.world.add(where, message)
        heard = live and where.has_bot
        event = self.message_event(where, message, live=False)
        mentioned = f"<@{BOT_USER}>" in text and where.kind != "im"
        for kind in twins if mentioned else ("message",):
            if not heard:
                break
            if kind == "message":
                self.outbox.event(event)
            else:
                dropped = ("channel_type", "subtype", "upload", "display_as_bot")
                mention = {name: value for name, value in event.items() if name not in dropped}
                self.outbox.event({**mention, "type": "app_mention"})
        return event

    def dm(self, user: str, text: str, **more: Any) -> Event:
        """Somebody writes to the bot alone."""
        return self.say(self.world.im(user), user, text, **more)

    def thread_broadcast(self, channel: Place, user: str, text: str, thread_ts: str, *, live: bool = True) -> Event:
        """Somebody answers in a thread and shows it to the whole channel."""
        where = self.world.at(channel)
        root = copy.deepcopy(where.messages[thread_ts])
        return self.say(where, user, text, thread_ts=thread_ts, live=live, subtype="thread_broadcast", root=root)

    def edit(self, channel: Place, which: Which, text: str, *, user: str | None = None, live: bool = True) -> Event:
        """Somebody changes the words of a message."""
        where = self.world.at(channel)
        message = where.messages[ts_of(which)]
        before = copy.deepcopy(message)
        where.edits.setdefault(message["ts"], []).append(message.get("text", ""))
        message["text"] = text
        message["blocks"] = rich_text(text, self.world.id("b"))
        message["edited"] = {"user": user or message.get("user"), "ts": self.world.ts()}
        return self.changed(where, message, before, live=live)

    def changed(self, channel: Channel, message: Message, before: Message, *, live: bool = True) -> Event:
        """Tell that a message is not what it was."""
        event = self.hidden_event(channel, "message_changed", message=message, previous_message=before)
        return self.tell(event, live=live)

    def unfurl(self, channel: Place, which: Which, *, url: str = "https://a.example/", live: bool = True) -> Event:
        """Slack adds a preview: a change with the same words and without `edited`."""
        where = self.world.at(channel)
        message = where.messages[ts_of(which)]
        before = copy.deepcopy(message)
        preview = {"id": 1, "from_url": url, "original_url": url, "title": "A page", "text": "About.", "fallback": "A"}
        message["attachments"] = [*message.get("attachments", []), preview]
        return self.changed(where, message, before, live=live)

    def delete(self, channel: Place, which: Which, *, live: bool = True) -> Event:
        """Somebody takes a message back. A root with replies becomes a tombstone, and is told as a change."""
        where = self.world.at(channel)
        before = copy.deepcopy(where.messages[ts_of(which)])
        gone = self.world.remove(where, ts_of(which))
        left = where.messages.get(gone["ts"])
        if left is not None:
            return self.changed(where, left, before, live=live)
        event = self.hidden_event(where, "message_deleted", deleted_ts=gone["ts"], previous_message=before)
        return self.tell(event, live=live)

    def bot_message(
        self, channel: Place, bot: str, text: str, *, classic: bool = False, live: bool = True, **more: Any
    ) -> Event:
        """Another app's bot (its user id) writes: with `bot_id`, or `classic` by the subtype bot_message without a
        user. A mention comes as two, as with people."""
        profile = self.world.bot_of(bot)
        extra: dict[str, Any] = {"bot_id": profile["id"], "app_id": profile["app_id"], "bot_profile": profile, **more}
        if not classic:
            return self.say(channel, bot, text, live=live, **extra)
        where = self.world.at(channel)
        message: Message = {
            "type": "message", "subtype": "bot_message", "text": text, "ts": self.world.ts(),
            "username": profile["name"], "bot_id": profile["id"], **more,
        }  # fmt: skip
        self.world.add(where, message)
        return self.message_event(where, message, live=live)

    def me_message(self, channel: Place, user: str, text: str, *, live: bool = True) -> Event:
        """Somebody writes with /me."""
        return self.say(channel, user, text, live=live, subtype="me_message")

    def odd(self, channel: Place, *, keep: bool = False, live: bool = True, **event: Any) -> Event:
        """A message event of any shape, with what every message event has where nothing else is said."""
        where = self.world.at(channel)
        message = {"type": "message", "ts": self.world.ts(), **event}
        if keep:
            self.world.add(where, message)
        return self.message_event(where, message, live=live)

    def ephemeral_like(self, channel: Place, text: str = "Only visible to you") -> Event:
        """A bot_message that only one person sees: `is_ephemeral`, and no user."""
        return self.odd(channel, subtype="bot_message", text=text, is_ephemeral=True, bot_id=self.world.id("B"))

    def tombstone(self, channel: Place) -> Event:
        """A message that is gone, and whose thread is not."""
        return self.odd(
            channel, keep=True, subtype="tombstone", user="USLACKBOT", hidden=True, text="This message was deleted."
        )

    def join(self, channel: Place, user: str, *, inviter: str | None = None, live: bool = True) -> Event:
        """Somebody joins: member_joined_channel, and the message channel_join (or group_join); the first of them."""
        where = self.world.at(channel)
        where.members.add(user)
        event = self._member("member_joined_channel", where, user)
        if inviter is not None:
            event["inviter"] = inviter
        self.tell(event, live=live)
        self._notice(where, user, "join", f"<@{user}> has joined the channel", live=live)
        return event

    def leave(self, channel: Place, user: str, *, live: bool = True) -> Event:
        """Somebody leaves: member_left_channel, and the message channel_leave (or group_leave)."""
        where = self.world.at(channel)
        heard = where.has_bot and live
        where.members.discard(user)
        event = self._member("member_left_channel", where, user)
        if user == BOT_USER:
            gone = "channel_left" if where.kind == "channel" else "group_left"
            event = {"type": gone, "channel": where.id, "actor_id": user, "event_ts": self.world.ts()}
            return self.tell(event, live=heard)
        self.tell(event, live=heard)
        self._notice(where, user, "leave", f"<@{user}> has left the channel", live=heard)
        return event

    def _member(self, kind: str, channel: Channel, user: str) -> Event:
        letter = "C" if channel.kind == "channel" else "G"
        return {"type": kind, "user": user, "channel": channel.id, "channel_type": letter,
                "team": self.world.users[user]["team_id"], "event_ts": self.world.ts()}  # fmt: skip

    def _notice(self, channel: Channel, user: str, what: str, text: str, *, live: bool) -> None:
        subtype = f"{'channel' if channel.kind == 'channel' else 'group'}_{what}"
        message = {"type": "message", "subtype": subtype, "ts": self.world.ts(), "user": user, "text": text}
        self.world.add(channel, message)
        self.message_event(channel, message, live=live)
