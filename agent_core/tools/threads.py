"""Blocking work of a tool: in a thread, told to stop when the turn is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STOP_SECONDS = 3.0


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread. When cancelled, set `stop` and wait up to 3 s for the thread, so that
    normally nothing happens after the turn; a thread stuck in the kernel is left behind."""
    stop = threading.Event()
    task = asyncio.create_task(asyncio.to_thread(work, stop), name="file work of a tool")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that nobody warns of it
        raise
