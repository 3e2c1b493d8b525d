"""Transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Transcript:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def load(self, session_id: SessionId) -> list[TranscriptMessage]:
        raise StoreClosed

    async def rows_of(self, turn_id: TurnId, *, include_inactive: bool = False) -> list[TranscriptMessage]:
        raise StoreClosed

    async def last_turn_ids(self, session_id: SessionId, n: int) -> list[TurnId]:
        raise StoreClosed

    async def deactivate_turn(self, session_id: SessionId, turn_id: TurnId) -> int:
        raise StoreClosed

    async def by_platform_message(self, session_id: SessionId, message_id: str) -> TranscriptMessage | None:
        raise StoreClosed

    async def around(self, row_id: RowId, n: int) -> list[TranscriptMessage]:
        raise StoreClosed

    async def get(self, row_id: RowId) -> TranscriptMessage | None:
        raise StoreClosed

    async def append_raw(self, session_id: SessionId, rows: Sequence[NewMessage]) -> list[RowId]:
        raise StoreClosed
