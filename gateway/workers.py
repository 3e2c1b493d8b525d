"""One queue and one worker a session key: sequential inside, parallel between keys, gone when idle.

A worker takes the items of its key in order and hands each batch to the runner. A batch is one item, or
several that are one message: the pictures of an album, the parts of one long paste, or what `collect`
gathers, always of one sender: two people are never merged into one author.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from adapters.events import MessageEvent
from state.ids import EventId, SessionKey, TurnId

log = structlog.get_logger("gateway.workers")

Busy = Literal["queue", "steer", "interrupt", "collect"]


@dataclass(slots=True, kw_only=True, eq=False)
class Item:
    """Something for a worker: an event to be answered, or (`resume`) a turn to be taken up again.

    `text` is what is to be answered (an edit may replace it while the item waits).
    """

    event_id: EventId
    event: MessageEvent
    text: str
    mode: Busy = "queue"
    ready_at: float = 0.0
    """Loop time before which the worker waits for further parts of the same message."""
    resume: TurnId | None = None


class Full(Exception):
    """The queue of this chat is full. The person is told."""


Runner = Callable[[SessionKey, Sequence[Item]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """`queue` items may wait in one chat; `turns` may run at once in the process; a message of several
    parts may be held back for `hold` seconds in all."""

    queue: int = 50
    turns: int = 256
    hold: float = 10.0


class Worker:
    """The worker of one key."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.waiting: deque[Item] = deque()
        self.current: Sequence[Item] = ()
        self.task: asyncio.Task[None] | None = None
        self.arrival = asyncio.Event()

    def next_batch(self) -> list[Item]:
        """Take the head and what belongs to the same message. Call only when something waits."""
        head = self.waiting.popleft()
        batch = [head]
        while head.resume is None and self.waiting and same_message(batch[-1], self.waiting[0]):
            batch.append(self.waiting.popleft())
        return batch


def same_message(one: Item, two: Item) -> bool:
    """Whether `two`, which came right after `one`, is a part of the same message."""
    if two.resume is not None or one.event.sender.id != two.event.sender.id:
        return False
    if one.event.address != two.event.address:
        return False
    if one.event.group_id is not None or two.event.group_id is not None:
        return one.event.group_id == two.event.group_id
    # `ready_at` is set where the platform's adapter gave no group but the part looked cut (a long paste)
    return one.ready_at > 0.0 or (one.mode == "collect" and two.mode == "collect")


class Workers:
    """All workers of the process. `run` is called for each batch; its failures are its own affair."""

    def __init__(self, run: Runner, limits: WorkerLimits) -> None:
        self._run = run
        self.limits = limits
        """May be replaced while running; how many turns run at once stays as it was at the start."""
        self._workers: dict[SessionKey, Worker] = {}
        self._slots = asyncio.Semaphore(limits.turns)
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, key: SessionKey) -> Worker | None:
        """The worker of a key, where one is at work."""
        return self._workers.get(key)

    def all(self) -> Mapping[SessionKey, Worker]:
        """The live table."""
        return self._workers

    def put(self, key: SessionKey, item: Item, *, front: bool = False) -> int:
        """Queue `item` and return how many are before it. Raises `Full` at the cap: nothing is queued.

        An item that is queued already (the same event) is not queued twice.
        """
        worker = self._workers.get(key)
        if worker is None:
            worker = self._workers[key] = Worker(key)
            self._idle.clear()
        known = [*worker.waiting, *worker.current]
        if any(other.event_id == item.event_id for other in known):
            return 0
        if len(worker.waiting) >= self.limits.queue and item.resume is None:
            raise Full
        ahead = len(worker.waiting) + (1 if worker.current else 0)
        if front:
            worker.waiting.appendleft(item)
        else:
            worker.waiting.append(item)
        worker.arrival.set()
        if worker.task is None and not self._closed:
            worker.task = asyncio.create_task(self._serve(worker), name=f"worker:{key}")
        return ahead

    def withdraw(self, key: SessionKey, message_id: str) -> list[Item]:
        """Take the waiting items of a message out of the queue (deleted, or /stop)."""
        worker = self._workers.get(key)
        if worker is None:
            return []
        taken = [item for item in worker.waiting if item.event.message_id == message_id and item.resume is None]
        for item in taken:
            worker.waiting.remove(item)
        return taken

    def give_up(self, platform: str) -> list[Item]:
        """Take everything that waits of a platform out of the queues: another process goes on with it."""
        taken: list[Item] = []
        for worker in self._workers.values():
            gone = [item for item in worker.waiting if item.event.address.platform == platform]
            for item in gone:
                worker.waiting.remove(item)
            taken += gone
        return taken

    async def _serve(self, worker: Worker) -> None:
        while worker.waiting and not self._closed:
            await self._settle_down(worker)
            if not worker.waiting:
                continue
            async with self._slots:
                if self._closed or not worker.waiting:
                    break
                worker.current = worker.next_batch()
                try:
                    await self._run(worker.key, worker.current)
                except Exception:  # the boundary of a worker: one batch never ends the others
                    log.exception("worker.defect", key=worker.key)
                finally:
                    worker.current = ()
        # no await may stand between "empty" above and "gone" below, or an item put meanwhile is lost
        worker.task = None
        if not worker.waiting:
            del self._workers[worker.key]
            if not self._workers:
                self._idle.set()

    async def _settle_down(self, worker: Worker) -> None:
        """Wait until the parts of the message at the head are likely to be complete."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.hold
        while worker.waiting:
            last = worker.waiting[0]
            for item in list(worker.waiting)[1:]:
                if not same_message(last, item):
                    return  # something else has come after it: it is complete
                last = item
            now = loop.time()
            until = min(last.ready_at, deadline)
            if until <= now:
                return
            worker.arrival.clear()
            try:
                async with asyncio.timeout(until - now):
                    await worker.arrival.wait()
            except TimeoutError:
                continue

    async def close(self, bound: float) -> list[SessionKey]:
        """Take nothing new, wait up to `bound` seconds for what runs; the keys still at work are returned.
        What waits stays in the inbox for the next start."""
        self._closed = True
        running = {w.key: w.task for w in self._workers.values() if w.task is not None}
        if running:
            for worker in self._workers.values():
                worker.arrival.set()
            await asyncio.wait(running.values(), timeout=bound)
        return [key for key, task in running.items() if not task.done()]

    async def cancel_waiting(self, bound: float) -> list[SessionKey]:
        """After the turns were asked to end: wait for their workers, then cancel what waits for something
        else (a session that another process holds). Returns the keys that do not end."""
        await self._ended(bound)
        for worker in self._workers.values():
            if worker.task is not None:
                worker.task.cancel()
        return await self._ended(1.0)

    async def _ended(self, bound: float) -> list[SessionKey]:
        running = {w.key: w.task for w in self._workers.values() if w.task is not None}
        if running:
            await asyncio.wait(running.values(), timeout=bound)
        return [key for key, task in running.items() if not task.done()]

    async def idle(self) -> None:
        """Wait until no worker is left (tests)."""
        await self._idle.wait()
