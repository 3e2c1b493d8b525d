"""The chats that are known, by name, and the home of each platform."""

from __future__ import annotations

import sqlite3

from state.codec import clean
from state.repository import Repository


class Directory(Repository):
    """Addresses are JSON texts of the gateway's; nothing here reads them."""

    async def seen(
        self, platform: str, account: str, chat_id: str, thread_id: str | None, name: str, address_json: str
    ) -> None:
        """Somebody who is let in has spoken there. The name is the newest one."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO directory (platform, account, chat_id, thread_id, name, address_json)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (platform, account, clean(chat_id), clean(thread_id or ""), clean(name), clean(address_json)),
            )

        await self._db.write(run)

    async def chats(self, platform: str) -> list[tuple[str, str]]:
        """(name, address) of every known chat of a platform, by name."""

        def run(tx: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT name, address_json FROM directory WHERE platform = ? ORDER BY name, chat_id, thread_id"
            return [(row["name"], row["address_json"]) for row in tx.execute(query, (platform,))]

        return await self._db.read(run)

    async def home(self, platform: str) -> str | None:
        """The address of the platform's home chat, where one was set."""

        def run(tx: sqlite3.Connection) -> str | None:
            row = tx.execute("SELECT address_json FROM homes WHERE platform = ?", (platform,)).fetchone()
            return None if row is None else str(row["address_json"])

        return await self._db.read(run)

    async def set_home(self, platform: str, address_json: str, by: str) -> None:
        """Make that chat the platform's home. On the disk on return."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO homes (platform, address_json, set_by) VALUES (?, ?, ?)",
                (platform, clean(address_json), clean(by)),
            )

        await self._db.write(run, full=True)
