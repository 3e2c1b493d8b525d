"""A thread of its own for the client of a remote memory: whatever an SDK does there, block on a socket, import for
seconds, parse ten megabytes, it does not do it on the event loop of the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog

log = structlog.get_logger("agent_core.memory")

T = TypeVar("T")


class Lane:
    """One thread with an event loop. It begins with the first use; it never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._work: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` there and give its result here. A cancel reaches it, and only once: a second one, of whoever ends
        the lane, would interrupt a client that is closing its connection."""

        async def whole() -> T:
            return await work()

        async def there() -> T:
            inner = asyncio.create_task(whole(), name=f"{self._name}:call")
            self._work.add(inner)
            inner.add_done_callback(self._over)
            try:
                return await asyncio.shield(inner)
            except asyncio.CancelledError:
                _cancel(inner)
                raise

        return await self._submit(there())

    async def _submit(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._begun()))

    def _over(self, done: asyncio.Future[Any]) -> None:
        self._work.discard(done)
        if not done.cancelled():
            done.exception()  # whoever waited may have gone

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop

    @staticmethod
    async def blocking(work: Callable[[], T]) -> T:
        """Run `work`, which blocks, in a thread that no end of the process waits for."""
        outcome: Future[T] = Future()

        def there() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
                try:
                    outcome.set_result(work())
                except Exception as error:  # noqa: BLE001 - it goes to whoever waits
                    outcome.set_exception(error)

        waiting = asyncio.wrap_future(outcome)
        threading.Thread(target=there, name="memory-call", daemon=True).start()
        return await waiting

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()

    async def close(self, last: Callable[[], Awaitable[None]] | None = None, seconds: float = 2.0) -> None:
        """End what runs there, do `last`, end the thread. One that is stuck in a client is left behind, and told."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return

        async def end() -> None:
            left = list(self._work)
            for one in left:
                _cancel(one)
            if left:
                await asyncio.wait(left, timeout=seconds / 2)
            if last is not None:
                await last()

        try:
            async with asyncio.timeout(seconds):
                await self._submit(end())
        except TimeoutError:
            log.warning("memory.client_stuck", lane=self._name)
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, seconds)
        if thread.is_alive():
            log.warning("memory.client_stuck", lane=self._name)


def _cancel(task: asyncio.Future[Any]) -> None:
    if not isinstance(task, asyncio.Task) or not task.cancelling():
        task.cancel()
