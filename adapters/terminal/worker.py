"""A thread for calls that may block: reading what is typed, writing to a reader who does not read.

It is a daemon thread on purpose: a read from a terminal cannot be cancelled, and must not keep the
process from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

BACKLOG = 200
"""Calls of `post` that may wait; what comes more is dropped (live parts are cosmetic)."""

_Job = Callable[[], None]


class Worker:
    """Runs calls one after the other in a thread of its own, which begins with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def _put(self, job: _Job) -> None:
        if self._closed:
            raise RuntimeError(f"the worker {self._name} is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """The result of `function(*args)` in the thread. Cancelling the caller does not stop the call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def give(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type] # a T where there is no error
            else:
                future.set_exception(error)

        def job() -> None:
            try:
                result, error = function(*args), None
            except BaseException as caught:  # noqa: BLE001 - it is raised where the call is awaited
                result, error = None, caught
            try:
                loop.call_soon_threadsafe(give, result, error)
            except RuntimeError:
                return  # the loop has ended meanwhile: nobody waits any more

        self._put(job)
        return await future

    def post(self, function: Callable[..., object], *args: Any) -> bool:
        """Have `function(*args)` called and do not wait. False, and dropped, where too much waits.

        `function` must not raise but for a reader who is gone, which the next `call` finds out.
        """
        if self._closed or self._jobs.qsize() >= BACKLOG:
            return False

        def job() -> None:
            try:
                function(*args)
            except (OSError, ValueError):
                return  # closed or hung up

        self._put(job)
        return True

    async def drain(self, seconds: float) -> None:
        """Wait until what waits is done, at most `seconds`."""
        if self._thread is None or self._closed:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.call(lambda: None)
        except TimeoutError:
            return

    def close(self) -> None:
        """Let the thread end after what waits. Does not wait for it; idempotent."""
        if not self._closed:
            self._closed = True
            if self._thread is not None:
                self._jobs.put(None)
