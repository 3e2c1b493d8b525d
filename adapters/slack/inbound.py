"""What Slack sends as our events: pure functions over its JSON, without I/O and without a clock.

What is not for us (our own words, notices that only the bot sees, types that mean nothing here) is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from adapters.events import Action, ChatAddress, EventKind, MessageEvent, ReplyTo, Sender
from adapters.slack.content import file_list, shared_words, words_of
from adapters.slack.mrkdwn import mentions, readable, without_leading_mention
from adapters.slack.render import button_of

PLATFORM = "slack"

MESSAGES = frozenset({None, "", "file_share", "thread_broadcast", "me_message", "bot_message"})
"""Subtypes of `message` that are something said. https://docs.slack.dev/reference/events/message"""
JOINS = frozenset({"channel_join", "group_join"})
LEAVES = frozenset({"channel_leave", "group_leave"})

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What reading needs to know. `name` gives the name of a person or a channel where it is known; `ours` tells
    whether we take part in a thread (channel, thread); `place` gives the thread of one of our messages (channel, ts),
    or None."""

    team: str
    bot_user: str
    bot_id: str
    dm_threads: bool
    attachment_bytes: int
    name: Callable[[str], str | None]
    ours: Callable[[str, str], bool]
    place: Callable[[str, str], str | None]

    # addresses ------------------------------------------------------------------------------------

    def address(self, channel: str, ts: str, thread_ts: str | None, *, private: bool | None = None) -> ChatAddress:
        """Where the message `ts` belongs: in a channel the thread of its root, which is its own where it is one."""
        is_dm = channel.startswith("D") if private is None else private
        if thread_ts == ts:  # a root that has replies names itself, and one without does not
            thread_ts = None
        thread = thread_ts or (ts if not is_dm or self.dm_threads else None)
        return ChatAddress(
            platform=PLATFORM,
            account=self.bot_user,
            scope=self.team,
            chat_id=channel,
            thread_id=thread or None,
            chat_kind="private" if is_dm else "group",
        )

    def is_own(self, message: Data) -> bool:
        """Whether we have said it ourselves, by whatever process."""
        return message.get("user") == self.bot_user or (
            bool(self.bot_id) and _text(message.get("bot_id")) == self.bot_id
        )

    def sender(self, message: Data) -> Sender | None:
        """Who said it, or None where Slack does not tell."""
        person, bot = _text(message.get("user")), _text(message.get("bot_id"))
        if person:
            return Sender(id=person, name=self._name(person, message), is_bot=bool(bot))
        if bot:
            profile = _dict(message.get("bot_profile"))
            return Sender(id=bot, name=_text(message.get("username")) or _text(profile.get("name")) or bot, is_bot=True)
        return None

    def _name(self, person: str, message: Data) -> str:
        profile = _dict(message.get("user_profile"))
        told = _text(profile.get("display_name")) or _text(profile.get("real_name"))
        return told or self.name(person) or person

    # messages -------------------------------------------------------------------------------------

    def message(self, event: Data, now: datetime, *, came: str | None = None) -> MessageEvent | None:
        """A `message` or an `app_mention` that is something said."""
        channel, ts = _text(event.get("channel")), _text(event.get("ts"))
        if event.get("subtype") not in MESSAGES or event.get("is_ephemeral") or not channel or not ts:
            return None
        sender = self.sender(event)
        if sender is None or self.is_own(event):
            return None
        thread = _text(event.get("thread_ts")) or None
        address = self.address(channel, ts, thread, private=_private(event))
        text, forwarded, facts = self._said(event)
        return MessageEvent(
            dedup_id=f"m:{self.team}:{channel}:{ts}",
            kind=EventKind.MESSAGE,
            message_id=ts,
            address=address,
            sender=sender,
            received_at=now,
            sent_at=time_of(ts),
            text=text,
            attachments=file_list(event, self.attachment_bytes),
            forwarded_from=forwarded,
            facts=facts,
            chat_name=self._title(channel),
            reply_to=self._reply_to(event, channel, thread),
            mentions_us=self._addressed(event, channel, thread),
            came=came,
        )

    def _title(self, channel: str) -> str | None:
        name = None if channel.startswith("D") else self.name(channel)
        return None if name is None else f"#{name}"

    def _said(self, message: Data) -> tuple[str, str | None, tuple[str, ...]]:
        """The words, whose they are where they are another's, and what was shared beside them."""
        raw = _text(message.get("text"))
        text = self._readable(without_leading_mention(raw, self.bot_user)) if raw.strip() else words_of(message)
        shared = [(who, self._readable(said)) for who, said in shared_words(message)]
        if shared and not text.strip():
            return "\n\n".join(said for _, said in shared), shared[0][0], ()
        return text, None, tuple(f"shared a message of {who}: {said}" for who, said in shared)

    def _readable(self, raw: str) -> str:
        return readable(raw, self.name)

    def _reply_to(self, event: Data, channel: str, thread: str | None) -> ReplyTo | None:
        parent = _text(event.get("parent_user_id"))
        if thread is None or not parent or thread == event.get("ts"):
            return None
        return ReplyTo(message_id=thread, is_ours=parent == self.bot_user)

    def _addressed(self, event: Data, channel: str, thread: str | None) -> bool:
        """By the text and the thread only, so that the twins `message` and `app_mention` say the same."""
        if mentions(_text(event.get("text")), self.bot_user) or event.get("parent_user_id") == self.bot_user:
            return True
        return thread is not None and self.ours(channel, thread)

    # changes --------------------------------------------------------------------------------------

    def changed(self, event: Data, now: datetime) -> MessageEvent | None:
        """A `message_changed`: an edit where the words differ, a deletion where a tombstone is left."""
        new, old = _dict(event.get("message")), _dict(event.get("previous_message"))
        channel = _text(event.get("channel"))
        if not channel or not _text(new.get("ts")) or self.is_own(new) or new.get("is_ephemeral"):
            return None
        if new.get("subtype") == "tombstone":
            gone = {**event, "previous_message": old or new, "deleted_ts": new["ts"]}
            return self.deleted(gone, now)
        if new.get("subtype") not in MESSAGES or (self._whole(new) == self._whole(old) if old else not _edited(new)):
            return None
        return self.edit({"channel_type": event.get("channel_type"), **new, "channel": channel}, now,
                         stamp=_edited(new) or _text(event.get("event_ts")) or _text(event.get("ts")))  # fmt: skip

    def _whole(self, message: Data) -> str:
        return _text(message.get("text")) or words_of(message)

    def edit(self, message: Data, now: datetime, *, stamp: str = "", came: str | None = None) -> MessageEvent | None:
        """A message as it reads after an edit at `stamp`."""
        event = self.message(message, now, came=came)
        stamp = stamp or _edited(message)
        if event is None or not stamp:
            return None
        return replace(
            event, dedup_id=f"e:{event.dedup_id[2:]}:{stamp}", kind=EventKind.EDIT, sent_at=time_of(stamp)
        )  # fmt: skip

    def deleted(self, event: Data, now: datetime) -> MessageEvent | None:
        """A `message_deleted`."""
        old = _dict(event.get("previous_message"))
        channel, ts = _text(event.get("channel")), _text(event.get("deleted_ts")) or _text(old.get("ts"))
        if not channel or not ts or self.is_own(old) or old.get("is_ephemeral"):
            return None
        thread = _text(old.get("thread_ts")) or None
        return MessageEvent(
            dedup_id=f"d:{self.team}:{channel}:{ts}",
            kind=EventKind.DELETE,
            message_id=ts,
            address=self.address(channel, ts, thread, private=_private(event)),
            sender=self.sender(old) or Sender(id="", name=""),
            received_at=now,
            sent_at=time_of(_text(event.get("event_ts"))),
        )

    # everything else ------------------------------------------------------------------------------

    def membership(self, event: Data, now: datetime) -> MessageEvent | None:
        """Somebody, or we, joined or left."""
        channel, ts, person = (_text(event.get(key)) for key in ("channel", "ts", "user"))
        if not channel or not ts or not person:
            return None
        who = "the bot" if person == self.bot_user else self._name(person, event)
        verb = "joined" if event.get("subtype") in JOINS else "left"
        return MessageEvent(
            dedup_id=f"j:{self.team}:{channel}:{ts}",
            kind=EventKind.MEMBERSHIP,
            message_id=ts,
            address=self.address(channel, ts, None),
            sender=Sender(id=person, name=who),
            received_at=now,
            sent_at=time_of(ts),
            facts=(f"{who} {verb} the channel",),
        )

    def reaction(self, event: Data, now: datetime) -> MessageEvent | None:
        """A reaction to a message, or one that was taken back."""
        item, person = _dict(event.get("item")), _text(event.get("user"))
        channel, ts, stamp = _text(item.get("channel")), _text(item.get("ts")), _text(event.get("event_ts"))
        if item.get("type") != "message" or not channel or not ts or not stamp or not person or person == self.bot_user:
            return None
        removed = event.get("type") == "reaction_removed"
        is_ours = event.get("item_user") == self.bot_user
        what = f":{_text(event.get('reaction'))}:"
        whose = "a message of the bot" if is_ours else "a message"
        return MessageEvent(
            dedup_id=f"r:{self.team}:{channel}:{ts}:{person}:{stamp}",
            kind=EventKind.REACTION,
            message_id=ts,
            address=self.address(channel, ts, self.place(channel, ts)),
            sender=Sender(id=person, name=self._name(person, event)),
            received_at=now,
            sent_at=time_of(stamp),
            reply_to=ReplyTo(message_id=ts, is_ours=is_ours),
            facts=(f"took back the reaction {what} to {whose}" if removed else f"reacted with {what} to {whose}",),
        )

    def press(self, body: Data, now: datetime) -> MessageEvent | None:
        """A press of one of our buttons (`block_actions`)."""
        message, container, person = (_dict(body.get(key)) for key in ("message", "container", "user"))
        channel = _text(_dict(body.get("channel")).get("id")) or _text(container.get("channel_id"))
        ts = _text(message.get("ts")) or _text(container.get("message_ts"))
        actions = body.get("actions")
        pressed = _dict(actions[0]) if isinstance(actions, list) and actions else {}
        who, stamp = _text(person.get("id")), _text(pressed.get("action_ts"))
        button = button_of(_text(pressed.get("action_id")))
        if pressed.get("type") != "button" or not (channel and ts and who and stamp and button):
            return None
        thread = _text(message.get("thread_ts")) or _text(container.get("thread_ts")) or None
        name = self.name(who) or _text(person.get("name")) or _text(person.get("username")) or who
        return MessageEvent(
            dedup_id=f"a:{self.team}:{channel}:{ts}:{stamp}:{who}",
            kind=EventKind.ACTION,
            message_id=ts,
            address=self.address(channel, ts, thread),
            sender=Sender(id=who, name=name),
            received_at=now,
            sent_at=time_of(stamp),
            action=Action(button_id=button, value=_text(pressed.get("value"))),
            reply_to=ReplyTo(message_id=ts, is_ours=True),
            mentions_us=True,
        )

    def command(self, body: Data, now: datetime) -> MessageEvent | None:
        """A slash command: the words behind it are our command (`/tidings status` is `/status`)."""
        channel, person, trigger = (_text(body.get(key)) for key in ("channel_id", "user_id", "trigger_id"))
        if not channel or not person or not trigger:
            return None
        words = _text(body.get("text")).strip().removeprefix("/") or "help"
        is_dm = channel.startswith("D")
        return MessageEvent(
            dedup_id=f"c:{self.team}:{trigger}",
            kind=EventKind.COMMAND,
            message_id=f"command:{trigger}",
            address=ChatAddress(platform=PLATFORM, account=self.bot_user, scope=self.team, chat_id=channel,
                                chat_kind="private" if is_dm else "group"),
            sender=Sender(id=person, name=self.name(person) or _text(body.get("user_name")) or person),
            received_at=now,
            text=f"/{self._readable(words)}",
            mentions_us=True,
        )  # fmt: skip

    def read(self, body: Data, now: datetime) -> MessageEvent | None:
        """Whatever Slack has sent, or None where it is not for us."""
        kind = body.get("type")
        if kind == "block_actions":
            return self.press(body, now)
        if kind is None and "command" in body:
            return self.command(body, now)
        event = body.get("event")
        if kind != "event_callback" or not isinstance(event, Mapping):
            return None
        return self._event(event, now)

    def _event(self, event: Data, now: datetime) -> MessageEvent | None:
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "app_mention":
            return self.message({**event, "subtype": None}, now) if not event.get("edited") else None
        if kind in ("reaction_added", "reaction_removed"):
            return self.reaction(event, now)
        if kind != "message":
            return None
        if subtype == "message_changed":
            return self.changed(event, now)
        if subtype == "message_deleted":
            return self.deleted(event, now)
        if subtype in JOINS or subtype in LEAVES:
            return self.membership(event, now)
        return self.message(event, now)


def channel_of(body: Data) -> str:
    """The conversation that something is about, "" where there is none: what comes of it keeps its order."""
    event, item = _dict(body.get("event")), _dict(_dict(body.get("event")).get("item"))
    found = event.get("channel") or item.get("channel") or _dict(body.get("channel")).get("id")
    return _text(found) or _text(body.get("channel_id"))


def time_of(ts: str) -> datetime | None:
    """The time of a Slack timestamp, in UTC."""
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def order(ts: str) -> tuple[int, str]:
    """What timestamps are compared by: seconds, then the digits behind the point, padded."""
    seconds, _, rest = ts.partition(".")
    return (int(seconds) if seconds.isdecimal() else 0, rest.ljust(12, "0"))


def _edited(message: Data) -> str:
    return _text(_dict(message.get("edited")).get("ts"))


def _private(event: Data) -> bool | None:
    kind = event.get("channel_type")
    return kind == "im" if isinstance(kind, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> Data:
    return value if isinstance(value, Mapping) else {}
