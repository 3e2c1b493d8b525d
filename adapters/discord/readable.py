"""What people wrote, with readable names where Discord puts ids; and whether they meant us.

Source of the forms: https://discord.com/developers/docs/reference#message-formatting.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from adapters.discord.directory import Directory, dicts

NAME = 80
_FORMS = re.compile(
    r"<(?:@!?(?P<user>\d{1,20})|@&(?P<role>\d{1,20})|#(?P<channel>\d{1,20})"
    r"|a?:(?P<emoji>\w{2,32}):\d{1,20}|t:(?P<time>-?\d{1,13})(?::[a-zA-Z])?|/(?P<command>[^:>\n]{1,100}):\d{1,20})>"
)
_LEADING = re.compile(r"\s*<@(?:!|&)?(\d{1,20})>[\s,:]*")


def plain_name(name: object, default: str = "") -> str:
    """A display name as one inert line: no control, direction or format characters, bounded."""
    if not isinstance(name, str):
        return default
    flat = "".join(" " if ch.isspace() else ch for ch in name if ch.isspace() or unicodedata.category(ch)[0] != "C")
    flat = " ".join(flat.split())
    return (flat if len(flat) <= NAME else f"{flat[: NAME - 1]}…") or default


def user_name(user: Mapping[str, Any], member: Mapping[str, Any] | None = None) -> str:
    """What Discord displays for a person: the name in that server, else the own one, else the account's."""
    nick = member.get("nick") if isinstance(member, dict) else None
    for name in (nick, user.get("global_name"), user.get("username")):
        if found := plain_name(name):
            return found
    return str(user.get("id", ""))


def means_us(data: Mapping[str, Any], guild_id: str | None, directory: Directory) -> bool:
    """Whether a message mentions us as a person, or the role that was made for us. Words do not count."""
    if any(one.get("id") == directory.us for one in dicts(data.get("mentions"))):
        return True
    roles = data.get("mention_roles")
    return isinstance(roles, list) and any(directory.is_our_role(guild_id, str(role)) for role in roles)


def readable(
    content: object, data: Mapping[str, Any], guild_id: str | None, directory: Directory, *, strip_us: bool = False
) -> str:
    """The text with names for ids; with `strip_us` without our own mention at its begin."""
    text = content if isinstance(content, str) else ""
    while strip_us and (found := _LEADING.match(text)):
        if found[1] != directory.us and not directory.is_our_role(guild_id, found[1]):
            break
        text = text[found.end() :]
    people = {str(one.get("id")): user_name(one, one.get("member")) for one in dicts(data.get("mentions"))}

    def shown(match: re.Match[str]) -> str:
        if (user := match["user"]) is not None:
            return f"@{people.get(user, user)}"
        if (role := match["role"]) is not None:
            return f"@{plain_name(directory.role_name(guild_id, role), role)}"
        if (channel := match["channel"]) is not None:
            place = directory.place(channel)
            return f"#{plain_name(place.name if place is not None else None, channel)}"
        if match["emoji"] is not None:
            return f":{match['emoji']}:"
        if match["time"] is not None:
            return _moment(int(match["time"]), match[0])
        return f"/{match['command']}"

    return _FORMS.sub(shown, text)


def _moment(seconds: int, default: str) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return default


EPOCH_MS = 1_420_070_400_000
"""Discord's first millisecond: ids hold the time since then (https://discord.com/developers/docs/reference#snowflakes)."""


def moment_of(snowflake: str) -> datetime | None:
    """When something with that id was made, in UTC."""
    try:
        return datetime.fromtimestamp(((int(snowflake) >> 22) + EPOCH_MS) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def snowflake_at(moment: datetime) -> int:
    """The smallest id that may have been made at `moment`."""
    return max(0, int(moment.timestamp() * 1000) - EPOCH_MS) << 22
