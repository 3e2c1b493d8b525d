"""What servers say, and what we make of it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_core.errors import ContextFull, ModelKeyBad, ModelRefused, ModelUnavailable
from agent_core.models.faults import fault


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "whatever"}}),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "request (9000 tokens) …"}}),
        (400, {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"}),
        (400, {"message": "Please reduce the length of the messages or completion."}),
        (400, {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}),
        (400, {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}),
        (400, {"message": "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"}),
        (500, {"message": "the request exceeds the available context size. try increasing the context size"}),
        (400, {"error": "Trying to keep the first 4500 tokens when context the overflows."}),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}}),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
        (413, "<html>Payload Too Large</html>"),
        (None, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "x"}}),
    ],
)
def test_a_full_window_is_known_in_every_dialect(status: int | None, body: Any) -> None:
    assert isinstance(fault(status, body), ContextFull)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {}),
        (402, "Payment Required"),
        (403, {"error": {"message": "no access"}}),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}),
        (400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}}),
        (None, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    ],
)
def test_a_bad_key_or_plan(status: int | None, body: Any) -> None:
    assert isinstance(fault(status, body), ModelKeyBad)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached"}}),
        (413, {"error": {"code": "rate_limit_exceeded", "message": "Request too large: tokens per minute"}}),
        (408, None),
        (409, None),
        (500, None),
        (503, {"error": {"message": "Loading model"}}),
        (529, {"error": {"type": "overloaded_error"}}),
        (None, {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (None, {"error": {"code": 502, "message": "Provider returned error"}}),
        (None, "something"),
        (None, None),
    ],
)
def test_a_passing_fault(status: int | None, body: Any) -> None:
    error = fault(status, body, wait=3.0)
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == 3.0


@pytest.mark.parametrize("status", [400, 404, 405, 415, 422, 301])
def test_a_refusal_names_the_servers_reason(status: int) -> None:
    error = fault(status, {"error": {"message": "unknown field\n  'foo'"}})
    assert isinstance(error, ModelRefused)
    assert "unknown field 'foo'" in str(error)
    assert "unknown field 'foo'" in error.told


@pytest.mark.parametrize(
    "words",
    [
        "Incorrect API key provided: topsecret123. Find yours at …",
        "bad key sk-proj-abcdefghijkl",
        "header Authorization: Bearer abc.def.ghi is wrong",
        "for organization org-abcdef123456",
    ],
)
def test_no_secret_is_repeated(words: str) -> None:
    for status in (400, 401, 500):
        error = fault(status, {"message": words}, secret="topsecret123")
        said = f"{error} {error.told}"
        for secret in ("topsecret123", "abcdefghijkl", "abc.def.ghi", "abcdef123456"):
            assert secret not in said


def test_a_long_reason_is_cut() -> None:
    assert len(str(fault(400, "x" * 100_000))) < 400
