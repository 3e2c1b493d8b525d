"""Outbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Outbox:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def enqueue(self, delivery: NewDelivery, *, session_id: SessionId | None = None, turn_id: TurnId | None = None) -> bool:
        raise StoreClosed

    async def open_draft(self, lease: TurnLease, delivery: NewDelivery) -> ChunkId:
        raise StoreClosed

    async def draft_sent(self, delivery_id: DeliveryId, message_id: str) -> None:
        raise StoreClosed

    async def due(self, platforms_accounts: Sequence[tuple[str, str]], *, limit: int = 200) -> list[StoredDelivery]:
        raise StoreClosed

    async def get(self, delivery_id: DeliveryId) -> StoredDelivery | None:
        raise StoreClosed

    async def of_turn(self, turn_id: TurnId) -> list[StoredDelivery]:
        raise StoreClosed

    async def drafts_of(self, turn_id: TurnId) -> list[StoredDelivery]:
        raise StoreClosed

    async def sending(self, chunk_id: ChunkId) -> bool:
        raise StoreClosed

    async def sent(self, chunk_id: ChunkId, message_ids: Sequence[str]) -> None:
        raise StoreClosed

    async def back(self, chunk_id: ChunkId, *, not_before: datetime | None, error: str) -> None:
        raise StoreClosed

    async def unknown(self, chunk_id: ChunkId, error: str) -> None:
        raise StoreClosed

    async def failed(self, chunk_id: ChunkId, error: str, *, park: bool = False) -> None:
        raise StoreClosed

    async def drop(self, delivery_id: DeliveryId) -> None:
        raise StoreClosed

    async def recover(self, owner_alive: Callable[[Owner], bool | None]) -> int:
        raise StoreClosed

    async def pending(self, platform: str, account: str, chat: str | None = None) -> list[StoredDelivery]:
        raise StoreClosed

    async def counts(self) -> dict[str, int]:
        raise StoreClosed

    async def unparked(self, platform: str, account: str) -> int:
        raise StoreClosed
