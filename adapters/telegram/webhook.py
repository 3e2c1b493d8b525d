"""The webhook: a route of the gateway's HTTP server that Telegram posts updates to.

Telegram repeats an update until it is answered with a status of 2xx (core.telegram.org/bots/api#setwebhook), so
that 200 is said after the commit, and 503 where there could be none. One connection at a time keeps the order.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiohttp import web

from adapters.errors import AuthFailed, NotReady
from adapters.telegram.errors import Refusal, translate
from adapters.telegram.inbound import ALLOWED
from adapters.telegram.link import Link
from adapters.telegram.settings import WebhookSettings

log = structlog.get_logger("adapters.telegram")

HEADER = "X-Telegram-Bot-Api-Secret-Token"
LARGEST = 2 * 2**20
"""Bytes of a post; an update has some thousands."""
TAKE = 30.0
FAILURES = 3


class Door:
    """The route. It is there from the start of the server on; `take` is set while the adapter runs."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._one = asyncio.Lock()
        self.take: Callable[[Any], Awaitable[None]] | None = None

    async def handle(self, request: web.Request) -> web.Response:
        """401 without the secret, 413 and 400 for what is no update, 503 where it cannot be committed, else 200."""
        given = request.headers.get(HEADER, "").encode("utf-8", "surrogateescape")
        if not self._secret or not hmac.compare_digest(given, self._secret):
            return web.Response(status=401)
        body = await self._body(request)
        if body is None:
            return web.Response(status=413)
        try:
            raw = json.loads(body)
        except (ValueError, RecursionError):
            return web.Response(status=400)
        take = self.take
        if take is None:
            return web.Response(status=503)
        try:
            async with asyncio.timeout(TAKE), self._one:
                await take(raw)
        except (NotReady, TimeoutError) as error:
            log.warning("telegram.webhook_not_taken", error=str(error))
            return web.Response(status=503)
        return web.Response(status=200)

    async def _body(self, request: web.Request) -> bytes | None:
        if (request.content_length or 0) > LARGEST:
            return None
        parts, size = [], 0
        async for part in request.content.iter_chunked(65536):
            size += len(part)
            if size > LARGEST:
                return None
            parts.append(part)
        return b"".join(parts)


def address(settings: WebhookSettings) -> str:
    """Where Telegram posts: the public address, with the path unless it ends with it already."""
    url = (settings.url or "").rstrip("/")
    return url if url.endswith(settings.path) else url + settings.path


async def serve(
    link: Link, settings: WebhookSettings, door: Door, take: Callable[[Any], Awaitable[None]],
    ready: Callable[[], None], watch: float,
) -> None:  # fmt: skip
    """Tell Telegram where to post, take posts, and look every `watch` seconds whether they still come here.

    Runs until cancelled. Raises `AuthFailed` where the token or the address is refused, and `NotReady`.
    """
    url = address(settings)
    secret = settings.secret.get_secret_value() if settings.secret is not None else ""
    await _set(link, url, secret)
    door.take = take
    try:
        ready()
        failures, told = 0, None
        while True:
            await asyncio.sleep(watch)
            try:
                info = await link.ask(lambda bot: bot.get_webhook_info())
            except NotReady:
                failures += 1
                if failures >= FAILURES:
                    raise
                continue
            failures = 0
            if info.url != url:
                raise NotReady("another program has changed the webhook", told="Another program uses this bot's token.")
            if info.last_error_date is not None and info.last_error_date != told:
                told = info.last_error_date
                log.warning(
                    "telegram.webhook_failing", error=info.last_error_message, waiting=info.pending_update_count
                )
    finally:
        door.take = None


async def _set(link: Link, url: str, secret: str) -> None:
    try:
        await link.call(
            lambda bot: bot.set_webhook(
                url, secret_token=secret, allowed_updates=list(ALLOWED), max_connections=1, drop_pending_updates=False
            )
        )
    except Refusal as error:
        if error.code == 400:
            raise AuthFailed(
                f"Telegram refuses the webhook: {error.message}", told=f"Telegram refuses the webhook: {error.message}"
            ) from error
        raise translate(error) from error
