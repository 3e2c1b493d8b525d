"""Slack's answers as our errors."""

from __future__ import annotations

import pytest

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
from adapters.slack.errors import INVITE, code_of, from_answer


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("channel_not_found", Gone),
        ("thread_not_found", Gone),
        ("is_archived", NoRights),
        ("not_in_channel", NoRights),
        ("msg_too_long", TooLong),
        ("invalid_blocks", UnparsableMarkup),
        ("message_not_found", Rejected),
        ("cant_update_message", Rejected),
        ("edit_window_closed", Rejected),
        ("invalid_auth", AuthFailed),
        ("account_inactive", AuthFailed),
        ("token_revoked", AuthFailed),
        ("not_authed", AuthFailed),
        ("missing_scope", NoRights),
        ("ratelimited", RetryAfter),
        ("fatal_error", OutcomeUnknown),
        ("internal_error", OutcomeUnknown),
        ("something_new", Rejected),
    ],
)
def test_codes(code: str, kind: type[AdapterError]) -> None:
    error = from_answer(200, {}, {"ok": False, "error": code}, writes=True)
    assert type(error) is kind
    assert code_of(error) == code


def test_what_has_no_code() -> None:
    assert type(from_answer(503, {}, None, writes=True)) is OutcomeUnknown
    assert type(from_answer(503, {}, None, writes=False)) is NotReady
    assert type(from_answer(200, {}, None, writes=True)) is OutcomeUnknown
    assert type(from_answer(403, {}, "<html>", writes=True)) is NotReady
    assert type(from_answer(200, {}, {"ok": False, "error": "fatal_error"}, writes=False)) is NotReady


def test_the_wait_is_slacks_own() -> None:
    error = from_answer(429, {"Retry-After": "17"}, {"ok": False, "error": "ratelimited"}, writes=True)
    assert isinstance(error, RetryAfter)
    assert error.seconds == 17
    odd = from_answer(429, {"Retry-After": "nan"}, None, writes=True)
    assert isinstance(odd, RetryAfter)
    assert odd.seconds == 30


def test_what_is_told_helps() -> None:
    assert from_answer(200, {}, {"error": "not_in_channel"}, writes=True).told == INVITE
    scope = from_answer(200, {}, {"error": "missing_scope", "needed": "files:write"}, writes=True)
    assert "files:write" in scope.told
