"""What we know of servers: channels and threads, names of roles, our own role. Small, and from events only.

It is what an address is made of: a thread's parent, and which message's thread is ours. What is not in it can be
asked for (`Place` from an answer of the API).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

TEXT, DM, VOICE, ANNOUNCEMENT, STAGE, FORUM, MEDIA = 0, 1, 2, 5, 13, 15, 16
THREADS = frozenset({10, 11, 12})
SPOKEN_IN = frozenset({TEXT, DM, VOICE, ANNOUNCEMENT, STAGE}) | THREADS
"""Types of channels that have messages. Source: https://discord.com/developers/docs/resources/channel."""
CAN_HAVE_THREADS = frozenset({TEXT, ANNOUNCEMENT})
"""Types whose messages can begin a thread."""
ASKED = 2000
"""Places that are not listed by a server (direct messages, sleeping threads) and are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A channel or thread."""

    id: str
    type: int
    guild_id: str | None = None
    parent_id: str | None = None
    owner_id: str | None = None
    name: str = ""
    last_message_id: str | None = None

    @property
    def is_thread(self) -> bool:
        """Whether it has a parent in whose name its address begins."""
        return self.type in THREADS and self.parent_id is not None


def place_of(data: Mapping[str, Any], guild_id: str | None = None) -> Place | None:
    """A channel of the API; None where it is not one."""
    if not isinstance(data.get("id"), str) or not isinstance(data.get("type"), int):
        return None
    return Place(
        id=data["id"],
        type=data["type"],
        guild_id=_text(data.get("guild_id")) or guild_id,
        parent_id=_text(data.get("parent_id")),
        owner_id=_text(data.get("owner_id")),
        name=_text(data.get("name")) or "",
        last_message_id=_text(data.get("last_message_id")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(slots=True)
class Guild:
    """A server."""

    name: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    our_roles: set[str] = field(default_factory=set)
    """The roles that a mention of the bot may use: those that were made for it alone."""
    places: dict[str, Place] = field(default_factory=dict)


class Directory:
    """Kept by `hear`; never asks anybody."""

    def __init__(self) -> None:
        self.us = ""
        """Our own user id."""
        self._guilds: dict[str, Guild] = {}
        self._where: dict[str, str] = {}
        self._asked: OrderedDict[str, Place] = OrderedDict()

    # reading

    def place(self, channel: str) -> Place | None:
        """What is known of a channel."""
        guild = self._guilds.get(self._where.get(channel, ""))
        found = guild.places.get(channel) if guild is not None else None
        return found or self._asked.get(channel)

    def listed(self) -> Iterator[Place]:
        """Every channel and thread of a server that has messages."""
        for guild in self._guilds.values():
            yield from (one for one in list(guild.places.values()) if one.type in SPOKEN_IN)

    def in_guild(self, guild_id: str) -> list[Place]:
        """The same of one server."""
        guild = self._guilds.get(guild_id)
        return [one for one in guild.places.values() if one.type in SPOKEN_IN] if guild is not None else []

    def knows_guild(self, guild_id: str) -> bool:
        """Whether the server has listed itself."""
        return guild_id in self._guilds

    def role_name(self, guild_id: str | None, role: str) -> str | None:
        """The name of a role."""
        guild = self._guilds.get(guild_id or "")
        return guild.roles.get(role) if guild is not None else None

    def is_our_role(self, guild_id: str | None, role: str) -> bool:
        """Whether the role is the one that was made for the bot."""
        guild = self._guilds.get(guild_id or "")
        return guild is not None and role in guild.our_roles

    # hearing

    def remember(self, place: Place) -> None:
        """A place that was asked for, or that we made."""
        guild = self._guilds.get(place.guild_id or "")
        if guild is not None and place.guild_id is not None:
            guild.places[place.id] = place
            self._where[place.id] = place.guild_id
            return
        self._asked[place.id] = place
        self._asked.move_to_end(place.id)
        while len(self._asked) > ASKED:
            self._asked.popitem(last=False)

    def heard_message(self, channel: str, message_id: str) -> None:
        """The newest message of a channel, so that nobody has to ask for it."""
        place = self.place(channel)
        if place is not None and int(place.last_message_id or 0) < int(message_id):
            self.remember(replace(place, last_message_id=message_id))

    def hear(self, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of the gateway. Events about other things are ignored."""
        guild_id = _text(data.get("guild_id"))
        match event:
            case "READY":  # what was known may have changed meanwhile; the servers list themselves anew
                for book in (self._guilds, self._where, self._asked):
                    book.clear()
            case "GUILD_CREATE":
                self._guild(data)
            case "GUILD_UPDATE":
                self._guild_changed(data)
            case "GUILD_DELETE" if not data.get("unavailable"):
                self._forget_guild(_text(data.get("id")) or "")
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self._channel(data)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._forget(_text(data.get("id")) or "")
            case "THREAD_LIST_SYNC":
                for thread in dicts(data.get("threads")):
                    self._channel({**thread, "guild_id": guild_id})
            case "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE":
                if (guild := self._guilds.get(guild_id or "")) is not None:
                    self._role(guild, data.get("role"))
            case _:
                pass

    def _guild(self, data: Mapping[str, Any]) -> None:
        guild_id = _text(data.get("id"))
        if guild_id is None or data.get("unavailable"):
            return
        self._forget_guild(guild_id)
        guild = self._guilds[guild_id] = Guild(name=_text(data.get("name")) or "")
        for role in dicts(data.get("roles")):
            self._role(guild, role)
        for channel in (*dicts(data.get("channels")), *dicts(data.get("threads"))):
            self._channel({**channel, "guild_id": guild_id})

    def _guild_changed(self, data: Mapping[str, Any]) -> None:
        guild = self._guilds.get(_text(data.get("id")) or "")
        if guild is not None:
            guild.name = _text(data.get("name")) or guild.name
            for role in dicts(data.get("roles")):
                self._role(guild, role)

    def _role(self, guild: Guild, role: object) -> None:
        if not isinstance(role, dict) or not isinstance(role.get("id"), str):
            return
        guild.roles[role["id"]] = _text(role.get("name")) or ""
        tags = role.get("tags")
        if isinstance(tags, dict) and tags.get("bot_id") == self.us:
            guild.our_roles.add(role["id"])

    def _channel(self, data: Mapping[str, Any]) -> None:
        place = place_of(data)
        if place is None:
            return
        before = self.place(place.id)
        if before is not None and place.last_message_id is None:
            place = replace(place, last_message_id=before.last_message_id)
        self.remember(place)

    def _forget(self, channel: str) -> None:
        self._asked.pop(channel, None)
        guild = self._guilds.get(self._where.pop(channel, ""))
        if guild is not None:
            guild.places.pop(channel, None)
            for thread in [one.id for one in guild.places.values() if one.parent_id == channel and one.is_thread]:
                self._forget(thread)

    def _forget_guild(self, guild_id: str) -> None:
        guild = self._guilds.pop(guild_id, None)
        for channel in guild.places if guild is not None else ():
            self._where.pop(channel, None)


def dicts(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; what is no list has none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
