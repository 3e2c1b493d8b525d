"""What an answer of Slack means, as our typed errors. One table, by the error code of the answer.

Source: the error lists of https://docs.slack.dev/reference/methods (chat.postMessage, chat.update, files.*,
conversations.*, auth.test) and https://docs.slack.dev/apis/web-api/rate-limits. Neither the address of a request nor
a text is repeated here: both may hold secrets.
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
    UnparsableMarkup,
)

INVITE = "I am not a member of that channel; invite me there with /invite."

_AUTH = "Slack refuses the bot's token."
_BY_CODE: dict[str, tuple[type[AdapterError], str | None]] = {
    # credentials
    "invalid_auth": (AuthFailed, _AUTH),
    "not_authed": (AuthFailed, _AUTH),
    "account_inactive": (AuthFailed, "The app was removed from the workspace, or its account is switched off."),
    "token_revoked": (AuthFailed, "The bot's token was revoked."),
    "token_expired": (AuthFailed, "The bot's token has expired."),
    "not_allowed_token_type": (AuthFailed, "That is not the kind of token that Slack wants there."),
    "invalid_app_token": (AuthFailed, "Slack refuses the app token (xapp-)."),
    "team_access_not_granted": (AuthFailed, "The app has no access to this workspace."),
    "socket_mode_not_enabled": (AuthFailed, "Socket Mode is switched off in the settings of the app."),
    # the place
    "channel_not_found": (Gone, None),
    "thread_not_found": (Gone, "That thread does not exist any more."),
    "invalid_thread_ts": (Gone, "That thread does not exist any more."),
    "is_archived": (NoRights, "That channel is archived."),
    "channel_is_archived": (NoRights, "That channel is archived."),
    "not_in_channel": (NoRights, INVITE),
    "restricted_action": (NoRights, "The workspace does not let me write there."),
    "restricted_action_read_only_channel": (NoRights, "That channel is read-only."),
    "restricted_action_thread_only_channel": (NoRights, "In that channel only threads may be answered."),
    "restricted_action_thread_locked": (NoRights, "That thread is locked."),
    "restricted_action_non_threadable_channel": (NoRights, "That channel has no threads."),
    "cannot_reply_to_message": (NoRights, "That message cannot be answered in a thread."),
    "messages_tab_disabled": (NoRights, "Direct messages to the app are switched off in its settings (App Home)."),
    "ekm_access_denied": (NoRights, "The workspace's administrators have suspended writing."),
    "access_denied": (NoRights, None),
    "no_permission": (NoRights, "The app may not do that in this workspace."),
    "team_access_denied": (NoRights, None),
    "user_is_bot": (NoRights, None),
    "cannot_dm_bot": (NoRights, None),
    # the message
    "msg_too_long": (TooLong, None),
    "msg_blocks_too_long": (TooLong, None),
    "invalid_blocks": (UnparsableMarkup, None),
    "invalid_blocks_format": (UnparsableMarkup, None),
    "blocks_too_long": (UnparsableMarkup, None),
    "no_text": (Rejected, "Slack takes no empty message."),
    "message_not_found": (Rejected, "That message is not there any more."),
    "cant_update_message": (Rejected, "That message cannot be changed."),
    "edit_window_closed": (Rejected, "That message is too old to be changed."),
    "cant_delete_message": (Rejected, "That message cannot be deleted."),
    "compliance_exports_prevent_deletion": (Rejected, "The workspace keeps every message."),
    "is_inactive": (Rejected, None),
    "metadata_too_large": (Rejected, None),
    "file_uploads_disabled": (NoRights, "Files are switched off in this workspace."),
    "file_upload_size_restricted": (Rejected, "That file is larger than this workspace takes."),
    "storage_limit_reached": (Rejected, "The workspace has no room for further files."),
    # passing faults
    "ratelimited": (RetryAfter, None),
    "rate_limited": (RetryAfter, None),
    "message_limit_exceeded": (RetryAfter, None),
    "fatal_error": (OutcomeUnknown, None),
    "internal_error": (OutcomeUnknown, None),
    "request_timeout": (OutcomeUnknown, None),
    "service_unavailable": (NotReady, None),
    "team_added_to_org": (NotReady, None),
    "org_login_required": (NotReady, None),
}

WAIT = 30.0
"""Seconds, where Slack asks for a wait and does not say how long."""


class Refused(Exception):
    """Slack's own code of an error, as the cause of ours."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status}, {code or 'no code'}")
        self.status = status
        self.code = code


def code_of(error: BaseException) -> str:
    """Slack's code behind one of our errors, "" where there is none."""
    return error.__cause__.code if isinstance(error.__cause__, Refused) else ""


def from_answer(status: int, headers: Mapping[str, str], body: Any, *, writes: bool) -> AdapterError:
    """The error for an answer that is no success. `writes`: the request may have changed something."""
    data = body if isinstance(body, dict) else {}
    code = data.get("error")
    cause = Refused(status, code[:80] if isinstance(code, str) else "")
    error = _judge(cause, headers, data, writes=writes)
    error.__cause__ = cause
    return error


def _judge(cause: Refused, headers: Mapping[str, str], data: Mapping[str, Any], *, writes: bool) -> AdapterError:
    said = f"Slack answers {cause}"
    if cause.code == "missing_scope":
        needed = str(data.get("needed", ""))[:200]
        return NoRights(f"{said}, needed: {needed}", told=f"The app lacks the scope {needed or 'that this needs'}.")
    kind, told = _BY_CODE.get(cause.code, (None, None))
    if cause.status == 429 or kind is RetryAfter:
        return RetryAfter(_seconds(headers), said)
    if kind is OutcomeUnknown and not writes:
        return NotReady(said)
    if kind is not None:
        return kind(said, told=told)
    if cause.status >= 500 or (not cause.code and cause.status < 400):
        return OutcomeUnknown(said) if writes else NotReady(said)
    if cause.status in (401, 403) and not cause.code:
        return AuthFailed(said, told=_AUTH) if cause.status == 401 else NotReady(said)
    return Rejected(said)


def _seconds(headers: Mapping[str, str]) -> float:
    try:
        seconds = float(str(headers.get("Retry-After")))
    except ValueError:
        return WAIT
    return seconds if math.isfinite(seconds) and seconds >= 0 else WAIT
