"""The queue of updates: long polling with offsets, and a webhook."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.counterparts.telegram_rules import Refused

JsonDict = dict[str, Any]

NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
LONGEST_POLL = 50.0

WEBHOOK_SET = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
OTHER_POLL = "terminated by other getUpdates request; make sure that only one bot instance is running"

Reply = Callable[[JsonDict], Awaitable[None]]


@dataclass(slots=True)
class Webhook:
    """What `setWebhook` set, and what became of the posts."""

    url: str = ""
    secret: str = ""
    max_connections: int = 40
    last_error: str = ""
    last_error_date: int = 0
    posts: list[tuple[int, int]] = field(default_factory=list)
    """The update id and the status of each post; status 0 is a connection that failed."""


class Updates:
    """Updates wait here until they are confirmed. Not safe across threads; one loop."""

    def __init__(self, *, first_id: int = 500001, retry: float = 0.05, attempts: int = 100) -> None:
        self.waiting: list[JsonDict] = []
        self.confirmed = 0
        """The highest offset the bot confirmed: every update with a lower id is gone."""
        self.skipped: list[JsonDict] = []
        """Updates that were not kept: their kind was not allowed when they came up."""
        self.dropped: list[JsonDict] = []
        """Updates thrown away by `drop_pending_updates`."""
        self.allowed: list[str] | None = None
        self.hook = Webhook()
        self.polling = 0
        """Requests that wait just now."""
        self.on_change: Callable[[], None] = lambda: None
        self.on_reply: Reply | None = None
        """Called with the method a bot answered a webhook post with."""
        self._next_id = first_id
        self._retry, self._attempts = retry, attempts
        self._extra: list[JsonDict] = []
        self._held: list[JsonDict] | None = None
        self._arrived = asyncio.Event()
        self._waiter: asyncio.Event | None = None
        self._reason = ""
        self._sender: asyncio.Task[None] | None = None

    def push(self, kind: str, payload: JsonDict) -> JsonDict:
        """A new update of a kind the bot wants is kept; the update either way."""
        return self.push_raw({kind: payload}, wanted=self.wants(kind))

    def push_raw(self, raw: JsonDict, *, wanted: bool = True) -> JsonDict:
        """Keep an update as it is; it gets an id where it has none."""
        update = {"update_id": self._next_id, **raw}
        if isinstance(update["update_id"], int):
            self._next_id = max(self._next_id, update["update_id"]) + 1
        if not wanted:
            self.skipped.append(update)
            return update
        (self.waiting if self._held is None else self._held).append(update)
        self._tell()
        return update

    def wants(self, kind: str) -> bool:
        """Is this kind asked for?"""
        return kind in self.allowed if self.allowed else kind not in NOT_BY_DEFAULT

    def duplicate(self, update: JsonDict) -> None:
        """Deliver this update once more, with the same id, whatever was confirmed."""
        self._extra.append(update)
        self._tell()

    def hold(self) -> None:
        """Keep new updates back until `release`."""
        if self._held is None:
            self._held = []

    def release(self, order: Sequence[int] | None = None) -> None:
        """Let the updates that were held go, in `order` (their places, counted from 0)."""
        held, self._held = self._held or [], None
        self.waiting += held if order is None else [held[at] for at in order]
        self._tell()

    def allow(self, allowed: list[str] | None) -> None:
        """Take over `allowed_updates`: None leaves it, an empty list is the default."""
        if allowed is not None:
            self.allowed = list(allowed) or None

    def _tell(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()
        self.on_change()

    # long polling

    async def poll(self, offset: int, limit: int, timeout: float, allowed: list[str] | None) -> list[JsonDict]:  # noqa: ASYNC109 - the API's own parameter
        """`getUpdates`. A request that waits already is answered with 409."""
        if self.hook.url:
            raise Refused(WEBHOOK_SET, 409)
        self.allow(allowed)
        self.end_poll(OTHER_POLL)
        self._confirm(offset)
        stop = self._waiter = asyncio.Event()
        deadline = asyncio.get_running_loop().time() + min(max(timeout, 0), LONGEST_POLL)
        self.polling += 1
        try:
            while not (found := self._available(offset, limit)):
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return []
                await _first(self._arrived, stop, left)
                if stop.is_set():
                    raise Refused(self._reason, 409)
            return found
        finally:
            self.polling -= 1
            if self._waiter is stop:
                self._waiter = None

    def end_poll(self, reason: str) -> None:
        """Answer the request that waits, if any, with 409 and `reason`."""
        if self._waiter is not None:
            self._reason = reason
            self._waiter.set()
            self._waiter = None

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self.waiting = self.waiting[offset:]
            offset = self.waiting[0]["update_id"] if self.waiting else self._next_id
        self.confirmed = max(self.confirmed, offset)
        self.waiting = [one for one in self.waiting if not _before(one, offset)]
        self.on_change()

    def _available(self, offset: int, limit: int) -> list[JsonDict]:
        extra, self._extra = self._extra, []
        ready = [one for one in self.waiting if offset <= 0 or not _before(one, offset)]
        return [*extra, *ready][:limit]

    # the webhook

    def set_hook(self, params: JsonDict, now: Callable[[], float]) -> None:
        """`setWebhook`; an empty URL removes it."""
        url = params.get("url", "")
        secret = params.get("secret_token", "")
        if url and not re.match(r"https://|http://(127\.0\.0\.1|localhost)[:/]", url):
            raise Refused("bad webhook: An HTTPS URL must be provided for webhook")
        if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret):
            raise Refused("secret token contains unallowed characters")
        self.allow(params.get("allowed_updates"))
        self.unset_hook(drop=bool(params.get("drop_pending_updates")))
        if not url:
            return
        self.end_poll("terminated by setWebhook request")
        self.hook = Webhook(url=url, secret=secret, max_connections=params.get("max_connections", 40))
        self._sender = asyncio.create_task(self._send_all(now), name="telegram-webhook")

    def unset_hook(self, *, drop: bool) -> None:
        """`deleteWebhook`."""
        if self._sender is not None:
            self._sender.cancel()
            self._sender = None
        self.hook = Webhook()
        if drop:
            self.dropped += self.waiting
            self.waiting = []
        self.on_change()

    def info(self) -> JsonDict:
        """`getWebhookInfo`."""
        found: JsonDict = {
            "url": self.hook.url,
            "has_custom_certificate": False,
            "pending_update_count": len(self.waiting),
        }
        if self.hook.url:
            found["max_connections"] = self.hook.max_connections
        if self.allowed:
            found["allowed_updates"] = self.allowed
        if self.hook.last_error:
            found |= {"last_error_date": self.hook.last_error_date, "last_error_message": self.hook.last_error}
        return found

    async def close(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.cancel()
            with suppress(asyncio.CancelledError):
                await self._sender

    async def _send_all(self, now: Callable[[], float]) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            while True:
                arrived = self._arrived
                queue = self._extra or self.waiting
                if not queue:
                    await arrived.wait()
                    continue
                update = queue[0]
                for _ in range(self._attempts):
                    if await self._post(session, update, now):
                        break
                    await asyncio.sleep(self._retry)
                if update in queue:
                    queue.remove(update)
                if isinstance(update["update_id"], int):
                    self.confirmed = max(self.confirmed, update["update_id"] + 1)
                self.on_change()

    async def _post(self, session: aiohttp.ClientSession, update: JsonDict, now: Callable[[], float]) -> bool:
        hook = self.hook
        headers = {"X-Telegram-Bot-Api-Secret-Token": hook.secret} if hook.secret else {}
        answered: Any = None
        try:
            async with session.post(hook.url, json=update, headers=headers) as response:
                status, reason = response.status, response.reason
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            status, reason, body = 0, "Connection refused", b""
        hook.posts.append((update["update_id"], status))
        self.on_change()
        if not 200 <= status < 300:
            hook.last_error = f"Wrong response from the webhook: {status} {reason}" if status else str(reason)
            hook.last_error_date = int(now())
            return False
        with suppress(ValueError):
            answered = json.loads(body) if body else None
        if isinstance(answered, dict) and "method" in answered and self.on_reply is not None:
            await self.on_reply(answered)
        return True


def _before(update: JsonDict, offset: int) -> bool:
    number = update["update_id"]
    return isinstance(number, int) and number < offset


async def _first(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.create_task(event.wait(), name="telegram-poll") for event in (one, other)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
