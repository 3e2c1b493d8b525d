"""What holds for the HTTP of every remote memory: how long it may take, how much it may say, what its faults mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent_core.memory.providers.ports import (
    TEXTS,
    ProviderAway,
    ProviderError,
    ProviderLied,
    ProviderRefused,
)

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES = 1_000_000
"""Of one HTTP answer. What is longer is not read on."""
TEXT_CHARS = 4_000
"""Of one recalled text."""
CONNECT, READ = 5.0, 30.0
"""Seconds for reaching a server, and between two pieces of its answer."""

PLAIN = {"Accept-Encoding": "identity"}
"""Asked of every server: a packed answer may be a thousand times as long as it looks."""

_PASSING = frozenset({401, 402, 403, 404, 405, 408, 425, 429})
"""Answers below 500 that are about us, or about now, and not about what was sent: a key, a plan, a path, a limit."""


def fault_of_status(status: int | None, what: str) -> ProviderError:
    """The error for an HTTP status; None where there was no answer."""
    if status is None or status == 0:
        return ProviderAway(f"{what}: no answer")
    if 400 <= status < 500 and status not in _PASSING:
        return ProviderRefused(f"{what}: HTTP {status}")
    return ProviderAway(f"{what}: HTTP {status}")


def texts(found: Any, what: str) -> list[str]:
    """The texts of an answer, cut. Raises ProviderLied where it is no list of texts."""
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise ProviderLied(f"{what}: no list but {type(found).__name__}")
    kept: list[str] = []
    for one in found[:TEXTS]:
        if not isinstance(one, str):
            raise ProviderLied(f"{what}: no text but {type(one).__name__}")
        if one.strip():
            kept.append(one.strip()[:TEXT_CHARS])
    return kept


def field(found: Any, *names: str, what: str) -> Any:
    """A field of nested objects. Raises ProviderLied where one is missing."""
    for name in names:
        if not isinstance(found, dict) or name not in found:
            raise ProviderLied(f"{what}: no field {name!r}")
        found = found[name]
    return found


def fault_of(error: BaseException, what: str) -> ProviderError:
    """The error for whatever a client has raised. Only its type and its status are told: its text may hold words
    that were said."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            break
        if isinstance(seen, ProviderError):
            return seen
        status = _status(seen)
        if status is not None:
            return fault_of_status(status, what)
        seen = seen.__cause__ or seen.__context__
    if isinstance(error, ValueError):  # JSON that is none, a model that does not fit
        return ProviderLied(f"{what}: {type(error).__name__}")
    return ProviderAway(f"{what}: {type(error).__name__}")


def _status(error: BaseException) -> int | None:
    """The HTTP status that an SDK's exception carries under one of the usual names."""
    for found in (
        getattr(error, "status_code", None),
        getattr(error, "status", None),
        getattr(getattr(error, "response", None), "status_code", None),
        (getattr(error, "debug_info", None) or {}).get("status_code"),
    ):
        if isinstance(found, int) and found >= 100:
            return found
    return None


class TooLong(ProviderLied):
    """The answer is longer than any honest one."""

    def __init__(self) -> None:
        super().__init__(f"an answer of more than {ANSWER_BYTES:,} bytes")


def timeout() -> httpx.Timeout:
    """The bounds of one request."""
    import httpx  # noqa: PLC0415 - comes with the client

    return httpx.Timeout(READ, connect=CONNECT)


def client() -> httpx.Client:
    """A client that reads no more than it should."""
    import httpx  # noqa: PLC0415 - comes with the client

    return httpx.Client(timeout=timeout(), headers=PLAIN, event_hooks={"response": [_cut]})


def async_client() -> httpx.AsyncClient:
    """The same for an event loop."""
    import httpx  # noqa: PLC0415 - comes with the client

    return httpx.AsyncClient(timeout=timeout(), headers=PLAIN, event_hooks={"response": [cut_async]})


def _cut(response: httpx.Response) -> None:
    import httpx  # noqa: PLC0415 - comes with the client

    _refuse_packed(response)
    inner = response.stream

    class Cut(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            room = ANSWER_BYTES
            for part in inner:  # type: ignore[union-attr]
                room -= len(part)
                if room < 0:
                    raise TooLong
                yield part

        def close(self) -> None:
            inner.close()  # type: ignore[union-attr]

    response.stream = Cut()


async def cut_async(response: httpx.Response) -> None:
    """A hook on each response of an async client: what is too long raises while it is read."""
    import httpx  # noqa: PLC0415 - comes with the client

    _refuse_packed(response)
    inner = response.stream

    class Cut(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            room = ANSWER_BYTES
            async for part in inner:  # type: ignore[union-attr]
                room -= len(part)
                if room < 0:
                    raise TooLong
                yield part

        async def aclose(self) -> None:
            await inner.aclose()  # type: ignore[union-attr]

    response.stream = Cut()


def _refuse_packed(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProviderLied("a packed answer, although a plain one was asked for")
