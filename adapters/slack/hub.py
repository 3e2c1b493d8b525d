"""From a request of Slack to the commit: what is done before Slack is told that we have it.

The SDK's app verifies HTTP requests over their raw bytes. Its listeners are not used, since it acknowledges events
before they run: `Commit` stands where they cannot be reached, right behind the verification.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from aiohttp import web
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.error import BoltError
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.request import SocketModeRequest

from adapters.errors import AdapterError, AuthFailed, NotReady
from adapters.events import EventKind, MessageEvent
from adapters.ports import Accepted, Inbox
from adapters.slack.api import QUIET, Api
from adapters.slack.inbound import PLATFORM, Reader, channel_of
from adapters.slack.mrkdwn import mentions
from adapters.slack.progress import Progress
from adapters.slack.threads import Threads

log = structlog.get_logger("adapters.slack")

OVER = frozenset({"app_uninstalled", "tokens_revoked"})


class Commit(AsyncMiddleware):
    """Commits what a request holds, and says so; 503 where it could not. Only Slack's test of an address goes on."""

    def __init__(self, take: Callable[[Mapping[str, Any]], Awaitable[bool]]) -> None:
        self._take = take

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]  # noqa: A002
    ) -> BoltResponse | None:  # fmt: skip
        """See `AsyncMiddleware`."""
        if req.body.get("type") == "url_verification":
            return await next()
        return BoltResponse(status=200 if await self._take(req.body) else 503, body="")


class Hub:
    """Takes whatever Slack sends, by whichever way. `fatal` gets the error that ends the connection."""

    def __init__(
        self,
        *,
        api: Api,
        inbox: Inbox,
        reader: Reader,
        threads: Threads,
        progress: Progress,
        signing_secret: str | None,
        now: Callable[[], datetime],
        fatal: asyncio.Future[None],
    ) -> None:
        self._api = api
        self._inbox = inbox
        self._reader = reader
        self._threads = threads
        self._progress = progress
        self._now = now
        self._fatal = fatal
        self._app = AsyncApp(
            name="tidings",
            logger=QUIET,
            client=api.client,
            signing_secret=signing_secret or "",
            process_before_response=True,
            request_verification_enabled=signing_secret is not None,
            ignoring_self_events_enabled=False,
            before_authorize=Commit(self.take),
        )

    # the two ways in ------------------------------------------------------------------------------

    async def from_socket(self, request: SocketModeRequest) -> bool:
        """An envelope. False: it must not be acknowledged."""
        try:
            made = AsyncBoltRequest(mode="socket_mode", body=request.payload)
        except Exception as error:  # the SDK reads it too, and may trip over what it does not know
            log.exception("envelope.defect")
            return await self.keep(request.payload, type(error).__name__)
        response = await self._app.async_dispatch(made)
        return response.status == 200

    async def from_http(self, request: web.Request) -> web.Response:
        """A request to the webhook. What is not signed by Slack is 401, what could not be committed 503."""
        stamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        raw = await request.read()
        # the SDK's verifier breaks on these instead of refusing them
        if not stamp.isascii() or not stamp.isdecimal() or not signature or not signature.isascii():
            return web.json_response({"error": "invalid request"}, status=401)
        try:
            made = AsyncBoltRequest(
                body=raw.decode("utf-8"), query=request.query_string, headers=dict(request.headers), mode="http"
            )  # fmt: skip
        except (BoltError, ValueError, TypeError, AttributeError):
            return web.json_response({"error": "invalid request"}, status=401)
        response = await self._app.async_dispatch(made)
        kind = (response.headers.get("content-type") or ["text/plain;charset=utf-8"])[0].partition(";")[0]
        return web.Response(status=response.status, text=response.body or "", content_type=kind)

    # the commit -----------------------------------------------------------------------------------

    async def take(self, body: Mapping[str, Any]) -> bool:
        """Commit what `body` holds. False where the store cannot take it. Never raises but for a cancel."""
        channel = channel_of(body)
        try:
            if self._ends(body):
                return True
            await self._look_around(body, channel)
            event = self._reader.read(body, self._now())
            if event is None:
                self._hear_own(body)
                log.debug("event.ignored", kind=_kind(body))
                return True
            await self.accept(event)
        except NotReady as error:
            log.warning("event.not_committed", kind=_kind(body), error=str(error))
            self._progress.missed(channel)
            return False
        except Exception as error:  # the boundary of one event: its defect ends neither the connection nor the others
            log.exception("event.defect", kind=_kind(body))
            return await self.keep(body, type(error).__name__)
        return True

    async def accept(self, event: MessageEvent) -> Accepted:
        """Commit an event, and move the cursors behind it. Raises `NotReady`."""
        accepted = await self._inbox.accept(event)
        if event.kind is EventKind.MESSAGE:
            await self._heard(event)
        return accepted

    async def _heard(self, event: MessageEvent) -> None:
        channel, ts, thread = event.address.chat_id, event.message_id, event.address.thread_id
        await self._progress.know(channel, ts)
        if thread is None or event.address.chat_kind == "private":
            reply = thread if thread != ts else None
        else:
            self._threads.note(channel, thread, ours=event.mentions_us)
            reply = None if thread == ts else thread
            if self._threads.ours(channel, thread):
                await self._progress.know(f"{channel}/{thread}", ts)
        if reply is not None and event.address.chat_kind == "private":
            await self._progress.know(f"{channel}/{reply}", ts)
        self._progress.heard(channel, ts, reply)

    async def _look_around(self, body: Mapping[str, Any], channel: str) -> None:
        """Ask of the thread of a reply that is not known: see `threads`."""
        event = body.get("event")
        if not isinstance(event, Mapping) or event.get("type") != "message" or channel.startswith("D"):
            return
        thread, ts = event.get("thread_ts"), event.get("ts")
        if not isinstance(thread, str) or thread == ts or event.get("subtype") not in (None, "file_share"):
            return
        plain = event.get("parent_user_id") != self._reader.bot_user and not mentions(
            str(event.get("text")), self._reader.bot_user
        )
        if plain and not self._reader.is_own(event) and not self._threads.known(channel, thread):
            await self._threads.ask(self._api, channel, thread)

    def _hear_own(self, body: Mapping[str, Any]) -> None:
        """A message of ours, maybe by another process: its thread is ours."""
        event = body.get("event")
        if isinstance(event, Mapping) and event.get("type") == "message" and self._reader.is_own(event):
            channel, ts, thread = event.get("channel"), event.get("ts"), event.get("thread_ts")
            if isinstance(channel, str) and isinstance(ts, str) and event.get("subtype") in (None, "bot_message"):
                self._threads.sent(channel, ts, thread if isinstance(thread, str) else None)

    def _ends(self, body: Mapping[str, Any]) -> bool:
        """What is about the connection itself."""
        if body.get("type") == "app_rate_limited":
            log.warning("events.limited_by_slack")
            self._progress.missed("")
            return True
        event = body.get("event")
        kind = event.get("type") if isinstance(event, Mapping) else None
        if kind not in OVER or not isinstance(event, Mapping):
            return False
        tokens = event.get("tokens")
        bots = tokens.get("bot") if isinstance(tokens, Mapping) else None
        if kind == "app_uninstalled" or bots:
            told = "The app was removed from the workspace." if kind == "app_uninstalled" else "The token was revoked."
            if not self._fatal.done():
                self._fatal.set_exception(AuthFailed(f"Slack tells: {kind}", told=told))
        return True

    async def keep(self, body: Mapping[str, Any], reason: str) -> bool:
        """Keep what cannot be read for the operator: unacknowledged it would only come again."""
        raw = json.dumps(body, default=str)[:50_000]
        mark = str(body.get("event_id") or body.get("trigger_id") or hashlib.sha256(raw.encode()).hexdigest())
        try:
            await self._inbox.unreadable(PLATFORM, self._reader.bot_user, f"x:{mark}", raw, reason)
        except AdapterError:
            return False
        return True


def _kind(body: Mapping[str, Any]) -> str:
    event = body.get("event")
    inner = f"{event.get('type')}/{event.get('subtype')}" if isinstance(event, Mapping) else ""
    return f"{body.get('type')} {inner}"[:100]
