"""Signed HTTP requests of the Slack counterpart: events, interactions and commands for an app without Socket Mode."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.counterparts.slack_socket import EVENTS

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the app said to a request. `status` is 0 where it said nothing."""

    status: int
    text: str
    headers: Mapping[str, str]
    reason: str = ""
    """Why Slack would send it again, "" where it would not."""


def body_of(kind: str, payload: Mapping[str, Any], spacing: str = "slack") -> bytes:
    """The body of a request. `spacing` of JSON: slack (compact, with `\\/`), compact, wide, lines or unicode."""
    if kind == "slash_commands":
        return urlencode(payload).encode()
    if spacing == "wide":
        text = json.dumps(payload, separators=(" , ", " : "))
    elif spacing == "lines":
        text = json.dumps(payload, indent=4) + "\n"
    else:
        text = json.dumps(payload, separators=(",", ":"), ensure_ascii=spacing != "unicode")
        text = text.replace("/", "\\/") if spacing == "slack" else text
    return text.encode() if kind == EVENTS else urlencode({"payload": text}).encode()


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Slack's signature of the raw body."""
    return "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()


class Signed:
    """Posts to `url` while that is set, one after the other. Events come again where they are not answered by 2xx."""

    def __init__(self, secret: str, told: Callable[[], None]) -> None:
        self.url: str | None = None
        self.secret = secret
        self.retry_seconds = 0.3
        self.retries = 3
        self.answer_seconds = 3.0
        self.spacing = "slack"
        self.answers: list[Answer] = []
        self._told = told
        self._queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        """Post it, behind what was said before."""
        if not self._tasks:
            self._spawn(self._pump(), "slack:post")
        self._queue.put_nowait((kind, payload))

    async def _pump(self) -> None:
        while True:
            kind, payload = await self._queue.get()
            answer = await self.post(payload, kind=kind)
            if kind == EVENTS and answer.reason and answer.headers.get("X-Slack-No-Retry") != "1":
                self._spawn(self._again(payload, answer.reason), "slack:again")

    async def _again(self, payload: dict[str, Any], reason: str) -> None:
        for attempt in range(1, self.retries + 1):
            await asyncio.sleep(self.retry_seconds)
            answer = await self.post(payload, attempt=attempt, reason=reason)
            if not answer.reason or answer.headers.get("X-Slack-No-Retry") == "1":
                return
            reason = answer.reason

    async def post(
        self,
        payload: Mapping[str, Any] | bytes,
        *,
        kind: str = EVENTS,
        spacing: str | None = None,
        secret: str | None = None,
        age: float = 0.0,
        sign: str | None = None,
        stamp: str | None = None,
        unsigned: bool = False,
        attempt: int = 0,
        reason: str = "http_error",
        url: str | None = None,
    ) -> Answer:
        """Post once. `secret`, `age`, `sign`, `stamp` and `unsigned` make the signature wrong, old or missing."""
        target = url or self.url
        assert target is not None, "deliver_to(url) first"
        body = payload if isinstance(payload, bytes) else body_of(kind, payload, spacing or self.spacing)
        when = stamp if stamp is not None else str(int(time.time() - age))
        headers = {"Content-Type": "application/json" if kind == EVENTS else FORM, "User-Agent": "Slackbot 1.0"}
        if not unsigned:
            headers["X-Slack-Request-Timestamp"] = when
            headers["X-Slack-Signature"] = sign if sign is not None else signature(secret or self.secret, when, body)
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason}
        answer = await self._post(target, body, headers)
        self.answers.append(answer)
        self._told()
        return answer

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with (
                asyncio.timeout(self.answer_seconds),
                self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                failed = "" if 200 <= answer.status < 300 else "http_error"
                return Answer(answer.status, await answer.text(), dict(answer.headers), failed)
        except TimeoutError:
            return Answer(0, "", {}, "http_timeout")
        except aiohttp.ClientError:
            return Answer(0, "", {}, "connection_failed")

    async def verify(self, challenge: str = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P") -> bool:
        """Ask the address to answer the challenge, as Slack does when it is entered; whether it did."""
        answer = await self.post({"token": "unused", "challenge": challenge, "type": "url_verification"})
        said = answer.text
        if answer.headers.get("Content-Type", "").startswith("application/json"):
            said = json.loads(said).get("challenge", "")
        return answer.status == 200 and said.strip() == challenge

    def _spawn(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
