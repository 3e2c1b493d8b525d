"""Leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Leases:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def acquire(self, session_id: SessionId, turn_id: TurnId, *, ttl: float = 30.0) -> TurnLease:
        raise StoreClosed

    async def renew(self, lease: TurnLease, *, ttl: float = 30.0) -> TurnLease:
        raise StoreClosed

    async def release(self, lease: TurnLease) -> None:
        raise StoreClosed

    async def holder(self, session_id: SessionId) -> TurnLease | None:
        raise StoreClosed

    async def dead_turns(self, *, exclude_owner: Owner | None = None) -> list[Turn]:
        raise StoreClosed
