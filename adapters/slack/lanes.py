"""Work in order by key, in parallel between keys: what Slack sends of one channel is committed in its order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Job = Callable[[], Awaitable[None]]

WAITING = 1_000
"""Jobs that may wait at a time; then nothing more is read from the socket."""


class Lanes:
    """One queue and one task a key, gone when idle. Jobs must not raise; one that does ends in the loop's handler."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queues: dict[str, deque[Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(WAITING)

    def __len__(self) -> int:
        return len(self._tasks)

    async def put(self, key: str, job: Job) -> None:
        """Have it done after everything that was put under the same key before. Waits while too much waits."""
        await self._room.acquire()
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(job)
            return
        self._queues[key] = deque([job])
        task = asyncio.create_task(self._serve(key, self._queues[key]), name=f"{self._name}:{key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, key: str, queue: deque[Job]) -> None:
        try:
            while queue:
                job = queue.popleft()
                try:
                    await job()
                finally:
                    self._room.release()
        finally:
            del self._queues[key]  # no await since "empty"

    async def idle(self, bound: float) -> None:
        """Wait up to `bound` seconds for what is under way."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=bound)

    async def close(self) -> None:
        """Cut off what is under way."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
