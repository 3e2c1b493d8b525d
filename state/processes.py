"""Process groups that tools have started, so that what a crash left running can be ended."""

from __future__ import annotations

import sqlite3

from state import owners, rows
from state.ids import Owner, TurnId
from state.records import ToolProcess
from state.repository import Repository


class Processes(Repository):
    """A group is named by its id, its start time and the boot: a pid alone may be somebody else's by now."""

    async def add(self, process: ToolProcess) -> None:
        """Remember a group before its command runs. On the disk is not needed: power loss ends it too."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT OR REPLACE INTO processes (pgid, started, boot_id, turn_id, call_id, owner)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (process.pgid, process.started, process.boot_id, process.turn_id, process.call_id, process.owner),
            )

        await self._db.write(run)

    async def remove(self, pgid: int, started: int) -> None:
        """The group has ended."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute("DELETE FROM processes WHERE pgid = ? AND started = ?", (pgid, started))

        await self._db.write(run)

    async def of_turn(self, turn_id: TurnId) -> list[ToolProcess]:
        """The groups of a turn."""

        def run(tx: sqlite3.Connection) -> list[ToolProcess]:
            found = tx.execute("SELECT * FROM processes WHERE turn_id = ? ORDER BY pgid", (turn_id,))
            return [rows.process(row) for row in found]

        return await self._db.read(run)

    async def of_dead_owners(self) -> list[ToolProcess]:
        """The groups whose owner is provably dead. Those of another boot are gone and are left out."""
        boot_id = self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> list[ToolProcess]:
            found = tx.execute("SELECT * FROM processes WHERE boot_id = ? ORDER BY pgid", (boot_id,)).fetchall()
            return [rows.process(row) for row in found if owners.is_alive(Owner(row["owner"])) is False]

        return await self._db.read(run)
