"""The connection to the Bot API: the SDK's `Bot`, its two pools of sockets, and how a call ends.

`getUpdates` has a pool of its own, so that a poll that hangs never holds up a send. The SDK repeats nothing
by itself, and neither do we: a call is made once and ends with a result or an `AdapterError`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import httpx
import structlog
from telegram import Bot, User
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from adapters.errors import AdapterError, NotReady, OutcomeUnknown
from adapters.telegram.errors import Refusal, translate

log = structlog.get_logger("adapters.telegram")

T = TypeVar("T")

OFFICIAL = "https://api.telegram.org"
CONNECT, READ, WRITE, POOL = 10.0, 25.0, 20.0, 5.0
"""Seconds. Together below the minute that the gateway gives a call, so that the more exact error is ours."""
SENDERS = 16
"""Connections for everything but polling."""
DRAIN = 5.0
"""Seconds that calls under way get when the connection is closed."""

for _name in ("telegram", "httpx", "httpcore"):
    # their lines hold the token (in every address) and the words of people
    logging.getLogger(_name).setLevel(max(logging.WARNING, logging.getLogger(_name).level))


class Request(HTTPXRequest):
    """The SDK's transport, which keeps what an answer says (status, parameters) and logs no bodies."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """As the SDK's; an answer that is no success is raised as `Refusal`."""
        code, payload = await super().do_request(*args, **kwargs)
        if 200 <= code <= 299:
            return code, payload
        raise _refusal(code, payload)

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """As the SDK's, without writing the payload into the log."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"))
        except ValueError as error:
            raise TelegramError("Invalid server response") from error
        if not isinstance(found, dict) or "result" not in found:
            raise TelegramError("Invalid server response")
        return found


def _refusal(code: int, payload: bytes) -> Refusal:
    try:
        found = json.loads(payload.decode("utf-8", "replace"))
    except ValueError:
        found = None
    if not isinstance(found, dict):  # a proxy's page
        return Refusal(code, f"HTTP status {code}")
    parameters = found.get("parameters")
    return Refusal(
        code, str(found.get("description") or f"HTTP status {code}"), parameters if isinstance(parameters, dict) else {}
    )


@cache
def tls() -> ssl.SSLContext:
    """The certificates, read once: that blocks for a while. For all connections of the process."""
    return httpx.create_ssl_context()


def _request(connections: int) -> Request:
    return Request(
        connection_pool_size=connections,
        connect_timeout=CONNECT,
        read_timeout=READ,
        write_timeout=WRITE,
        media_write_timeout=WRITE,
        pool_timeout=POOL,
        httpx_kwargs={"verify": tls()},
    )


class Api(Bot):
    """The SDK's bot, and the one method that we need in another form."""

    async def raw_updates(self, *, offset: int | None, allowed: Sequence[str], seconds: float, grace: float) -> Any:
        """`getUpdates` as it came: one update that the SDK cannot read must not cost the others of the batch."""
        data: dict[str, Any] = {"timeout": int(seconds), "allowed_updates": list(allowed), "limit": 100}
        if offset is not None:
            data["offset"] = offset
        return await self._post("getUpdates", data, read_timeout=seconds + grace)

    async def raw_file(self, file_id: str) -> Any:
        """`getFile` as it came: the SDK puts the token into the path."""
        return await self._post("getFile", {"file_id": file_id})


class Link:
    """One connection, from `open` to `close`; not opened twice."""

    def __init__(self, token: str, api_base: str | None) -> None:
        origin = (api_base or OFFICIAL).rstrip("/")
        self.is_local = api_base is not None
        """Another server than Telegram's own, which may know no limit of size and tell paths of its disk."""
        self._file_base = f"{origin}/file/bot{token}"
        self._poll = _request(1)
        self._rest = _request(SENDERS)
        self._files: httpx.AsyncClient | None = None
        self.bot = Api(
            token,
            base_url=f"{origin}/bot",
            base_file_url=f"{origin}/file/bot",
            request=self._rest,
            get_updates_request=self._poll,
        )
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._suspect = False

    async def me(self) -> User:
        """Who we are. The first call; raises `AuthFailed` where the token is refused, and `NotReady`."""
        try:
            return await self.bot.get_me()
        except Exception as error:  # every end of the call has a typed error
            raise _certain(translate(error)) from error

    async def call(self, make: Callable[[Api], Awaitable[T]]) -> T:
        """Make a call that changes something there: exactly once, or a typed error.

        After a call of which nobody knows how it ended Telegram is asked first whether it answers at all:
        so an outage is waited for, instead of using up the one repetition that an unknown outcome has.
        """
        if self._closing:
            raise NotReady("the connection to Telegram is being closed")
        async with self._under_way():
            if self._suspect:
                await self.me()
                self._suspect = False
            try:
                return await make(self.bot)
            except asyncio.CancelledError:
                self._suspect = True
                raise
            except TelegramError as error:
                if isinstance(error, Refusal) and error.code < 500:
                    raise  # the caller may have an answer to it
                found = translate(error)
                self._suspect = isinstance(found, OutcomeUnknown)
                raise found from error

    def suspect(self) -> None:
        """Ask Telegram whether it answers before the next call."""
        self._suspect = True

    async def ask(self, make: Callable[[Api], Awaitable[T]]) -> T:
        """Make a call that changes nothing, or nothing that doing it again would spoil."""
        try:
            return await self.call(make)
        except (Refusal, OutcomeUnknown) as error:
            raise _certain(translate(error)) from error

    @asynccontextmanager
    async def _under_way(self) -> AsyncIterator[None]:
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def updates(self, *, offset: int | None, allowed: Sequence[str], seconds: float, grace: float) -> Any:
        """One long poll; what the SDK raises is raised. Bounded by `seconds + 2 * grace` altogether."""
        async with asyncio.timeout(seconds + 2 * grace):
            return await self.bot.raw_updates(offset=offset, allowed=allowed, seconds=seconds, grace=grace)

    async def renew_poll(self) -> None:
        """Throw the polling sockets away: one that is half open would be taken again and again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._poll.shutdown()
        await self._poll.initialize()

    @asynccontextmanager
    async def download(self, path: str) -> AsyncIterator[httpx.Response]:
        """The response for a file's path, not read yet. Raises `httpx.HTTPError`."""
        if self._files is None:
            self._files = httpx.AsyncClient(
                verify=tls(), timeout=httpx.Timeout(READ, connect=CONNECT), follow_redirects=False
            )
        address = httpx.URL(f"{self._file_base}/{path.lstrip('/')}")
        async with self._files.stream("GET", address) as response:
            yield response

    async def close(self) -> None:
        """Let calls under way end, for a few seconds, and close every socket."""
        self._closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._idle.wait()
        closers = [self._poll.shutdown(), self._rest.shutdown()]
        if self._files is not None:
            closers.append(self._files.aclose())
        try:
            async with asyncio.timeout(DRAIN):
                for outcome in await asyncio.gather(*closers, return_exceptions=True):
                    if isinstance(outcome, Exception):
                        log.debug("telegram.close_failed", error=type(outcome).__name__)
        except TimeoutError:
            log.warning("telegram.close_stuck")


def _certain(error: AdapterError) -> AdapterError:
    """For calls that may be repeated: an unknown outcome is only a failure to reach Telegram."""
    if isinstance(error, OutcomeUnknown):
        return NotReady(str(error), told="Telegram cannot be reached at the moment.")
    return error
