"""Where tools record their process groups: in the store, before the command runs."""

from __future__ import annotations

from state.owners import boot_id
from state.records import ToolProcess, TurnLease
from state.store import Store


class Ledger:
    """Implements `agent_core.tools.ports.ProcessLedger` for one turn."""

    def __init__(self, store: Store, lease: TurnLease) -> None:
        self._store = store
        self._lease = lease

    async def started(self, call_id: str, pgid: int, start_ticks: int) -> None:
        """Commit the group before its command may run."""
        await self._store.processes.add(
            ToolProcess(
                pgid=pgid,
                started=start_ticks,
                boot_id=boot_id(),
                turn_id=self._lease.turn_id,
                call_id=call_id,
                owner=self._lease.owner,
            )
        )

    async def ended(self, pgid: int, start_ticks: int) -> None:
        """Forget it: the whole group is gone."""
        await self._store.processes.remove(pgid, start_ticks)
