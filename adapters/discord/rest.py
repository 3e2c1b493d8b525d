"""One request to Discord's REST API: a single try, with an outcome that is known or told as unknown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from adapters.discord.errors import from_answer
from adapters.errors import AdapterError, NotReady, OutcomeUnknown, RetryAfter

ORIGIN = "https://discord.com"
VERSION = "/api/v10"
USER_AGENT = "DiscordBot (https://github.com/tidings/tidings, 1) Tidings"
"""The form that Discord asks for: https://discord.com/developers/docs/reference#user-agent."""
SECONDS = 30.0
UPLOAD_SECONDS = 55.0
ANSWER = 16_000_000
"""Bytes of an answer that are read at most."""


class Rest:
    """Requests with the bot's token over `session`. After a wait that is for the whole account was asked
    for, nothing is sent until it is over: every call raises `RetryAfter` with what is left of it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        token: str,
        api_base: str | None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._base = (api_base or ORIGIN).rstrip("/") + VERSION
        self._headers = {"Authorization": f"Bot {token}", "User-Agent": USER_AGENT}
        self._now = now
        self._held_until = 0.0

    async def get(self, path: str, **query: str | int) -> Any:
        """Read something. Raises `NotReady` where the outcome is not known, since nothing can have changed."""
        return await self._request("GET", path, query=query, writes=False)

    async def send(self, method: str, path: str, body: Any = None, *, form: aiohttp.FormData | None = None) -> Any:
        """Change something. Raises `OutcomeUnknown` from the moment at which the request may have arrived."""
        return await self._request(method, path, body=body, form=form, writes=True)

    async def bare(self, method: str, path: str, body: Any = None) -> Any:
        """The same for addresses that hold their own token (interactions), which know no account-wide limit."""
        return await self._request(method, path, body=body, writes=True, own=False)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        writes: bool,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        form: aiohttp.FormData | None = None,
        own: bool = True,
    ) -> Any:
        if own and (left := self._held_until - self._now()) > 0:
            raise RetryAfter(left, everywhere=True)
        headers = dict(self._headers) if own else {"User-Agent": USER_AGENT}
        data: Any = form
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=SECONDS if form is None else UPLOAD_SECONDS, sock_connect=10)
        try:
            async with self._session.request(
                method, self._base + path, params=query, data=data, headers=headers, timeout=timeout
            ) as answer:
                return await self._read(answer, writes=writes, own=own)
        except AdapterError:
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotReady(f"Discord cannot be reached: {type(error).__name__}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # the text of these errors may hold the address: only the type is told
            kind = OutcomeUnknown if writes else NotReady
            raise kind(f"the request to Discord broke off: {type(error).__name__}") from None

    async def _read(self, answer: aiohttp.ClientResponse, *, writes: bool, own: bool) -> Any:
        raw = bytearray()
        while len(raw) < ANSWER and (part := await answer.content.read(ANSWER - len(raw))):
            raw += part
        found = _parsed(bytes(raw))
        if 200 <= answer.status < 300:
            return found
        error = from_answer(answer.status, answer.headers, found, writes=writes)
        if own and isinstance(error, RetryAfter) and error.everywhere:
            self._held_until = max(self._held_until, self._now() + error.seconds)
        raise error


def _parsed(raw: bytes) -> Any:
    """The JSON of an answer, or None."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
