"""Calls of Slack's Web API by the SDK's client: one try each, with an outcome that is known or told as unknown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.errors import AdapterError, NotReady, OutcomeUnknown
from adapters.slack.errors import from_answer

ORIGIN = "https://slack.com"
SECONDS = 30.0
CONNECT_SECONDS = 10.0

QUIET = logging.getLogger("adapters.slack.sdk")
"""For the SDK: what it logs holds addresses with tickets, and what people say."""
QUIET.setLevel(logging.CRITICAL + 1)
QUIET.propagate = False
QUIET.addHandler(logging.NullHandler())


def origin(api_base: str | None) -> str:
    """The API's origin."""
    return (api_base or ORIGIN).rstrip("/")


def new_session() -> aiohttp.ClientSession:
    """A session for the API and the sockets; whoever opens it closes it."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=SECONDS, sock_connect=CONNECT_SECONDS),
        connector=aiohttp.TCPConnector(limit=50),
    )


class Api:
    """The Web API with one token over `session`."""

    def __init__(self, session: aiohttp.ClientSession, token: str, api_base: str | None) -> None:
        self.session = session
        self.token = token
        self.origin = origin(api_base)
        self.client = AsyncWebClient(
            token=token, base_url=f"{self.origin}/api/", session=session, retry_handlers=[], logger=QUIET
        )

    async def read(self, method: str, **query: str | int | bool) -> dict[str, Any]:
        """Ask for something. What breaks off is `NotReady`, since nothing can have changed."""
        return (await self._call(method, writes=False, http_verb="GET", params=dict(query)))[0]

    async def write(self, method: str, **body: Any) -> dict[str, Any]:
        """Change something. Raises `OutcomeUnknown` from the moment at which the request may have arrived."""
        return (await self._call(method, writes=True, json=body))[0]

    async def form(self, method: str, **fields: Any) -> dict[str, Any]:
        """The same, for methods that take a form only and change nothing that people see."""
        return (await self._call(method, writes=False, data=fields))[0]

    async def submit(self, method: str, **fields: Any) -> dict[str, Any]:
        """As `write`, for methods that take a form only."""
        return (await self._call(method, writes=True, data=fields))[0]

    async def who(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The answer of `auth.test`, and its headers with their names in small letters."""
        return await self._call("auth.test", writes=False, data={})

    async def pages(
        self, method: str, key: str, limit: int, **query: str | int | bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The items under `key` of a paginated method, `limit` a page, until there are no more."""
        cursor = ""
        while True:
            more: dict[str, str | int | bool] = {"cursor": cursor} if cursor else {}
            data = await self.read(method, limit=limit, **query, **more)
            for item in data.get(key) or ():
                if isinstance(item, dict):
                    yield item
            cursor = str((data.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return

    async def _call(self, method: str, *, writes: bool, **arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
        broke = OutcomeUnknown if writes else NotReady
        try:
            async with asyncio.timeout(SECONDS):
                response = await self.client.api_call(method, **arguments)
        except AdapterError:
            raise
        except SlackApiError as error:
            status, headers, body = _parts(error.response)
            found = from_answer(status, headers, body, writes=writes)
            raise found from found.__cause__
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotReady(f"Slack cannot be reached: {type(error).__name__}") from None
        except (aiohttp.ClientError, TimeoutError, OSError, SlackClientError) as error:
            # the text of these errors may hold the address: only the type is told
            raise broke(f"the request to Slack broke off: {type(error).__name__}") from None
        except (ValueError, TypeError, AttributeError) as error:  # the SDK trips over an answer that is no JSON
            raise broke(f"Slack's answer cannot be read: {type(error).__name__}") from None
        data = response.data
        if not isinstance(data, dict):
            raise broke("Slack's answer is no JSON object")
        return data, {str(name).lower(): str(value) for name, value in (response.headers or {}).items()}


def _parts(response: Any) -> tuple[int, Any, Any]:
    """Status, headers and body of the SDK's response, or of aiohttp's where the SDK could not read the body."""
    if isinstance(response, aiohttp.ClientResponse):
        return response.status, response.headers, None
    return response.status_code, response.headers or {}, response.data


def clock_skew(headers: Mapping[str, str], now: float) -> float:
    """By how many seconds Slack's clock is ahead of ours; 0 where it is less than the header can tell."""
    try:
        skew = parsedate_to_datetime(headers.get("date", "")).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return skew if abs(skew) >= 2 else 0.0


def may_get_token(url: str, own: str) -> bool:
    """Whether the bot's token may be sent to `url`: only to Slack itself, or to the configured server `own`."""
    found = urlsplit(url)
    if f"{found.scheme}://{found.netloc}" == own:
        return True
    host = found.hostname or ""
    return (
        found.scheme == "https" and found.port in (None, 443) and (host == "slack.com" or host.endswith(".slack.com"))
    )
