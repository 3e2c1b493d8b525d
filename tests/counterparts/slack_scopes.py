"""The scopes that the methods of the Slack counterpart need, from the reference of each method."""

from __future__ import annotations

from tests.counterparts.slack_rules import Refused
from tests.counterparts.slack_world import Channel

SCOPES = frozenset(
    {
        *("app_mentions:read", "assistant:write", "channels:history", "channels:join", "channels:read", "chat:write"),
        *("commands", "files:read", "files:write", "groups:history", "groups:read", "groups:write", "im:history"),
        *("im:read", "im:write", "mpim:history", "mpim:read", "mpim:write", "pins:write", "reactions:read"),
        *("reactions:write", "team:read", "users:read"),
    }
)
"""What the app has unless a test takes some away."""

NEEDS = {
    "assistant.threads.setStatus": "chat:write", "assistant.threads.setSuggestedPrompts": "assistant:write",
    "assistant.threads.setTitle": "assistant:write", "bots.info": "users:read",
    "chat.appendStream": "chat:write", "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write", "chat.postMessage": "chat:write", "chat.startStream": "chat:write",
    "chat.stopStream": "chat:write", "chat.update": "chat:write", "conversations.join": "channels:join",
    "files.completeUploadExternal": "files:write", "files.delete": "files:write",
    "files.getUploadURLExternal": "files:write", "files.info": "files:read", "pins.add": "pins:write",
    "pins.remove": "pins:write", "reactions.add": "reactions:write", "reactions.remove": "reactions:write",
    "team.info": "team:read", "users.info": "users:read", "users.list": "users:read",
}  # fmt: skip
BY_KIND = {
    "conversations.history": "history", "conversations.info": "read", "conversations.members": "read",
    "conversations.replies": "history",
}  # fmt: skip
PREFIX = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}


def missing(scope: str, provided: frozenset[str] | set[str]) -> Refused:
    """`missing_scope` as Slack says it."""
    return Refused("missing_scope", needed=scope, provided=",".join(sorted(provided)))


def check(method: str, provided: frozenset[str] | set[str], channel: Channel | None) -> None:
    """Raise where the app lacks what a method needs."""
    scope = NEEDS.get(method)
    if scope is None and method in BY_KIND and channel is not None:
        scope = f"{PREFIX[channel.kind]}:{BY_KIND[method]}"
    if scope is not None and scope not in provided:
        raise missing(scope, provided)
