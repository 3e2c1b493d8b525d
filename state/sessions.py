"""Bindings and sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from state.database import Database
from state.clock import Clock
from state.errors import StoreClosed
from state.ids import *  # noqa: F403
from state.records import *  # noqa: F403


class Sessions:
    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db

    async def binding(self, key: SessionKey) -> SessionBinding | None:
        raise StoreClosed

    async def claim(self, key: SessionKey, owner: Owner, address_json: str, ttl: float = 30.0) -> SessionBinding:
        raise StoreClosed

    async def activate(self, key: SessionKey, version: int, *, person: str, model: str | None = None, title: str | None = None) -> tuple[SessionBinding, Session]:
        raise StoreClosed

    async def rebind(self, key: SessionKey, session_id: SessionId, *, expect_version: int | None, address_json: str | None = None) -> SessionBinding:
        raise StoreClosed

    async def rotate(self, key: SessionKey, *, person: str, reason: str, expect_version: int | None = None) -> tuple[SessionBinding, Session]:
        raise StoreClosed

    async def close_binding(self, key: SessionKey, moved_to: str, expect_version: int) -> SessionBinding:
        raise StoreClosed

    async def set_settings(self, key: SessionKey, settings_json: str) -> None:
        raise StoreClosed

    async def update_address(self, key: SessionKey, address_json: str) -> None:
        raise StoreClosed

    async def get(self, session_id: SessionId) -> Session | None:
        raise StoreClosed

    async def set_title(self, session_id: SessionId, title: str | None) -> None:
        raise StoreClosed

    async def set_model(self, session_id: SessionId, name: str | None) -> None:
        raise StoreClosed

    async def freeze_prompt(self, session_id: SessionId, prompt: str, reason: str) -> Session:
        raise StoreClosed

    async def list_for(self, person: str, limit: int = 50) -> list[Session]:
        raise StoreClosed

    async def list_all(self, limit: int = 50) -> list[Session]:
        raise StoreClosed

    async def by_title(self, person: str | None, title: str) -> list[Session]:
        raise StoreClosed

    async def fork(self, parent_id: SessionId, upto: RowId | None, *, person: str, reason: str, since: RowId | None = None) -> Session:
        raise StoreClosed

    async def bindings_of(self, session_id: SessionId) -> list[SessionBinding]:
        raise StoreClosed

    async def last_for(self, person: str, platform: str) -> SessionBinding | None:
        raise StoreClosed

    async def lineage(self, session_id: SessionId) -> list[SessionId]:
        raise StoreClosed
