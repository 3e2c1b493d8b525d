"""Holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Holds:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def set(self, chat: str, until: datetime, reason: str) -> None:
        raise StoreClosed

    async def active(self) -> list[Hold]:
        raise StoreClosed

    async def clear(self, chat: str) -> None:
        raise StoreClosed
