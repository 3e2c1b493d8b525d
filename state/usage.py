"""Usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Usage:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def add(self, session_id: SessionId, turn_id: TurnId | None, used: NewUsage) -> None:
        raise StoreClosed

    async def of_session(self, session_id: SessionId) -> UsageTotal:
        raise StoreClosed

    async def total(self) -> UsageTotal:
        raise StoreClosed
