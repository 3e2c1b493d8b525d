"""What a test may set about how the Slack counterpart behaves, and the arguments of a call."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.counterparts.slack_rules import POST_LIMIT, UPDATE_LIMIT, Refused
from tests.counterparts.slack_world import Channel, Message

Fields = Mapping[str, Any]
Answer = dict[str, Any]
Method = Callable[[Fields], Answer]


@dataclass(slots=True)
class Limits:
    """The settings. Lengths are in characters."""

    post: int = POST_LIMIT
    update: int = UPDATE_LIMIT
    edit_seconds: float | None = None
    """How old a message may be to be changed; None: for ever."""
    page: int | None = None
    """The most items of a page, whatever was asked for: Slack may give fewer."""
    pages_forward: bool = False
    """A history asked with `oldest` and without `latest` begins with what is closest to `oldest`, as the reference
    has it in one place; otherwise the newest come first, as it has it in another."""
    unthreads: bool = True
    """A reply to a root that is gone lands in the channel, with a plain ok; otherwise it is thread_not_found."""
    bot_dm_error: str = "cannot_dm_bot"
    """What a direct message to another bot gets (user_is_bot in some reports)."""
    duplicate_updates: bool = True
    """Whether an update that changes nothing is told, too."""


class OwnDeeds(Protocol):
    """Hears what the bot did."""

    def __call__(self, kind: str, channel: Channel, message: Message, before: Message | None) -> None:
        """`kind` is posted, changed, deleted, reacted or unreacted."""


def cursor_of(text: str) -> str:
    """A cursor as Slack gives it."""
    return base64.b64encode(text.encode()).decode()


def read_cursor(value: Any, kind: str) -> str | None:
    """What is in a cursor, None where none was given."""
    if not value:
        return None
    try:
        name, _, rest = base64.b64decode(str(value), validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        raise Refused("invalid_cursor") from None
    if name != kind or not rest:
        raise Refused("invalid_cursor")
    return rest


def size_of(fields: Fields, limits: Limits, default: int = 100) -> int:
    """How many items a page holds."""
    try:
        asked = int(fields.get("limit") or default)
    except ValueError:
        raise Refused("invalid_limit") from None
    if not 0 < asked <= 1000:
        raise Refused("invalid_limit")
    return min(asked, limits.page or asked)


def page(items: list[Any], name: str, fields: Fields, limits: Limits) -> Answer:
    """One page of a list whose items keep their places."""
    start = read_cursor(fields.get("cursor"), "at")
    if start is not None and not start.isdigit():
        raise Refused("invalid_cursor")
    begin = int(start or 0)
    end = begin + size_of(fields, limits)
    more = cursor_of(f"at:{end}") if end < len(items) else ""
    return {name: items[begin:end], "response_metadata": {"next_cursor": more}}
