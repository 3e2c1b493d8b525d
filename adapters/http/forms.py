"""Requests as events."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from aiohttp import web

from adapters.events import Attachment, ChatAddress, EventKind, HistoryItem, MessageEvent
from adapters.http.auth import PRINCIPAL
from adapters.http.desk import sender
from adapters.http.fields import checked_name
from adapters.http.lines import stable_id

_COMMAND = re.compile(r"/[a-zA-Z][a-zA-Z0-9_-]*(?:\s|$)")


def principal(request: web.Request) -> str:
    """The name of the key. The server lets nobody through who has none."""
    return request[PRINCIPAL]


def repeat_key(request: web.Request) -> str | None:
    """The client's own id for the request: what comes with the same one again is the same message."""
    value = request.headers.get("Idempotency-Key")
    return None if value is None else checked_name(value, "Idempotency-Key")


def message_event(
    name: str,
    address: ChatAddress,
    message_id: str,
    text: str,
    now: datetime,
    *,
    commands: bool,
    attachments: tuple[Attachment, ...] = (),
    history: tuple[HistoryItem, ...] = (),
    instructions: str | None = None,
    model: str | None = None,
    note: dict[str, Any] | None = None,
) -> MessageEvent:
    """A message of the principal `name`. With `commands`, a line like `/status` is a command.

    `note` is kept with the event, for the look-ups of this adapter.
    """
    kept = {"hash": stable_id("", text, instructions or "", model or ""), **(note or {})}
    return MessageEvent(
        dedup_id=f"{name}/m/{message_id}",
        kind=EventKind.COMMAND if commands and _COMMAND.match(text) else EventKind.MESSAGE,
        message_id=message_id,
        address=address,
        sender=sender(name),
        received_at=now,
        text=text,
        attachments=attachments,
        mentions_us=True,
        history=history,
        instructions=instructions,
        model=model,
        platform_data=json.dumps(kept, ensure_ascii=False, separators=(",", ":")),
    )
