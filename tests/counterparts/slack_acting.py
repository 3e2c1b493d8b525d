"""What people of the Slack counterpart do besides speaking: reactions, buttons, commands, and the app's own fate."""

from __future__ import annotations

import copy
from typing import Any

from tests.counterparts.slack_people import Place, Told, Which, ts_of
from tests.counterparts.slack_web import react, unreact
from tests.counterparts.slack_world import APP, BOT_ID, BOT_USER, DOMAIN, TEAM, Channel, Event, Message

NAMES = {"im": "directmessage", "group": "privategroup"}


class Acting(Told):
    """People act. Interactions and commands are returned as the payload that the app gets."""

    response_urls: dict[str, dict[str, Any]]

    def react(self, channel: Place, user: str, which: Which, emoji: str, *, live: bool = True) -> Event:
        """Somebody reacts to a message."""
        where = self.world.at(channel)
        react(where.messages[ts_of(which)], user, emoji)
        return self.tell(self._reaction("reaction_added", where, user, ts_of(which), emoji), live=live)

    def unreact(self, channel: Place, user: str, which: Which, emoji: str, *, live: bool = True) -> Event:
        """Somebody takes a reaction back."""
        where = self.world.at(channel)
        unreact(where.messages[ts_of(which)], user, emoji)
        return self.tell(self._reaction("reaction_removed", where, user, ts_of(which), emoji), live=live)

    def _reaction(self, kind: str, channel: Channel, user: str, ts: str, emoji: str) -> Event:
        author = channel.messages[ts].get("user")
        event: Event = {"type": kind, "user": user, "reaction": emoji, "event_ts": self.world.ts()}
        if author:
            event["item_user"] = author
        return {**event, "item": {"type": "message", "channel": channel.id, "ts": ts}}

    # interactions --------------------------------------------------------------------------------

    def press(
        self, channel: Place, user: str, which: Which, button: str, *, live: bool = True, **more: Any
    ) -> dict[str, Any]:
        """Somebody presses the button with that label, action_id or value. `more` goes into the payload."""
        where = self.world.at(channel)
        message = where.messages[ts_of(which)]
        block, element = _button(message, button)
        action: dict[str, Any] = {
            "action_id": element.get("action_id", "x"), "block_id": block.get("block_id", "b"), "type": "button",
            "text": element["text"], "action_ts": self.world.ts(),
            **{name: element[name] for name in ("value", "style") if name in element},
        }  # fmt: skip
        payload = {**self.interaction("block_actions", where, user, message), "actions": [action], **more}
        if live:
            self.outbox.put("interactive", payload)
        return payload

    def interaction(self, kind: str, channel: Channel, user: str, message: Message) -> dict[str, Any]:
        """What every interaction with a message has."""
        container = {
            "type": "message", "message_ts": message["ts"], "channel_id": channel.id, "is_ephemeral": False,
        }  # fmt: skip
        if message.get("thread_ts"):
            container["thread_ts"] = message["thread_ts"]
        name = self.world.users[user]["name"]
        return {
            "type": kind, "user": {"id": user, "username": name, "name": name, "team_id": TEAM}, "api_app_id": APP,
            "token": "unused", "container": container, "trigger_id": self.trigger(),
            "team": {"id": TEAM, "domain": DOMAIN}, "enterprise": None, "is_enterprise_install": False,
            "channel": {"id": channel.id, "name": NAMES.get(channel.kind, channel.name)},
            "message": copy.deepcopy(message), "state": {"values": {}},
            "response_url": self.response_url(channel, message),
        }  # fmt: skip

    def shortcut(self, channel: Place, user: str, which: Which, callback_id: str) -> dict[str, Any]:
        """Somebody uses a shortcut of the app on a message."""
        where = self.world.at(channel)
        message = where.messages[ts_of(which)]
        payload = self.interaction("message_action", where, user, message)
        payload |= {"callback_id": callback_id, "action_ts": self.world.ts(), "message_ts": message["ts"]}
        self.outbox.put("interactive", payload)
        return payload

    def slash(
        self, channel: Place, user: str, text: str, *, command: str = "/tidings", live: bool = True
    ) -> dict[str, Any]:
        """Somebody uses the app's command. (Slack knows no commands in threads.)"""
        where = self.world.at(channel)
        payload: dict[str, Any] = {
            "token": "unused", "team_id": TEAM, "team_domain": DOMAIN, "channel_id": where.id,
            "channel_name": NAMES.get(where.kind, where.name), "user_id": user,
            "user_name": self.world.users[user]["name"], "command": command, "text": text, "api_app_id": APP,
            "is_enterprise_install": "false", "response_url": self.response_url(where, None),
            "trigger_id": self.trigger(),
        }  # fmt: skip
        if live:
            self.outbox.put("slash_commands", payload)
        return payload

    def trigger(self) -> str:
        """An id that opens a view."""
        return f"{self.world.number()}.{self.world.number()}.{self.world.number():032x}"

    def response_url(self, channel: Channel, message: Message | None) -> str:
        """An address that takes up to five answers."""
        name = f"{TEAM}/{self.world.number()}"
        self.response_urls[name] = {
            "channel": channel.id, "ts": None if message is None else message["ts"], "left": 5, "answers": [],
        }  # fmt: skip
        return f"{self.url}/response/{name}"

    # the workspace and the app -------------------------------------------------------------------

    def archive(self, channel: Place, user: str, *, live: bool = True) -> Event:
        """Somebody archives a channel."""
        where = self.world.at(channel)
        where.archived = True
        kind = "channel_archive" if where.kind == "channel" else "group_archive"
        return self.tell({"type": kind, "channel": where.id, "user": user, "event_ts": self.world.ts()}, live=live)

    def rename(self, channel: Place, name: str, *, live: bool = True) -> Event:
        """A channel gets another name."""
        where = self.world.at(channel)
        where.name = name
        kind = "channel_rename" if where.kind == "channel" else "group_rename"
        told = {"id": where.id, "name": name, "name_normalized": name, "created": where.created}
        return self.tell({"type": kind, "channel": told, "event_ts": self.world.ts()}, live=live)

    def app_home_opened(self, user: str, tab: str = "messages") -> Event:
        """Somebody opens the app."""
        event = {"type": "app_home_opened", "user": user, "channel": self.world.im(user).id, "tab": tab}
        return self.tell({**event, "event_ts": self.world.ts()})

    def app_uninstalled(self) -> Event:
        """The workspace throws the app out: Slack tells it, and the tokens are worth nothing (see `revoke`)."""
        return self.tell({"type": "app_uninstalled", "event_ts": self.world.ts()})

    def tokens_revoked(self, *, bot: bool = True) -> Event:
        """Tokens were revoked: the bot's, or a person's."""
        tokens = {"oauth": [] if bot else ["U0SOMEBODY"], "bot": [BOT_USER] if bot else []}
        return self.tell({"type": "tokens_revoked", "tokens": tokens, "event_ts": self.world.ts()})

    # the bot's own deeds -------------------------------------------------------------------------

    def own_deed(self, kind: str, channel: Channel, message: Message, before: Message | None) -> None:
        """Tell the app what it did itself, as Slack does."""
        if kind == "posted":
            self.message_event(channel, message)
        elif kind == "changed":
            self.tell(self.hidden_event(channel, "message_changed", message=message, previous_message=before))
        elif kind == "deleted":
            deleted = {"deleted_ts": message["ts"], "previous_message": before}
            self.tell(self.hidden_event(channel, "message_deleted", **deleted))
        elif before is not None:
            name = "reaction_added" if kind == "reacted" else "reaction_removed"
            self.tell(self._reaction(name, channel, BOT_USER, message["ts"], before["reaction"]))


def _button(message: Message, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    for block in message.get("blocks", ()):
        elements = [*block.get("elements", ()), *([block["accessory"]] if "accessory" in block else [])]
        for element in elements:
            if element.get("type") == "button" and name in (
                element["text"]["text"],
                element.get("action_id"),
                element.get("value"),
            ):
                return block, element
    raise AssertionError(f"{message.get('bot_id') or BOT_ID} shows no button {name!r}")
