"""The smaller methods of the Slack counterpart: who is who, reactions, pins, assistant threads, views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.counterparts.slack_limits import Answer, Fields, Limits, Method, OwnDeeds, page
from tests.counterparts.slack_rules import Refused, given_json
from tests.counterparts.slack_world import APP, BOT_ID, BOT_USER, DOMAIN, TEAM, Channel, Message, World


class Small:
    """The methods. `statuses`, `titles`, `prompts` are (channel, thread, what) in order."""

    def __init__(self, world: World, limits: Limits, own: OwnDeeds, ticket: Callable[[], str]) -> None:
        self._world = world
        self._limits = limits
        self._own = own
        self.statuses: list[tuple[str, str, str]] = []
        self.titles: list[tuple[str, str, str]] = []
        self.prompts: list[tuple[str, str, Any]] = []
        self.views: dict[str, dict[str, Any]] = {}
        """The published home of each person."""
        self.methods: dict[str, Method] = {
            "api.test": lambda fields: {"args": dict(fields)},
            "apps.connections.open": lambda _: {"url": ticket()},
            "assistant.threads.setStatus": self._status, "assistant.threads.setSuggestedPrompts": self._prompts,
            "assistant.threads.setTitle": self._title, "auth.test": self._auth, "bots.info": self._bot,
            "pins.add": self._pin, "pins.remove": self._unpin, "reactions.add": self._react,
            "reactions.remove": self._unreact, "team.info": self._team, "users.info": self._user,
            "users.list": self._users, "views.publish": self._publish,
        }  # fmt: skip

    def _auth(self, _fields: Fields) -> Answer:
        return {
            "url": f"https://{DOMAIN}.slack.example/", "team": "Loopback", "user": "tidings", "team_id": TEAM,
            "user_id": BOT_USER, "bot_id": BOT_ID, "is_enterprise_install": False,
        }  # fmt: skip

    def _bot(self, fields: Fields) -> Answer:
        found = self._world.bots.get(str(fields.get("bot") or BOT_ID))
        if found is None:
            raise Refused("bot_not_found")
        return {"bot": {name: value for name, value in found.items() if name != "team_id"}}

    def _team(self, _fields: Fields) -> Answer:
        icon = {"image_default": True, "image_34": "https://a.slack-edge.example/34.png"}
        return {
            "team": {
                "id": TEAM, "name": "Loopback", "url": f"https://{DOMAIN}.slack.example/", "domain": DOMAIN,
                "email_domain": "", "icon": icon, "avatar_base_url": "https://ca.slack-edge.example/",
                "is_verified": False,
            }
        }  # fmt: skip

    def _user(self, fields: Fields) -> Answer:
        found = self._world.users.get(str(fields.get("user")))
        if found is None:
            raise Refused("user_not_found")
        return {"user": found}

    def _users(self, fields: Fields) -> Answer:
        return {**page(list(self._world.users.values()), "members", fields, self._limits), "cache_ts": 1_700_000_000}

    def _publish(self, fields: Fields) -> Answer:
        view = given_json(fields.get("view") or {}, "invalid_arguments")
        if not isinstance(view, dict) or view.get("type") != "home":
            raise Refused("invalid_arguments")
        self.views[str(fields.get("user_id"))] = view
        return {"view": {**view, "id": self._world.id("V"), "team_id": TEAM, "app_id": APP, "bot_id": BOT_ID}}

    # assistant threads ---------------------------------------------------------------------------

    def _thread(self, fields: Fields) -> tuple[str, str]:
        channel = self._world.seen(fields.get("channel_id"))
        ts = str(fields.get("thread_ts") or "")
        if ts not in channel.messages:
            raise Refused("invalid_thread_ts")
        return channel.id, ts

    def _status(self, fields: Fields) -> Answer:
        self.statuses.append((*self._thread(fields), str(fields.get("status") or "")))
        return {}

    def _title(self, fields: Fields) -> Answer:
        self.titles.append((*self._thread(fields), str(fields.get("title") or "")))
        return {}

    def _prompts(self, fields: Fields) -> Answer:
        prompts = given_json(fields.get("prompts") or [], "invalid_arguments")
        if not isinstance(prompts, list) or not 1 <= len(prompts) <= 4:
            raise Refused("too_many_prompts" if prompts else "invalid_arguments")
        self.prompts.append((*self._thread(fields), prompts))
        return {}

    # reactions and pins --------------------------------------------------------------------------

    def _item(self, fields: Fields) -> tuple[Channel, Message]:
        if not fields.get("channel") or not fields.get("timestamp"):
            raise Refused("no_item_specified")
        channel = self._world.seen(fields["channel"])
        message = channel.messages.get(str(fields["timestamp"]))
        if message is None:
            raise Refused("message_not_found")
        return channel, message

    def _react(self, fields: Fields) -> Answer:
        channel, message = self._item(fields)
        name = str(fields.get("name") or "").strip(":")
        if not name or not name.replace("_", "").replace("-", "").replace("+", "").isalnum() or not name.isascii():
            raise Refused("invalid_name")
        if not react(message, BOT_USER, name):
            raise Refused("already_reacted")
        self._own("reacted", channel, message, {"reaction": name})
        return {}

    def _unreact(self, fields: Fields) -> Answer:
        channel, message = self._item(fields)
        name = str(fields.get("name") or "").strip(":")
        if not unreact(message, BOT_USER, name):
            raise Refused("no_reaction")
        self._own("unreacted", channel, message, {"reaction": name})
        return {}

    def _pin(self, fields: Fields) -> Answer:
        channel, message = self._item(fields)
        if message["ts"] in channel.pinned:
            raise Refused("already_pinned")
        channel.pinned.append(message["ts"])
        return {}

    def _unpin(self, fields: Fields) -> Answer:
        channel, message = self._item(fields)
        if message["ts"] not in channel.pinned:
            raise Refused("no_pin")
        channel.pinned.remove(message["ts"])
        return {}


def react(message: Message, user: str, name: str) -> bool:
    """Note a reaction; False where it was there."""
    reactions = message.setdefault("reactions", [])
    entry = next((one for one in reactions if one["name"] == name), None)
    if entry is None:
        entry = {"name": name, "users": [], "count": 0}
        reactions.append(entry)
    if user in entry["users"]:
        return False
    entry["users"].append(user)
    entry["count"] += 1
    return True


def unreact(message: Message, user: str, name: str) -> bool:
    """Take a reaction away; False where there was none."""
    for entry in message.get("reactions", []):
        if entry["name"] == name and user in entry["users"]:
            entry["users"].remove(user)
            entry["count"] -= 1
            message["reactions"] = [one for one in message["reactions"] if one["count"]]
            if not message["reactions"]:
                del message["reactions"]
            return True
    return False
