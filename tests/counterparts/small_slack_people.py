"""The people of the small Slack: what they do, as the events that Slack makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.counterparts.small_slack_world import APP, BOT_ID, BOT_USER, TEAM, Channel, Message, World, file_json

Deliver = Callable[[str, dict[str, Any]], None]


class People:
    """Every method returns the message (or event) as Slack keeps it; `live` false leaves it in the history only."""

    def __init__(self, world: World, deliver: Deliver, url: Callable[[], str]) -> None:
        self._world = world
        self._deliver = deliver
        self._url = url

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """Tell one event of the Events API, with an id of its own."""
        outer = {
            "token": "unused", "team_id": TEAM, "api_app_id": APP, "type": "event_callback", "event": event,
            "event_id": f"Ev{self._world.number():06d}", "event_time": int(float(event.get("event_ts", "1"))),
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
        }  # fmt: skip
        self._deliver("events_api", outer)
        return outer

    def say(
        self,
        channel: Channel,
        user: str,
        text: str,
        *,
        thread_ts: str | None = None,
        files: Sequence[tuple[str, str, bytes]] = (),
        live: bool = True,
        twins: Sequence[str] = ("app_mention", "message"),
        **more: Any,
    ) -> Message:
        """Somebody writes. A mention in a channel comes as the `twins`, in that order."""
        message: Message = {"type": "message", "user": user, "text": text, "ts": self._world.ts(), "team": TEAM, **more}
        if thread_ts is not None:
            message["thread_ts"] = thread_ts
        if files:
            message["subtype"] = "file_share"
            kept = [self._world.file(name, mime, data, user) for name, mime, data in files]
            message["files"] = [file_json(one, self._url()) for one in kept]
            del message["team"]
        self._world.add(channel, message)
        if live:
            mentioned = f"<@{BOT_USER}>" in text and channel.kind != "im"
            for kind in twins if mentioned else ("message",):
                told = {**message, "channel": channel.id, "event_ts": message["ts"], "type": kind}
                if kind == "message":
                    told["channel_type"] = channel.channel_type
                else:
                    told.pop("subtype", None)
                self.event(told)
        return message

    def edit(self, channel: Channel, message: Message, text: str, *, live: bool = True) -> Message:
        """Somebody changes the words."""
        before = dict(message)
        message["text"] = text
        message["edited"] = {"user": message.get("user"), "ts": self._world.ts()}
        if live:
            self._changed(channel, message, before)
        return message

    def unfurl(self, channel: Channel, message: Message) -> None:
        """Slack adds a preview: a change with the same words."""
        before = dict(message)
        message["attachments"] = [{"title": "A page", "from_url": "https://a.example"}]
        self._changed(channel, message, before)

    def _changed(self, channel: Channel, message: Message, before: Message) -> None:
        ts = self._world.ts()
        self.event(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": channel.id,
                "ts": ts,
                "event_ts": ts,
                "channel_type": channel.channel_type,
                "message": dict(message),
                "previous_message": before,
            }
        )

    def delete(self, channel: Channel, message: Message) -> None:
        """Somebody takes a message back."""
        channel.messages.pop(message["ts"], None)
        ts = self._world.ts()
        self.event(
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "channel": channel.id,
                "ts": ts,
                "event_ts": ts,
                "deleted_ts": message["ts"],
                "channel_type": channel.channel_type,
                "previous_message": dict(message),
            }
        )

    def own(self, kind: str, channel: Channel, message: Message, before: Message | None) -> None:
        """What the bot did itself comes back, too."""
        if kind == "posted":
            self.event(
                {**message, "channel": channel.id, "event_ts": message["ts"], "channel_type": channel.channel_type}
            )
        elif kind == "changed" and before is not None:
            self._changed(channel, message, before)

    def react(self, channel: Channel, user: str, message: Message, emoji: str, *, removed: bool = False) -> None:
        """Somebody reacts, or takes that back."""
        self.event(
            {
                "type": "reaction_removed" if removed else "reaction_added",
                "user": user,
                "reaction": emoji,
                "item_user": message.get("user"),
                "event_ts": self._world.ts(),
                "item": {"type": "message", "channel": channel.id, "ts": message["ts"]},
            }
        )

    def join(self, channel: Channel, user: str) -> None:
        """Somebody joins a channel."""
        channel.members.add(user)
        ts = self._world.ts()
        self.event(
            {
                "type": "message",
                "subtype": "channel_join",
                "user": user,
                "channel": channel.id,
                "ts": ts,
                "event_ts": ts,
                "channel_type": channel.channel_type,
                "text": f"<@{user}> has joined the channel",
            }
        )

    def other_bot(self, channel: Channel, text: str, **more: Any) -> Message:
        """Another app writes."""
        message = {
            "type": "message", "subtype": "bot_message", "bot_id": "B0OTHER", "username": "other", "text": text,
            "ts": self._world.ts(), **more,
        }  # fmt: skip
        self._world.add(channel, message)
        self.event({**message, "channel": channel.id, "event_ts": message["ts"], "channel_type": channel.channel_type})
        return message

    def press(self, channel: Channel, user: str, message: Message, label: str) -> dict[str, Any]:
        """Somebody presses the button with that label."""
        for block in message.get("blocks", ()):
            for element in block.get("elements", ()) if block["type"] == "actions" else ():
                if element["text"]["text"] == label:
                    return self._press(channel, user, message, element, block)
        raise AssertionError(f"there is no button {label!r}")

    def _press(
        self, channel: Channel, user: str, message: Message, element: dict[str, Any], block: dict[str, Any]
    ) -> dict[str, Any]:
        action = {
            "type": "button", "action_id": element["action_id"], "value": element.get("value"),
            "block_id": block.get("block_id", "b1"), "action_ts": self._world.ts(), "text": element["text"],
        }  # fmt: skip
        container = {"type": "message", "message_ts": message["ts"], "channel_id": channel.id, "is_ephemeral": False}
        if message.get("thread_ts"):
            container["thread_ts"] = message["thread_ts"]
        payload = {
            "type": "block_actions", "team": {"id": TEAM}, "user": {"id": user, "team_id": TEAM, "name": user},
            "api_app_id": APP, "token": "unused", "container": container, "trigger_id": f"tr{self._world.number()}",
            "channel": {"id": channel.id, "name": channel.name or "directmessage"}, "message": dict(message),
            "response_url": f"{self._url()}/response", "actions": [action],
        }  # fmt: skip
        self._deliver("interactive", payload)
        return payload

    def slash(self, channel: Channel, user: str, text: str, command: str = "/tidings") -> dict[str, Any]:
        """Somebody uses the app's command."""
        payload = {
            "token": "unused", "team_id": TEAM, "channel_id": channel.id,
            "channel_name": channel.name or "directmessage", "user_id": user, "user_name": user.lower(),
            "command": command, "text": text, "api_app_id": APP, "response_url": f"{self._url()}/response",
            "trigger_id": f"tr{self._world.number()}",
        }  # fmt: skip
        self._deliver("slash_commands", payload)
        return payload

    def uninstall(self) -> None:
        """The workspace throws the app out."""
        self.event({"type": "app_uninstalled", "event_ts": self._world.ts()})

    def odd(self, channel: Channel, **event: Any) -> None:
        """Any event, with what a message event has where nothing else is said."""
        ts = self._world.ts()
        self.event(
            {
                "type": "message",
                "channel": channel.id,
                "ts": ts,
                "event_ts": ts,
                "channel_type": channel.channel_type,
                **event,
            }
        )


__all__ = ["BOT_ID", "People"]
