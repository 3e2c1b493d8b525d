"""Approvals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Approvals:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def create(self, kind: Literal["approval", "clarify"], session_id: SessionId, turn_id: TurnId, call_id: str, asked: str, question: str, ttl: float) -> Approval:
        raise StoreClosed

    async def get(self, approval_id: ApprovalId) -> Approval | None:
        raise StoreClosed

    async def for_call(self, turn_id: TurnId, call_id: str) -> Approval | None:
        raise StoreClosed

    async def answer(self, approval_id: ApprovalId, *, approve: bool, answer: str | None, by: str) -> Approval:
        raise StoreClosed

    async def use(self, approval_id: ApprovalId) -> bool:
        raise StoreClosed

    async def cancel_turn(self, turn_id: TurnId) -> int:
        raise StoreClosed

    async def expire(self) -> list[Approval]:
        raise StoreClosed
