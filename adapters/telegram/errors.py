"""Telegram's refusals as errors typed by their remedy: one table.

Telegram tells its reasons in English sentences only (`description`; core.telegram.org/bots/api#making-requests),
so that the table knows parts of them. None of our messages repeats what an HTTP library says: that may hold
the token.
"""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import telegram.error as sdk

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
    UnparsableMarkup,
)

LONGEST_WAIT = 86_400.0
UNKNOWN_WAIT = 30.0
"""Seconds that are waited where Telegram asks for a wait and does not say how long."""


class Refusal(sdk.TelegramError):
    """An answer of the Bot API that is not a result, with everything that it said.

    `code` is the HTTP status; `parameters` are Telegram's `ResponseParameters`.
    """

    def __init__(self, code: int, description: str, parameters: dict[str, object] | None = None) -> None:
        super().__init__(description)
        self.message = description  # the SDK changes its letters
        self.code = code
        self.parameters = parameters or {}

    def says(self, *parts: str) -> bool:
        """Whether the description has one of `parts` (lower case) in it."""
        text = self.message.lower()
        return any(part in text for part in parts)

    @property
    def moved_to(self) -> str | None:
        """The new id of a group that has become a supergroup."""
        new = self.parameters.get("migrate_to_chat_id")
        return str(new) if isinstance(new, int) and not isinstance(new, bool) else None


TABLE: tuple[tuple[type[AdapterError], str, tuple[str, ...]], ...] = (
    (
        UnparsableMarkup,
        "Telegram refuses the markup",
        ("can't parse entities", "can't parse caption", "entity_", "entities_too_long", "unsupported parse_mode"),
    ),
    (
        TooLong,
        "Telegram says that the message is too long",
        ("message is too long", "message_too_long", "caption is too long", "caption_too_long", "text is too long"),
    ),
    (
        Gone,
        "the chat or the topic does not exist any more",
        (
            *("chat not found", "message thread not found", "topic_deleted", "topic_id_invalid", "thread_id_invalid"),
            *("peer_id_invalid", "group chat was deleted", "group chat was deactivated", "user not found"),
            *("message to edit not found", "message_id_invalid", "channel_private", "upgraded to a supergroup"),
        ),
    ),
    (
        NoRights,
        "the bot may not write there",
        (
            *("not enough rights", "have no rights", "need administrator rights", "_forbidden", "topic_closed"),
            *("user_is_blocked", "chat_restricted", "chat_admin_required", "bot was kicked", "bot was blocked"),
            *("user is deactivated", "can't be deleted", "not a member", "chat_guest_send", "user_is_bot"),
        ),
    ),
)
"""Read from top to bottom; the first part that occurs counts. Of 400 and 403 only."""


def translate(error: Exception) -> AdapterError:
    """Our error for one of the SDK's. The caller chains it: `raise translate(error) from error`."""
    match error:
        case AdapterError():
            return error
        case Refusal():
            return _refused(error)
        case sdk.RetryAfter():
            return RetryAfter(seconds_of(error.retry_after))
        case sdk.InvalidToken():
            return AuthFailed("Telegram refuses the bot's token")
        case sdk.TelegramError() | httpx.HTTPError():
            return _broken(error)
        case _:
            return OutcomeUnknown(f"the client of Telegram broke: {type(error).__name__}")


def seconds_of(wait: object) -> float:
    """The figure of a `retry_after` in any of its forms."""
    if isinstance(wait, timedelta):
        return wait.total_seconds()
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        return float(wait)
    return UNKNOWN_WAIT


def _refused(error: Refusal) -> AdapterError:
    code, told = error.code, _short(error.message)
    if code == 429:
        return RetryAfter(_asked(error))
    if code == 401 or (code == 404 and not error.says("method not found")):
        return AuthFailed("Telegram refuses the bot's token", told="Telegram refuses the bot's token.")
    if code == 409:
        return NotReady(f"another program uses the bot: {told}", told="Another program uses this bot's token.")
    if code >= 500:
        return OutcomeUnknown(f"Telegram answered with {code}")
    if code == 413:
        return Rejected("the file is too large for Telegram", told="The file is too large for Telegram.")
    if code in (400, 403):
        for kind, words, parts in TABLE:
            if error.says(*parts):
                return kind(f"{words}: {told}")
        if code == 403:
            return NoRights(f"Telegram forbids it: {told}")
    return Rejected(f"Telegram refuses it ({code}): {told}")


def _asked(error: Refusal) -> float:
    """Seconds to wait: as a parameter, else from the sentence."""
    if "retry_after" in error.parameters:
        return seconds_of(error.parameters["retry_after"])
    found = re.search(r"retry (?:after|in) (\d+(?:\.\d+)?)", error.message, re.IGNORECASE)
    return float(found[1]) if found else UNKNOWN_WAIT


def _broken(error: Exception) -> AdapterError:
    """What went wrong below the Bot API. Only before the first byte was written it is certain that nothing happened."""
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    what = type(cause or error).__name__
    before = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
    unsent = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, RuntimeError)  # RuntimeError: the client is closed
    if isinstance(cause, (*before, *unsent)):
        return NotReady(f"Telegram cannot be reached ({what})", told="Telegram cannot be reached at the moment.")
    return OutcomeUnknown(f"the connection to Telegram broke in the middle ({what})")


def _short(text: str) -> str:
    """A description for the log, bounded and of one line."""
    return " ".join(text.split())[:200]
