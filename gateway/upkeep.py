"""What grows for months is cut back once a day: files that came and went, events and deliveries that have ended.

Conversations are never touched. A file goes when it is old enough and nothing that waits still names its folder.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import structlog

from gateway.config_schema import LimitSettings
from state.errors import StateError
from state.store import Store

log = structlog.get_logger("gateway.upkeep")

FIRST = 900.0
"""Seconds after a start: a start has other things to do."""
EVERY = 86_400.0
MOST = 5_000
"""Folders that one look removes; what is left is for the next one."""


class Upkeep:
    """Looks after `home/files` and the ends of the inbox and the outbox."""

    def __init__(self, store: Store, home: Path, limits: Callable[[], LimitSettings]) -> None:
        self._store = store
        self._folder = home / "files"
        self._limits = limits

    async def run(self) -> None:
        """Look once a day, until cancelled. A look that fails is told, and tried again the next day."""
        await asyncio.sleep(FIRST)
        while True:
            try:
                await self.look()
            except (StateError, OSError) as error:
                log.warning("upkeep.failed", error=str(error))
            await asyncio.sleep(EVERY)

    async def look(self) -> tuple[int, int]:
        """Cut back now. Returns how many folders of files and how many rows are gone."""
        limits, rows, folders = self._limits(), 0, 0
        if limits.events_days:
            rows = await self._store.prune(older_than=timedelta(days=limits.events_days))
        if limits.files_days:
            before = self._store.clock.utc().timestamp() - limits.files_days * 86_400
            old = await asyncio.to_thread(_older, self._folder, before)
            if old:
                wanted = await self._store.open_texts()
                gone = [folder for folder in old if folder.name not in wanted]
                folders = await asyncio.to_thread(_remove, gone)
        if rows or folders:
            log.info("upkeep.done", rows=rows, folders=folders)
        return folders, rows


def _older(root: Path, before: float) -> list[Path]:
    """The folders of single files (`files/WHOSE/ID/`) in which nothing is younger. Blocking."""
    found: list[Path] = []
    for shelf in _folders(root):
        for folder in _folders(shelf):
            try:
                newest = max((one.lstat().st_mtime for one in (folder, *folder.iterdir())), default=before)
            except OSError:  # it goes away under us, or cannot be read: the next look will see
                continue
            if newest < before:
                found.append(folder)
            if len(found) >= MOST:
                return found
    return found


def _folders(root: Path) -> list[Path]:
    try:
        return [one for one in root.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError:
        return []


def _remove(folders: list[Path]) -> int:
    count = 0
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            log.warning("upkeep.not_removed", folder=str(folder), error=str(error))
        else:
            count += 1
    return count
