"""Writes whose outcome is always known, and tasks that are ended within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger("agent_core.settle")

T = TypeVar("T")

_left_behind: set[asyncio.Task[Any]] = set()


async def settled(work: Coroutine[Any, Any, T], name: str) -> T:
    """Run a write of the store to its end, however often the caller is cancelled meanwhile.

    A cancelled write may still commit, so nothing may be read or written after it before its outcome is
    known. Where the caller was cancelled, CancelledError is raised once it is; an error of the write is
    then logged only, since the caller's end is decided elsewhere.
    """
    task = asyncio.create_task(work, name=name)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("write.failed_while_cancelled", write=name, error=str(error), kind=type(error).__name__)
        raise cancelled from error
    raise cancelled


async def end(task: asyncio.Task[Any], seconds: float) -> bool:
    """Cancel a task and wait at most `seconds` for its end, even if the caller is cancelled again (that
    cancellation is raised by the caller's next await).

    False: it goes on, left behind under its name (`left_behind`); nothing it gives back is used.
    """
    task.cancel()
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    cancelled = False
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        _left_behind.add(task)
        task.add_done_callback(_forget)
        log.error("task.left_behind", task=task.get_name(), waited=seconds)
    if cancelled and (current := asyncio.current_task()) is not None:
        current.cancel()  # kept for the caller's next await: it has the task's outcome to write first
    return task.done()


def left_behind() -> list[str]:
    """The names of the tasks that ignored their cancellation and still run."""
    return sorted(task.get_name() for task in _left_behind)


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("task.late_error", task=task.get_name(), error=type(error).__name__)
    else:
        log.info("task.late_end", task=task.get_name())
