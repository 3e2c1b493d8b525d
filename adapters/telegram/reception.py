"""Takes updates, from polling or the webhook, into the inbox: returns after the commit, and only then."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog
from telegram import Update

from adapters.errors import AdapterError, NotReady
from adapters.ports import Inbox
from adapters.telegram.ids import PLATFORM
from adapters.telegram.inbound import Ears, events_of, move_in
from adapters.telegram.link import Link

log = structlog.get_logger("adapters.telegram")

RAW = 100_000
"""Characters of an update that cannot be read which are kept for the operator."""
ANSWER = 10.0
"""Seconds for the answer to a press; Telegram forgets the press soon anyway."""


class Chores:
    """Small tasks beside the work, ended with the connection: an async context manager."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work`, which handles its own errors."""
        task = asyncio.create_task(work, name=f"adapter:{PLATFORM}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel what still runs, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Reception:
    """One connection's way into the inbox."""

    def __init__(self, inbox: Inbox, ears: Ears, link: Link, chores: Chores) -> None:
        self._inbox = inbox
        self._ears = ears
        self._link = link
        self._chores = chores

    async def take(self, raw: Any) -> None:
        """Commit one update. Raises `NotReady` where the store cannot take it, and nothing else on purpose.

        An update that cannot be read is committed as such: else it would block all that follow it.
        """
        try:
            update = Update.de_json(raw, None)
            move = move_in(update)
        except Exception as error:  # noqa: BLE001 - a shape that the SDK does not know is data, not a defect of ours
            await self._unreadable(raw, error)
            return
        if move is not None:
            await self._ears.moves.moved(PLATFORM, *move)
        try:
            events = events_of(update, self._ears, datetime.now(UTC))
        except Exception as error:  # noqa: BLE001 - as above: one odd message must not cost the others
            await self._unreadable(raw, error)
            return
        for event in events:
            try:
                await self._inbox.accept(event)
            except NotReady:
                raise
            except Exception as error:  # a defect behind the port: kept for the operator, and the others go on
                log.exception("telegram.not_accepted", update=update.update_id)
                await self._unreadable(raw, error)
        if update.callback_query is not None:
            self._chores.start(self._answer(update.callback_query.id), "press")

    async def _unreadable(self, raw: Any, error: Exception) -> None:
        text = json.dumps(raw, ensure_ascii=False, default=repr)
        number = raw.get("update_id") if isinstance(raw, dict) else None
        name = number if isinstance(number, int) else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        await self._inbox.unreadable(PLATFORM, self._ears.account, f"u:{name}", text[:RAW], reason)

    async def _answer(self, query: str) -> None:
        """End the waiting circle on the button. Best effort: a press that is too old cannot be answered."""
        try:
            async with asyncio.timeout(ANSWER):
                await self._link.ask(lambda bot: bot.answer_callback_query(query))
        except (AdapterError, TimeoutError) as error:
            log.debug("telegram.press_not_answered", error=str(error))
