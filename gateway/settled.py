"""Outcomes are written whole: under a shield, and awaited again when the writer is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def whole(work: Coroutine[Any, Any, T], name: str) -> tuple[T, bool]:
    """Run `work` to its end, and say whether we were cancelled meanwhile.

    Cancelling the caller does not reach `work`, which must therefore be bounded by itself. The caller
    passes a cancellation on (`raise asyncio.CancelledError`) when it has drawn its conclusions.
    Raises what `work` raises.
    """
    task = asyncio.create_task(work, name=name)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled
