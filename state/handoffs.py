"""Hand-offs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Handoffs:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def request(self, session_id: SessionId, source_key: SessionKey, target: str, asked_by: str) -> Handoff:
        raise StoreClosed

    async def get(self, handoff_id: HandoffId) -> Handoff | None:
        raise StoreClosed

    async def claim(self, handoff_id: HandoffId, owner: Owner, ttl: float = 60.0) -> str:
        raise StoreClosed

    async def renew(self, handoff_id: HandoffId, token: str, ttl: float = 60.0) -> None:
        raise StoreClosed

    async def complete(self, handoff_id: HandoffId, token: str) -> None:
        raise StoreClosed

    async def fail(self, handoff_id: HandoffId, token: str, reason: str) -> None:
        raise StoreClosed

    async def cancel_pending(self, handoff_id: HandoffId, reason: str = "cancelled") -> bool:
        raise StoreClosed

    async def sweep(self) -> list[Handoff]:
        raise StoreClosed

    async def set_thread(self, handoff_id: HandoffId, token: str, thread_id: str) -> None:
        raise StoreClosed

    async def open_for(self, session_id: SessionId) -> Handoff | None:
        raise StoreClosed

    async def pending(self, limit: int = 50) -> list[Handoff]:
        raise StoreClosed

    async def rebind_done(self, handoff_id: HandoffId, token: str, target_key: SessionKey, address_json: str, *, moved_to: str) -> SessionBinding:
        raise StoreClosed
