"""One call through an official SDK: our bytes out, its events in, every wait bounded, errors typed.

The SDK keeps the connection pool, TLS, the authentication headers and its errors. Its own retries are off
(the loop retries and reports). It builds no typed object per chunk, and it uses its aiohttp transport:
together a quarter of the CPU of its defaults (docs/performance.md). Importing an SDK takes half a second of
CPU, so it happens in a thread and only when a model needs it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp

from agent_core.errors import ModelError, ModelUnavailable
from agent_core.models.faults import fault
from agent_core.models.lean import defer_types
from agent_core.models.retry_after import retry_after
from agent_core.models.settings import ModelSettings, Timeouts
from agent_core.models.sse import events

LAST_WORDS = 5.0
"""Seconds that a server gets to end its stream after the answer is complete."""

_JSON = {"Content-Type": "application/json"}
_NO_REUSE = {**_JSON, "Connection": "close"}
"""For servers on this machine: a new connection costs nothing there, and llama.cpp's HTTP server closes
kept connections without warning, just when the next request is on its way (seen once in 25 calls)."""


class Sdk:
    """The client of one endpoint. Made at the first call and shared by concurrent calls."""

    def __init__(self, settings: ModelSettings, *, package: Literal["openai", "anthropic"]) -> None:
        self._settings = settings
        self._package = package
        self._module: Any = None
        self._client: Any = None
        self._faults: tuple[type[Exception], ...] = ()
        self._opening = asyncio.Lock()
        self._headers = _NO_REUSE if _is_loopback(settings.base_url) else _JSON

    async def warm(self) -> None:
        """Import the SDK and make the client, in a thread. Raises `ModelUnavailable` if it is missing."""
        async with self._opening:
            if self._client is not None:
                return
            try:
                self._module, self._faults, self._client = await asyncio.to_thread(self._open)
            except ImportError as exc:
                raise ModelUnavailable(
                    f"the package {self._package} is missing: pip install 'tidings[{self._package}]'"
                ) from exc

    def _open(self) -> tuple[Any, tuple[type[Exception], ...], Any]:
        defer_types(self._package)
        module = importlib.import_module(self._package)
        settings, times = self._settings, self._settings.timeouts
        make = module.AsyncOpenAI if self._package == "openai" else module.AsyncAnthropic
        base = module.OpenAIError if self._package == "openai" else module.AnthropicError
        timeout = module.Timeout(
            connect=times.connect, read=times.silence, write=times.silence, pool=times.connect + times.silence
        )
        # A proxy named in the environment must not get what is meant for this machine.
        http = module.DefaultAioHttpClient(
            timeout=timeout, follow_redirects=False, trust_env=not _is_loopback(settings.base_url)
        )
        client = make(
            api_key=settings.api_key or "none",
            base_url=settings.base_url,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )
        # Errors of the SDK's HTTP library pass through it unwrapped while a stream is read.
        transport = importlib.import_module("httpx2")
        faults = (base, transport.HTTPError, aiohttp.ClientError, OSError, json.JSONDecodeError, UnicodeDecodeError)
        return module, faults, client

    @asynccontextmanager
    async def stream(self, path: str, body: bytes) -> AsyncIterator[Events]:
        """Call, and give the events of the streamed answer. Leaving the block ends the call."""
        await self.warm()
        deadline = asyncio.get_running_loop().time() + self._settings.timeouts.total
        with self._typed():
            async with within(self._settings.timeouts.silence, deadline):
                response = await self._client.post(
                    path,
                    cast_to=object,
                    content=body,
                    stream=True,
                    stream_cls=self._module.AsyncStream[object],
                    options={"headers": self._headers},
                )
        try:
            async with aclosing(events(response.response.aiter_bytes())) as incoming:
                yield Events(
                    incoming,
                    times=self._settings.timeouts,
                    deadline=deadline,
                    typed=self._typed,
                    secret=self._settings.api_key,
                )
        finally:
            with suppress(*self._faults):
                await response.close()

    async def whole(self, path: str, body: bytes) -> dict[str, Any]:
        """The answer to a call without streaming, parsed."""
        await self.warm()
        total = self._settings.timeouts.total
        with self._typed():
            async with asyncio.timeout(total):
                answer = await self._client.post(
                    path, cast_to=object, content=body, options={"headers": self._headers, "timeout": total}
                )
        if not isinstance(answer, dict):
            raise ModelUnavailable("the model's server sent an answer that is no JSON object")
        return answer

    async def close(self) -> None:
        """Close the connections. Idempotent; a later call opens them anew."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @contextmanager
    def _typed(self) -> Iterator[None]:
        """Raise the error by remedy. What is no fault of the call (a cancellation, a defect) passes."""
        try:
            yield
        except self._faults as exc:
            raise self._by_remedy(exc) from exc

    def _by_remedy(self, exc: Exception) -> ModelError:
        sdk, secret = self._module, self._settings.api_key
        chain: list[BaseException] = [exc]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)
        # The SDK's own time-out error also stands for a server that hung up: Python's says which it was.
        if any(isinstance(link, TimeoutError) for link in chain):
            return ModelUnavailable("the model's server did not answer in time")
        if isinstance(exc, sdk.APIStatusError):
            headers = {str(name).lower(): str(value) for name, value in exc.response.headers.items()}
            wait = retry_after(headers, now=datetime.now(UTC))
            return fault(exc.status_code, exc.body, wait=wait, secret=secret)
        if isinstance(exc, (json.JSONDecodeError, UnicodeDecodeError)):
            return ModelUnavailable("the model's server sent a malformed chunk")
        if isinstance(exc, sdk.APIError) and not isinstance(exc, sdk.APIConnectionError):
            return fault(None, exc.body, secret=secret)
        return ModelUnavailable(f"no connection to the model's server ({type(chain[-1]).__name__})")


class Events:
    """The events of one streamed answer, in order. Used by one task."""

    def __init__(
        self,
        incoming: AsyncIterator[dict[str, Any]],
        *,
        times: Timeouts,
        deadline: float,
        typed: Callable[[], AbstractContextManager[None]],
        secret: str,
    ) -> None:
        self._incoming = incoming
        self._times = times
        self._deadline = deadline
        self._typed = typed
        self._secret = secret

    async def next(self, *, complete: bool = False) -> dict[str, Any] | None:
        """The next event; None when the server has ended its stream.

        `complete` says that the answer is there: what is still to come is figures at best, so that a
        server that goes silent or away now has ended its stream.
        """
        silence = LAST_WORDS if complete else self._times.silence
        try:
            with self._typed():
                async with within(silence, self._deadline):
                    event = await anext(self._incoming)
        except StopAsyncIteration:
            return None
        except ModelUnavailable:
            if complete:
                return None
            raise
        if event.get("error"):
            raise fault(None, event, secret=self._secret)
        return event


def within(silence: float, deadline: float) -> asyncio.Timeout:
    """A bound of `silence` seconds from now that ends at `deadline` (loop time) at the latest."""
    return asyncio.timeout_at(min(asyncio.get_running_loop().time() + silence, deadline))


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
