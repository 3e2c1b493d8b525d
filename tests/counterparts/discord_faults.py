"""What goes wrong on purpose: rules that the next fitting calls of the REST API meet.

A pattern is a path without `/api/v10`, segment by segment: `*` (or `{name}`) is one segment, `**` is the rest. Rules
are used in the order in which they were given, `times` times each (None: for ever).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

VIA = "1.1 google"
_TITLES = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Time-out"}
_MESSAGES = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10008: (404, "Unknown Message"),
    10013: (404, "Unknown User"),
    10062: (404, "Unknown interaction"),
    40005: (413, "Request entity too large"),
    50001: (403, "Missing Access"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50035: (400, "Invalid Form Body"),
    50083: (400, "Thread is archived"),
    160004: (400, "A thread has already been created for this message"),
}


@dataclass(slots=True)
class Call:
    """A call of the REST API as it arrived. `status` is 0 until it is answered, and stays so where it never is."""

    method: str
    path: str
    """Without `/api/v10`."""
    query: dict[str, str]
    body: Any
    files: list[tuple[str, bytes]]
    time: float
    """`time.monotonic()`."""
    authorization: str = ""
    status: int = 0
    answer: Any = None
    """What was done, as it was told, or would have been."""


@dataclass(slots=True)
class Rule:
    """One fault."""

    method: str
    pattern: re.Pattern[str]
    do: Literal["answer", "drop", "accept_then_drop", "hang"]
    times: int | None = 1
    when: Callable[[Call], bool] | None = None
    answer: Callable[[], web.Response] | None = None
    met: list[Call] = field(default_factory=list)
    """The calls that met it."""
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let calls that hang go on."""
        self.released.set()

    def fits(self, call: Call) -> bool:
        """Whether the call meets this rule."""
        return (
            self.times != 0
            and self.method in ("*", call.method)
            and self.pattern.fullmatch(call.path) is not None
            and (self.when is None or self.when(call))
        )


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as an expression; see the module."""
    parts = []
    for part in pattern.strip("/").split("/"):
        if part == "**":
            parts.append(".*")
        elif part == "*" or part.startswith("{"):
            parts.append("[^/]+")
        else:
            parts.append(re.escape(part))
    return re.compile("/" + "/".join(parts))


def json_answer(status: int, payload: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of the content type that discord.py takes for JSON."""
    body = json.dumps(payload).encode()
    return web.Response(
        status=status, body=body, content_type="application/json", headers={"Via": VIA, **(headers or {})}
    )


def limited(retry_after: float, *, everywhere: bool, bucket: str = "counterpart", limit: int = 5) -> web.Response:
    """429 as Discord itself says it: of one route, or of all."""
    headers = {"Retry-After": str(max(1, round(retry_after)))}
    if everywhere:
        headers |= {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}
    else:
        headers |= {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": f"{time.time() + retry_after:.3f}",
            "X-RateLimit-Reset-After": f"{retry_after:.3f}",
            "X-RateLimit-Bucket": bucket,
            "X-RateLimit-Scope": "user",
        }
    payload = {"message": "You are being rate limited.", "retry_after": retry_after, "global": everywhere}
    return json_answer(429, payload, headers)


def page(status: int, headers: Mapping[str, str]) -> web.Response:
    """What stands in front of Discord answers: no JSON, no `Via`."""
    title = "error code: 1015" if status == 429 else f"{status} {_TITLES.get(status, 'Error')}"
    text = f"<html><head><title>{title}</title></head><body><center><h1>{title}</h1></center></body></html>"
    return web.Response(status=status, text=text, content_type="text/html", headers={"Server": "cloudflare", **headers})


class Limits:
    """A real bucket of calls: `calls` in `seconds` for each path that fits."""

    def __init__(self, method: str, pattern: str, calls: int, seconds: float) -> None:
        self.method, self.pattern, self.calls, self.seconds = method, compile_pattern(pattern), calls, seconds
        self.refused = 0
        self._seen: dict[str, deque[float]] = {}

    def fits(self, call: Call) -> bool:
        """Whether the call counts here."""
        return call.method == self.method and self.pattern.fullmatch(call.path) is not None

    def _channel(self, call: Call) -> str:
        return "/".join(call.path.split("/")[:3])

    def take(self, call: Call) -> tuple[dict[str, str], float]:
        """The headers of the answer, and how long to wait where the bucket is empty (0 where it is not)."""
        now = time.monotonic()
        seen = self._seen.setdefault(self._channel(call), deque())
        while seen and seen[0] <= now - self.seconds:
            seen.popleft()
        wait = 0.0
        if len(seen) >= self.calls:
            self.refused += 1
            wait = seen[0] + self.seconds - now
        else:
            seen.append(now)
        reset = seen[0] + self.seconds - now
        return {
            "X-RateLimit-Limit": str(self.calls),
            "X-RateLimit-Remaining": str(max(0, self.calls - len(seen))),
            "X-RateLimit-Reset": f"{time.time() + reset:.3f}",
            "X-RateLimit-Reset-After": f"{reset:.3f}",
            "X-RateLimit-Bucket": f"limit{id(self):x}",
        }, wait


class Faults:
    """The rules that wait. See the module."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.limits: list[Limits] = []

    def fail(
        self,
        method: str,
        pattern: str,
        *,
        status: int = 0,
        code: int | None = None,
        message: str = "",
        retry_after: float | None = None,
        global_: bool = False,
        html: bool | None = None,
        headers: Mapping[str, str] | None = None,
        times: int | None = 1,
        when: Callable[[Call], bool] | None = None,
    ) -> Rule:
        """Answer with an error instead of doing what was asked.

        With a `code` of Discord alone, status and message are those that go with it. 429 with `retry_after` is the
        limit of a route (`global_`: of the whole bot); with `html` it is Cloudflare's. From 500 on, and without a
        `code`, it is a page of HTML.
        """
        known = _MESSAGES.get(code or 0, (400, "Error"))
        status, message = status or known[0], message or known[1]
        is_page = (status >= 500 and code is None) if html is None else html
        more = dict(headers or {})

        def answer() -> web.Response:
            if is_page:
                return page(status, more | ({"Retry-After": str(retry_after)} if retry_after is not None else {}))
            if status == 429:
                response = limited(1.0 if retry_after is None else retry_after, everywhere=global_)
                response.headers.update(more)
                return response
            return json_answer(status, {"message": message, "code": code or 0}, more)

        return self._add(Rule(method, compile_pattern(pattern), "answer", times, when, answer))

    def drop(
        self, method: str, pattern: str, *, times: int | None = 1, when: Callable[[Call], bool] | None = None
    ) -> Rule:
        """Cut the connection; nothing is done."""
        return self._add(Rule(method, compile_pattern(pattern), "drop", times, when))

    def accept_then_drop(
        self, method: str, pattern: str, *, times: int | None = 1, when: Callable[[Call], bool] | None = None
    ) -> Rule:
        """Do what was asked, then cut the connection without an answer."""
        return self._add(Rule(method, compile_pattern(pattern), "accept_then_drop", times, when))

    def hang(
        self, method: str, pattern: str, *, times: int | None = 1, when: Callable[[Call], bool] | None = None
    ) -> Rule:
        """Do nothing until the rule is told to `release()`; then do what was asked, and answer."""
        return self._add(Rule(method, compile_pattern(pattern), "hang", times, when))

    def limit(self, method: str, pattern: str, calls: int, seconds: float) -> Limits:
        """A real limit, told in the headers of each answer; calls beyond it get 429 and count in `refused`."""
        limits = Limits(method, pattern, calls, seconds)
        self.limits.append(limits)
        return limits

    def clear(self) -> None:
        """Nothing goes wrong any more; what hangs goes on."""
        for rule in self.rules:
            rule.release()
        self.rules.clear()
        self.limits.clear()

    def take(self, call: Call) -> Rule | None:
        """The rule that this call meets, used up by one."""
        for rule in self.rules:
            if rule.fits(call):
                if rule.times is not None:
                    rule.times -= 1
                rule.met.append(call)
                return rule
        return None

    def _add(self, rule: Rule) -> Rule:
        self.rules.append(rule)
        return rule
