"""Turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Turns:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def begin(self, lease: TurnLease, key: SessionKey, event_ids: Sequence[EventId], rows: Sequence[NewMessage]) -> list[RowId]:
        raise StoreClosed

    async def resume(self, lease: TurnLease, turn_id: TurnId) -> tuple[Turn, list[TranscriptMessage]]:
        raise StoreClosed

    async def get(self, turn_id: TurnId) -> Turn | None:
        raise StoreClosed

    async def latest(self, session_id: SessionId) -> Turn | None:
        raise StoreClosed

    async def append(self, lease: TurnLease, rows: Sequence[NewMessage]) -> list[RowId]:
        raise StoreClosed

    async def start_call(self, lease: TurnLease, row_id: RowId) -> None:
        raise StoreClosed

    async def finish_call(self, lease: TurnLease, row_id: RowId, status: ToolStatus, *, content: str, wire: str | None, extract: str | None = None) -> None:
        raise StoreClosed

    async def steer(self, lease: TurnLease, event_ids: Sequence[EventId], rows: Sequence[NewMessage]) -> list[RowId]:
        raise StoreClosed

    async def finish(self, lease: TurnLease, *, state: TurnState, rows: Sequence[NewMessage], fates: Sequence[tuple[EventId, Fate, str]], delivery: NewDelivery | None, detail: str = "", deactivate: Sequence[RowId] = ()) -> list[RowId]:
        raise StoreClosed
