"""Server-sent events out of raw bytes.

The SDKs' own readers are not used: one drops an event without a name even when it is garbage, and so takes
a damaged answer for a good one; and a reader of text lines would cut JSON at U+2028.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from agent_core.errors import ModelUnavailable

LONGEST_EVENT = 16 << 20
"""Bytes. More is no event but a fault."""


async def events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """The JSON objects of the `data` fields, in order; `[DONE]` is no object and is skipped.

    Raises `ModelUnavailable` for data that is no JSON object.
    """
    rest, data = b"", bytearray()
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) + len(data) > LONGEST_EVENT:
            raise ModelUnavailable("the model's server sent an event without end")
        for line in lines:
            field = line.rstrip(b"\r")
            if field.startswith(b"data:"):
                data += field[5:] + b"\n"
            elif not field and data:
                event = _parsed(data)
                data.clear()
                if event is not None:
                    yield event
    if rest.startswith(b"data:"):
        data += rest[5:]
    last = _parsed(data)
    if last is not None:
        yield last


def _parsed(data: bytearray) -> dict[str, Any] | None:
    text = data.strip()
    if not text or text.startswith(b"[DONE]"):
        return None
    try:
        event = json.loads(text)
    except ValueError as exc:
        raise ModelUnavailable("the model's server sent a malformed chunk") from exc
    if not isinstance(event, dict):
        raise ModelUnavailable("the model's server sent a chunk that is no JSON object")
    return event
