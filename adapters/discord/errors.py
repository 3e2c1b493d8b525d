"""What an answer of Discord means, as our typed errors. One table, by the error code of the answer.

Source: https://discord.com/developers/docs/topics/opcodes-and-status-codes and .../topics/rate-limits.
Neither the address of a request (it may hold a token) nor the body of a message is repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from adapters.errors import (
    AdapterError,
    AuthFailed,
    Gone,
    NoRights,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    TooLong,
)

UNKNOWN_CHANNEL = 10003
UNKNOWN_MESSAGE = 10008
ARCHIVED = 50083
NO_HISTORY_RIGHT = 160002
HAS_THREAD = 160004

_BY_CODE: dict[int, tuple[type[AdapterError], str | None]] = {
    UNKNOWN_CHANNEL: (Gone, None),
    10004: (Gone, None),  # guild
    UNKNOWN_MESSAGE: (Gone, None),
    30046: (Rejected, "An old message can be edited only so often."),
    40001: (NoRights, None),
    40005: (Rejected, "That file is larger than Discord takes here."),
    50001: (NoRights, None),
    50005: (Rejected, None),  # the message is another's
    50006: (Rejected, "Discord takes no empty message."),
    50007: (NoRights, "That person takes no direct messages from the bot."),
    50008: (NoRights, None),  # a channel without text
    50013: (NoRights, None),
    50024: (NoRights, None),  # not in a channel of this type
    40333: (NotReady, None),  # the network's own protection refuses the request
    ARCHIVED: (NoRights, "That thread is archived."),
    160005: (NoRights, "That thread is locked."),
    NO_HISTORY_RIGHT: (NoRights, None),
    200000: (Rejected, "A rule of that server blocks this message."),
    200001: (Rejected, "A rule of that server blocks this message."),
}

HAS_CONTENT = 1 << 18 | 1 << 19
"""Flags of an application: GATEWAY_MESSAGE_CONTENT, and its form for bots in fewer than 100 servers."""
MESSAGE_CONTENT = (
    "Discord refuses the connection because the bot asks for the message content intent and may not have it. "
    "Switch on 'Message Content Intent' at https://discord.com/developers/applications, the bot's application, "
    "section Bot, 'Privileged Gateway Intents'."
)


class Refused(Exception):
    """The platform's own code of an error, as the cause of ours. `code` is 0 where it gave none."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{status}, code {code}: {message}")
        self.status = status
        self.code = code


def code_of(error: BaseException) -> int:
    """Discord's code behind one of our errors, 0 where there is none."""
    return error.__cause__.code if isinstance(error.__cause__, Refused) else 0


def from_answer(status: int, headers: Mapping[str, str], body: Any, *, writes: bool) -> AdapterError:
    """The error for an answer that is no success. `writes`: the request may have changed something."""
    data = body if isinstance(body, dict) else {}
    code = data.get("code") if isinstance(data.get("code"), int) else 0
    cause = Refused(status, code or 0, _words(data))
    error = _judge(cause, headers, data, writes=writes)
    error.__cause__ = cause
    return error


def _judge(cause: Refused, headers: Mapping[str, str], data: Mapping[str, Any], *, writes: bool) -> AdapterError:
    status, said = cause.status, f"Discord answers {cause}"
    if status == 429 or ("retry_after" in data and status < 500):
        return _wait(headers, data)
    if status >= 500:
        return OutcomeUnknown(said) if writes else NotReady(said)
    if status == 401:
        return AuthFailed(said, told="Discord refuses the bot's token.")
    if cause.code == 50035:
        return TooLong(said) if _too_long(data) else Rejected(said)
    if cause.code in _BY_CODE:
        kind, told = _BY_CODE[cause.code]
        return kind(said, told=told)
    if status == 413:
        return Rejected(said, told=_BY_CODE[40005][1])
    if status == 403:
        return NoRights(said) if data else NotReady(said)  # without JSON it comes from the network before the API
    return Rejected(said)


def _wait(headers: Mapping[str, str], data: Mapping[str, Any]) -> RetryAfter:
    """The wait that is asked for. An answer without JSON comes from Cloudflare and is about our whole address."""
    seconds = _seconds(data.get("retry_after"))
    if seconds is None:
        seconds = _seconds(headers.get("Retry-After"))
    scope = headers.get("X-RateLimit-Scope")
    everywhere = bool(data.get("global")) or scope == "global" or not data or "X-RateLimit-Global" in headers
    return RetryAfter(5.0 if seconds is None else seconds, everywhere=everywhere)


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _too_long(data: Mapping[str, Any]) -> bool:
    """A form error about the length of the content."""
    errors = data.get("errors")
    content = errors.get("content") if isinstance(errors, dict) else None
    found = content.get("_errors") if isinstance(content, dict) else None
    return isinstance(found, list) and any(
        isinstance(one, dict) and "LENGTH" in str(one.get("code")) for one in found
    )  # fmt: skip


def _words(data: Mapping[str, Any]) -> str:
    """Discord's own message, bounded, with the paths of form errors (never their values)."""
    message = str(data.get("message", ""))[:200]
    errors = data.get("errors")
    where = ", ".join(sorted(errors)[:5]) if isinstance(errors, dict) else ""
    return f"{message} ({where})" if where else message


_CLOSED: dict[int, tuple[type[AdapterError], str]] = {
    4004: (AuthFailed, "Discord refuses the bot's token."),
    4010: (AuthFailed, "Discord refuses the shard that the bot asks for."),
    4011: (AuthFailed, "The bot is in more servers than one connection may serve."),
    4012: (AuthFailed, "Discord does not know this version of its gateway any more."),
    4013: (AuthFailed, "Discord does not know the intents that the bot asks for."),
    4014: (AuthFailed, MESSAGE_CONTENT),
}


def from_close(code: int | None) -> AdapterError:
    """The error for a connection that the gateway has closed for good."""
    if code in _CLOSED:
        kind, told = _CLOSED[code]
        return kind(f"the gateway has closed with {code}", told=told)
    return NotReady(f"the gateway has closed with {code}")
