"""Where the platforms' channels stand and which chats have moved: the store behind the adapters' ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from adapters.errors import NotReady
from state.errors import StateError
from state.store import Store

if TYPE_CHECKING:
    from adapters import ports

log = structlog.get_logger("gateway.places")


class Cursors:
    """Implements `adapters.ports.Cursors`."""

    def __init__(self, store: Store) -> None:
        self._places = store.places

    async def all(self, platform: str, account: str) -> Mapping[str, str]:
        """See the port."""
        try:
            return await self._places.cursors(platform, account)
        except StateError as error:
            raise NotReady(f"the cursors cannot be read: {error}") from error

    async def set(self, platform: str, account: str, channel: str, cursor: str) -> None:
        """See the port."""
        try:
            await self._places.set_cursor(platform, account, channel, cursor)
        except StateError as error:
            raise NotReady(f"the cursor cannot be kept: {error}") from error

    async def forget(self, platform: str, account: str, channel: str) -> None:
        """See the port."""
        try:
            await self._places.forget_cursor(platform, account, channel)
        except StateError as error:
            raise NotReady(f"the cursor cannot be removed: {error}") from error


class Moves:
    """Implements `adapters.ports.Moves`. `load` comes before the first adapter runs."""

    def __init__(self, store: Store) -> None:
        self._places = store.places
        self._first: dict[tuple[str, str], str] = {}
        self._now: dict[tuple[str, str], str] = {}

    async def load(self) -> None:
        """Read what is known. Raises `StateError`."""
        for platform, old, new in await self._places.moves():
            self._link(platform, old, new)

    def first(self, platform: str, chat_id: str) -> str:
        """See the port."""
        return self._follow(self._first, platform, chat_id)

    def now(self, platform: str, chat_id: str) -> str:
        """See the port."""
        return self._follow(self._now, platform, chat_id)

    async def moved(self, platform: str, old: str, new: str) -> None:
        """See the port."""
        if old == new or self._now.get((platform, old)) == new:
            return
        try:
            await self._places.add_move(platform, old, new)
        except StateError as error:
            raise NotReady(f"the new id of a chat cannot be kept: {error}") from error
        log.info("chat.moved", platform=platform, old=old, new=new)
        self._link(platform, old, new)

    def _link(self, platform: str, old: str, new: str) -> None:
        self._now[platform, old] = new
        self._first[platform, new] = old

    @staticmethod
    def _follow(links: Mapping[tuple[str, str], str], platform: str, chat_id: str) -> str:
        seen = {chat_id}
        while (platform, chat_id) in links:
            chat_id = links[platform, chat_id]
            if chat_id in seen:  # a circle can only come of a platform's nonsense
                break
            seen.add(chat_id)
        return chat_id


if TYPE_CHECKING:

    def _fits(store: Store) -> tuple[ports.Cursors, ports.Moves]:
        return Cursors(store), Moves(store)
