"""The methods of the Slack counterpart about conversations and their history."""

from __future__ import annotations

from typing import Any

from tests.counterparts.slack_limits import Answer, Fields, Limits, Method, cursor_of, page, read_cursor, size_of
from tests.counterparts.slack_rules import Refused, true
from tests.counterparts.slack_scopes import missing
from tests.counterparts.slack_world import BOT_USER, TYPES, Channel, Message, World

LIST_SCOPE = {"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}


class Conversations:
    """The methods; `scopes` are those of the app."""

    def __init__(self, world: World, limits: Limits, scopes: set[str]) -> None:
        self._world = world
        self._limits = limits
        self._scopes = scopes
        self.methods: dict[str, Method] = {
            "conversations.history": self._history, "conversations.info": self._info,
            "conversations.join": self._join, "conversations.leave": self._leave, "conversations.list": self._list,
            "conversations.mark": self._mark, "conversations.members": self._members,
            "conversations.open": self._open, "conversations.replies": self._replies,
            "users.conversations": self._mine,
        }  # fmt: skip

    def _info(self, fields: Fields) -> Answer:
        return {"channel": self._world.seen(fields.get("channel")).as_json()}

    def _list(self, fields: Fields) -> Answer:
        seen = [one for one in self._of_types(fields) if one.kind == "channel" or one.has_bot]
        return page([one.as_json() for one in seen], "channels", fields, self._limits)

    def _mine(self, fields: Fields) -> Answer:
        user = str(fields.get("user") or BOT_USER)
        seen = [one for one in self._of_types(fields) if user in one.members and (one.has_bot or one.kind == "channel")]
        return page([one.as_json() for one in seen], "channels", fields, self._limits)

    def _of_types(self, fields: Fields) -> list[Channel]:
        types = [one.strip() for one in str(fields.get("types") or "public_channel").split(",")]
        for one in types:
            if one not in LIST_SCOPE:
                raise Refused("invalid_types")
            if f"{LIST_SCOPE[one]}:read" not in self._scopes:
                raise missing(f"{LIST_SCOPE[one]}:read", self._scopes)
        live = not true(fields.get("exclude_archived"))
        return [one for one in self._world.channels.values() if TYPES[one.kind] in types and (live or not one.archived)]

    def _open(self, fields: Fields) -> Answer:
        if fields.get("channel"):
            found = self._world.seen(fields["channel"])
            if found.kind not in ("im", "mpim"):
                raise Refused("method_not_supported_for_channel_type")
            return {"no_op": True, "already_open": True, "channel": self._opened(found, fields)}
        users = [one.strip() for one in str(fields.get("users") or "").split(",") if one.strip()]
        if not users:
            raise Refused("users_list_not_supplied")
        if len(users) > 8:
            raise Refused("too_many_users")
        for user in users:
            self.check_person(user)
        kind = "im:write" if len(users) == 1 else "mpim:write"
        if kind not in self._scopes:
            raise missing(kind, self._scopes)
        channel = self._world.im(users[0]) if len(users) == 1 else self._world.mpim(*users)
        return {"no_op": False, "already_open": False, "channel": self._opened(channel, fields)}

    def check_person(self, user: str) -> None:
        """Raise where nobody can be written to under that id."""
        found = self._world.users.get(user)
        if found is None:
            raise Refused("user_not_found")
        if found["deleted"]:
            raise Refused("user_disabled")
        if found["is_bot"]:
            raise Refused(self._limits.bot_dm_error)

    @staticmethod
    def _opened(channel: Channel, fields: Fields) -> dict[str, Any]:
        return channel.as_json() if true(fields.get("return_im")) or channel.kind == "mpim" else {"id": channel.id}

    def _join(self, fields: Fields) -> Answer:
        channel = self._world.seen(fields.get("channel"))
        if channel.kind != "channel":
            raise Refused("method_not_supported_for_channel_type")
        if channel.archived:
            raise Refused("is_archived")
        if channel.has_bot:
            notes = {"warning": "already_in_channel", "response_metadata": {"warnings": ["already_in_channel"]}}
            return {"channel": channel.as_json(), **notes}
        channel.members.add(BOT_USER)
        return {"channel": channel.as_json()}

    def _leave(self, fields: Fields) -> Answer:
        channel = self._world.seen(fields.get("channel"))
        if not channel.has_bot:
            return {"not_in_channel": True}
        channel.members.discard(BOT_USER)
        return {}

    def _mark(self, fields: Fields) -> Answer:
        self._readable(fields)
        return {}

    def _members(self, fields: Fields) -> Answer:
        channel = self._world.seen(fields.get("channel"))
        return page(sorted(channel.members), "members", fields, self._limits)

    # history -------------------------------------------------------------------------------------

    def _readable(self, fields: Fields) -> Channel:
        channel = self._world.seen(fields.get("channel"))
        if not channel.has_bot:
            raise Refused("not_in_channel")
        return channel

    def _history(self, fields: Fields) -> Answer:
        channel = self._readable(fields)
        roots = [
            one
            for one in channel.messages.values()
            if one.get("thread_ts", one["ts"]) == one["ts"] or one.get("subtype") == "thread_broadcast"
        ]
        found = self._between(roots, fields)
        forward = self._limits.pages_forward and bool(fields.get("oldest")) and not fields.get("latest")
        shown, more = self._cut(found, fields, forward=forward)
        answer = {
            "messages": [_public(one, fields) for one in reversed(shown)], "has_more": bool(more), "pin_count": 0,
            "channel_actions_ts": None, "channel_actions_count": 0,
        }  # fmt: skip
        return answer | ({"response_metadata": {"next_cursor": more}} if more else {})

    def _replies(self, fields: Fields) -> Answer:
        channel, ts = self._readable(fields), str(fields.get("ts") or "")
        if not ts or ts not in channel.messages:
            raise Refused("thread_not_found")
        whole = self._world.thread(channel, ts)
        found = self._between(whole, fields)
        shown, more = self._cut(found, fields, forward=True)
        if not fields.get("cursor") and whole[0] not in shown:
            shown = [whole[0], *shown]  # the root is always there, on the first page
        answer = {"messages": [_public(one, fields) for one in shown], "has_more": bool(more)}
        return answer | ({"response_metadata": {"next_cursor": more}} if more else {})

    def _between(self, messages: list[Message], fields: Fields) -> list[Message]:
        """What lies between `oldest` and `latest`, oldest first."""
        oldest, latest = _stamp(fields, "oldest", 0), _stamp(fields, "latest", 1 << 62)
        inclusive = true(fields.get("inclusive"))
        return [
            one
            for one in messages
            if oldest < _micros(one["ts"]) < latest or (inclusive and _micros(one["ts"]) in (oldest, latest))
        ]

    def _cut(self, found: list[Message], fields: Fields, *, forward: bool) -> tuple[list[Message], str]:
        """One page, oldest first, and the cursor of the next one: the ts that it begins with."""
        limit = size_of(fields, self._limits)
        start = read_cursor(fields.get("cursor"), "next_ts")
        if start is not None and not start.isdigit():
            raise Refused("invalid_cursor")
        if forward:
            rest = [one for one in found if start is None or _micros(one["ts"]) >= int(start)]
            following = rest[limit] if len(rest) > limit else None
            shown = rest[:limit]
        else:
            rest = [one for one in found if start is None or _micros(one["ts"]) <= int(start)]
            following = rest[-limit - 1] if len(rest) > limit else None
            shown = rest[-limit:]
        return shown, "" if following is None else cursor_of(f"next_ts:{_micros(following['ts'])}")


def _micros(ts: str) -> int:
    seconds, _, rest = ts.partition(".")
    return int(seconds) * 1_000_000 + int(rest.ljust(6, "0")[:6] or 0)


def _stamp(fields: Fields, name: str, default: int) -> int:
    value = fields.get(name)
    if value is None or value == "":
        return default
    try:
        return _micros(str(value))
    except ValueError:
        raise Refused(f"invalid_ts_{name}") from None


def _public(message: Message, fields: Fields) -> Message:
    """A message as it is given; its metadata only where they were asked for."""
    if true(fields.get("include_all_metadata")):
        return message
    return {name: value for name, value in message.items() if name != "metadata"}
