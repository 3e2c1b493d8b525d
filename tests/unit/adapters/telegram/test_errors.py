"""The table of refusals: every sentence of Telegram by its remedy."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
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
from adapters.telegram.errors import Refusal, seconds_of, translate


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (400, "Bad Request: can't parse entities: Can't find end tag", UnparsableMarkup),
        (400, "Bad Request: ENTITY_BOUNDS_INVALID", UnparsableMarkup),
        (400, "Bad Request: message is too long", TooLong),
        (400, "Bad Request: MEDIA_CAPTION_TOO_LONG", TooLong),
        (400, "Bad Request: message caption is too long", TooLong),
        (400, "Bad Request: chat not found", Gone),
        (400, "Bad Request: message thread not found", Gone),
        (400, "Bad Request: TOPIC_DELETED", Gone),
        (400, "Bad Request: message to edit not found", Gone),
        (400, "Bad Request: MESSAGE_ID_INVALID", Gone),
        (403, "Forbidden: the group chat was deleted", Gone),
        (400, "Bad Request: TOPIC_CLOSED", NoRights),
        (400, "Bad Request: not enough rights to send text messages to the chat", NoRights),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN", NoRights),
        (403, "Forbidden: bot was blocked by the user", NoRights),
        (403, "Forbidden: bot was kicked from the supergroup chat", NoRights),
        (403, "Forbidden: user is deactivated", NoRights),
        (403, "Forbidden: bot can't initiate conversation with a user", NoRights),
        (400, "Bad Request: message text is empty", Rejected),
        (400, "Bad Request: BUTTON_DATA_INVALID", Rejected),
        (413, "Request Entity Too Large", Rejected),
        (404, "Not Found: method not found", Rejected),
        (401, "Unauthorized", AuthFailed),
        (404, "Not Found", AuthFailed),
        (409, "Conflict: terminated by other getUpdates request", NotReady),
        (500, "Internal Server Error: restart", OutcomeUnknown),
        (502, "HTTP status 502", OutcomeUnknown),
    ],
)
def test_every_refusal_has_its_remedy(code: int, description: str, kind: type[AdapterError]) -> None:
    assert type(translate(Refusal(code, description))) is kind


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Refusal(429, "Too Many Requests: retry after 37", {"retry_after": 37}), 37),
        (Refusal(429, "Too Many Requests: retry after 25"), 25),
        (Refusal(429, "Too Many Requests: retry after 0", {"retry_after": 0}), 0),
        (Refusal(429, "Too Many Requests: retry after 3600", {"retry_after": 3600}), 3600),
        (Refusal(429, "Too Many Requests"), 30),
        (Refusal(429, "Too Many Requests", {"retry_after": "soon"}), 30),
    ],
)
def test_B30_the_wait_is_the_platforms_own_figure(error: Refusal, seconds: float) -> None:
    found = translate(error)
    assert isinstance(found, RetryAfter)
    assert found.seconds == seconds
    assert not found.everywhere


def test_B30_the_wait_may_be_a_timedelta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")
    found = translate(sdk.RetryAfter(timedelta(seconds=30)))
    assert isinstance(found, RetryAfter)
    assert found.seconds == 30
    assert seconds_of(timedelta(minutes=1)) == 60
    assert seconds_of(7) == 7


def chained(cause: Exception) -> sdk.TelegramError:
    error = sdk.NetworkError("https://api.telegram.org/bot1:SECRET/sendMessage")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (httpx.ConnectError("no route"), NotReady),
        (httpx.ConnectTimeout("slow"), NotReady),
        (httpx.PoolTimeout("full"), NotReady),
        (RuntimeError("This HTTPXRequest is not initialized!"), NotReady),
        (httpx.ReadTimeout("slow"), OutcomeUnknown),
        (httpx.WriteError("broken"), OutcomeUnknown),
        (httpx.RemoteProtocolError("cut"), OutcomeUnknown),
        (httpx.ReadError("reset"), OutcomeUnknown),
    ],
)
def test_only_what_was_never_written_is_sure_not_to_have_happened(cause: Exception, kind: type[AdapterError]) -> None:
    found = translate(chained(cause))
    assert type(found) is kind
    assert "SECRET" not in str(found)


def test_errors_of_ours_stay_and_others_are_unknown() -> None:
    ours = Gone("x")
    assert translate(ours) is ours
    assert type(translate(sdk.InvalidToken("1:SECRET"))) is AuthFailed
    assert type(translate(TypeError("x"))) is OutcomeUnknown
    assert type(translate(sdk.TelegramError("Invalid server response"))) is OutcomeUnknown


def test_a_move_is_read_only_where_it_is_a_number() -> None:
    assert Refusal(400, "upgraded", {"migrate_to_chat_id": -1001}).moved_to == "-1001"
    assert Refusal(400, "upgraded", {"migrate_to_chat_id": "x"}).moved_to is None
    assert Refusal(400, "upgraded").moved_to is None
