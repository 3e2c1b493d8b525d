"""JSON texts whose bytes never change, and the canonical form of a request (P5)."""

from __future__ import annotations

import hashlib
import json

from agent_core.models.ports import Request


def json_text(value: object) -> str:
    """The one way a value becomes wire text: compact, keys in the order given, no escapes beyond need.

    Lone surrogates, which no UTF-8 body can hold, become U+FFFD.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def canon(request: Request) -> bytes:
    """Tools, system and messages as they stand in the body, without brackets that close at its end.

    Within a session this is a byte prefix of the canon of the next request, until a declared boundary.
    """
    parts = (*request.tools, "|", request.system, "|", *request.messages)
    return ",".join(parts).encode("utf-8")


def call_id(body: bytes, index: int) -> str:
    """A deterministic id for a tool call that the server sent without one: the same answer to the same
    request gets the same id, and another request gets another one."""
    return f"call_{hashlib.sha256(body).hexdigest()[:16]}_{index}"
