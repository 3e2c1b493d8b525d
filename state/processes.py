"""Processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Processes:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def add(self, process: ToolProcess) -> None:
        raise StoreClosed

    async def remove(self, pgid: int, started: int) -> None:
        raise StoreClosed

    async def of_turn(self, turn_id: TurnId) -> list[ToolProcess]:
        raise StoreClosed

    async def of_dead_owners(self) -> list[ToolProcess]:
        raise StoreClosed
