"""What the composition root hands to an adapter, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from adapters.errors import NotReady
from adapters.ports import AdapterServices
from tests.counterparts.small_gateway import SmallGateway


class SmallCursors:
    """Implements `adapters.ports.Cursors`. `kept` outlives an adapter, as the store does."""

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        self.kept = dict(kept or {})
        self.writes: list[tuple[str, str]] = []
        self.broken = False
        """While it is set nothing can be written."""

    async def all(self, platform: str, account: str) -> Mapping[str, str]:
        return dict(self.kept)

    async def set(self, platform: str, account: str, channel: str, cursor: str) -> None:
        if self.broken:
            raise NotReady("the disk is full")
        self.writes.append((channel, cursor))
        self.kept[channel] = cursor

    async def forget(self, platform: str, account: str, channel: str) -> None:
        if self.broken:
            raise NotReady("the disk is full")
        self.kept.pop(channel, None)


class SmallMoves:
    """Implements `adapters.ports.Moves`."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def first(self, platform: str, chat_id: str) -> str:
        return self._first.get(chat_id, chat_id)

    def now(self, platform: str, chat_id: str) -> str:
        return next((new for new, old in self._first.items() if old == chat_id), chat_id)

    async def moved(self, platform: str, old: str, new: str) -> None:
        self._first[new] = self.first(platform, old)


def services(
    gateway: SmallGateway,
    folder: Path,
    *,
    cursors: SmallCursors | None = None,
    commands: tuple[tuple[str, str], ...] = (),
    attachment_bytes: int = 20_000_000,
) -> AdapterServices:
    return AdapterServices(
        conversations=gateway,
        models=lambda: ["small"],
        files=folder,
        cursors=cursors or SmallCursors(),
        moves=SmallMoves(),
        commands=commands,
        attachment_bytes=attachment_bytes,
    )
