"""From what a server says to a typed error. The only place that reads the words of an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_core.errors import ContextFull, ModelError, ModelKeyBad, ModelRefused, ModelUnavailable

_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_CONTEXT_WORDS = re.compile(
    r"maximum context length"
    r"|context (?:length|size|window) (?:of|is|exceeded|limit)"
    r"|exceeds? (?:the )?(?:available |maximum )?(?:context|allowed number of input tokens)"
    r"|(?:larger|longer|greater) than (?:the )?(?:context|model'?s context)"
    r"|prompt is too long"
    r"|reduce the length of (?:the|your) (?:messages|prompt|input)"
    r"|too large for model with \d+ maximum context"
    r"|input token count .{0,40}exceeds the maximum"
    r"|when context the overflows"
    r"|tokens \+ .?max_new_tokens.? must be",
    re.IGNORECASE,
)
_KEY_CODES = frozenset(
    {
        "insufficient_quota",
        "invalid_api_key",
        "billing_not_active",
        "billing_error",
        "account_deactivated",
        "authentication_error",
        "permission_error",
    }
)
_KEY_WORDS = re.compile(r"credit balance is too low", re.IGNORECASE)
_REFUSED_CODES = frozenset({"invalid_request_error", "not_found_error", "content_filter", "model_not_found"})
_SECRETS = re.compile(r"(?i)\b(?:sk|pk|key|token|org|proj)[-_][\w*.\-]{6,}|bearer\s+\S+")


def fault(status: int | None, body: object, *, wait: float | None = None, secret: str = "") -> ModelError:
    """The error for an answer with `status` (None: it came inside a stream) and the parsed `body`.

    `wait` is the server's own delay. `secret` is our key; it is cut out of what the server says.
    """
    error = _error_object(body)
    words = _message(error, body, secret)
    codes = {str(error[name]) for name in ("code", "type") if error.get(name) is not None}
    if status is None and isinstance(error.get("code"), int) and error["code"] >= 400:
        status = error["code"]
    said = f"{status}: {words}" if status is not None else words
    if _is_context(status, codes, words):
        return ContextFull(f"the request does not fit into the model's window ({said})")
    if codes & _KEY_CODES or status in (401, 402, 403) or _KEY_WORDS.search(words):
        return ModelKeyBad(f"the key or plan is refused ({said})")
    if _is_passing(status, codes):
        return ModelUnavailable(f"the model's server cannot answer now ({said})", retry_after=wait)
    return ModelRefused(f"the request is refused ({said})", told=f"The model refused this request: {words}")


def refusal(words: str) -> ModelRefused:
    """The model itself declined, in `words`."""
    return ModelRefused("the model declined", told=f"The model declined: {_one_line(words)}")


def filtered() -> ModelRefused:
    """The provider's filter stopped the answer."""
    return ModelRefused("the provider filtered the answer", told="The provider's content filter stopped this answer.")


def _is_context(status: int | None, codes: set[str], words: str) -> bool:
    if codes & _CONTEXT_CODES:
        return True
    if status == 413 and "rate_limit_exceeded" not in codes:
        return True
    return status in (None, 400, 413, 422, 500) and _CONTEXT_WORDS.search(words) is not None


def _is_passing(status: int | None, codes: set[str]) -> bool:
    if status is None:
        return not codes & _REFUSED_CODES
    return status in (408, 409, 413, 425, 429) or status >= 500


def _error_object(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _message(error: Mapping[str, Any], body: object, secret: str) -> str:
    words = error.get("message") or error.get("detail")
    if not words and isinstance(body, Mapping):
        words = body.get("error")
    if not isinstance(words, str) or not words:
        words = body if isinstance(body, str) and body else "no reason given"
    if len(secret) >= 4:
        words = words.replace(secret, "[key]")
    return _one_line(_SECRETS.sub("[hidden]", words))


def _one_line(words: str, longest: int = 300) -> str:
    line = " ".join(words.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
