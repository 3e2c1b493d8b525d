"""The inbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Inbox:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def accept(self, new: NewEvent) -> AcceptedRow:
        raise StoreClosed

    async def get(self, event_id: EventId) -> InboxEvent | None:
        raise StoreClosed

    async def find(self, platform: str, account: str, message_id: str, *, key: SessionKey | None = None) -> list[InboxEvent]:
        raise StoreClosed

    async def open_events(self, *, platforms: Sequence[str] | None = None) -> list[InboxEvent]:
        raise StoreClosed

    async def waiting(self, key: SessionKey) -> list[InboxEvent]:
        raise StoreClosed

    async def settle(self, event_id: EventId, fate: Fate, detail: str = "", *, turn_id: TurnId | None = None) -> bool:
        raise StoreClosed

    async def settle_many(self, event_ids: Sequence[EventId], fate: Fate, detail: str = "", *, turn_id: TurnId | None = None) -> int:
        raise StoreClosed

    async def replace_payload(self, event_id: EventId, payload: str) -> bool:
        raise StoreClosed

    async def of_turn(self, turn_id: TurnId) -> list[InboxEvent]:
        raise StoreClosed

    async def counts(self) -> dict[Fate, int]:
        raise StoreClosed

    async def orphans(self) -> list[InboxEvent]:
        raise StoreClosed

    async def recent(self, key: SessionKey, limit: int) -> list[InboxEvent]:
        raise StoreClosed
