"""Search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Search:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def find(self, query: str, *, persons: Sequence[str] | None, exclude_lineage: SessionId | None = None, limit: int = 50, newest: bool = False) -> list[SearchHit]:
        raise StoreClosed

    async def recent(self, person: str | None, limit: int = 5) -> list[SearchHit]:
        raise StoreClosed
