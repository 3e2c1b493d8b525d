"""The places of the platforms: how far each channel was read, and which chats have got a new id."""

from __future__ import annotations

import sqlite3

from state.codec import clean
from state.repository import Repository


class Places(Repository):
    """Cursors and moves. Nothing here orders or compares ids: that is the platforms' affair."""

    async def cursors(self, platform: str, account: str) -> dict[str, str]:
        """Every known channel of the account with its cursor."""

        def run(tx: sqlite3.Connection) -> dict[str, str]:
            query = "SELECT channel, cursor FROM cursors WHERE platform = ? AND account = ? ORDER BY channel"
            return {row["channel"]: row["cursor"] for row in tx.execute(query, (platform, account))}

        return await self._db.read(run)

    async def set_cursor(self, platform: str, account: str, channel: str, cursor: str) -> None:
        """Put the cursor of a channel there. It may be behind after a power cut, which is harmless."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO cursors (platform, account, channel, cursor) VALUES (?, ?, ?, ?)",
                (platform, account, clean(channel), clean(cursor)),
            )

        await self._db.write(run)

    async def forget_cursor(self, platform: str, account: str, channel: str) -> None:
        """The channel is known no more."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "DELETE FROM cursors WHERE platform = ? AND account = ? AND channel = ?",
                (platform, account, clean(channel)),
            )

        await self._db.write(run)

    async def moves(self) -> list[tuple[str, str, str]]:
        """Every (platform, old id, new id)."""

        def run(tx: sqlite3.Connection) -> list[tuple[str, str, str]]:
            return [(row["platform"], row["old"], row["new"]) for row in tx.execute("SELECT * FROM moves")]

        return await self._db.read(run)

    async def add_move(self, platform: str, old: str, new: str) -> None:
        """The chat has got a new id. On the disk on return; the same again changes nothing."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO moves (platform, old, new) VALUES (?, ?, ?)", (platform, clean(old), clean(new))
            )

        await self._db.write(run, full=True)
