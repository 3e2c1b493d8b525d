"""What a start, and a regular look afterwards, does about work that nobody holds any more.

Order at a start: surviving tool processes of dead owners are ended, turns of dead owners go to the front of
their workers, open events follow in the order of their acceptance, and only then does intake begin (B02).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from adapters.events import MessageEvent
from agent_core.tools.reap import reap
from gateway.convert import event_from_row
from gateway.fates import Fates
from gateway.intake import Arrival, Intake
from gateway.succession.overlap import Overlap
from gateway.work import Work
from gateway.workers import Item, Workers
from state.errors import StateError
from state.records import Fate, InboxEvent, Turn
from state.store import Store

log = structlog.get_logger("gateway.recovery")

EVERY = 15.0


class Recovery:
    """Takes up what is open. `mine` tells the events that this process answers. The daemon takes up the turns
    of dead processes whatever their platform: an answer for a terminal that died waits for its return."""

    def __init__(
        self,
        store: Store,
        work: Work,
        workers: Workers,
        intake: Intake,
        fates: Fates,
        mine: Callable[[InboxEvent], bool],
        overlap: Overlap,
    ) -> None:
        self._overlap = overlap
        self._store = store
        self._work = work
        self._workers = workers
        self._intake = intake
        self._fates = fates
        self._mine = mine

    async def start(self, *, all_turns: bool) -> int:
        """Take up everything that is open. Returns how much that was."""
        await self.reap()
        count = await self._turns(all_turns=all_turns)
        count += await self._waiting()
        if count:
            log.info("recovery.taken_up", count=count)
        return count

    async def _waiting(self) -> int:
        """Dispatch what waits and nobody has, in the order in which it came."""
        count = 0
        for row in await self._store.inbox.open_events():
            if self._free(row) and not self._intake.holds(row.key, row.id):
                self._intake.again(row)
                count += 1
        return count

    def _free(self, row: InboxEvent) -> bool:
        return row.fate is Fate.WAITING and self._mine(row) and not self._overlap.holds(row)

    async def reap(self) -> None:
        """End the processes that a dead owner's tools have left."""
        for process in await self._store.processes.of_dead_owners():
            gone = await reap(process)
            log.warning("process.reaped", pgid=process.pgid, turn=process.turn_id, ended=gone.ended, left=gone.left)
            if gone.left == 0:
                await self._store.processes.remove(process.pgid, process.started)

    async def _turns(self, *, all_turns: bool) -> int:
        count = 0
        live = {running.turn_id for running in self._work.all().values()}
        for turn in await self._store.leases.dead_turns():
            if turn.id in live:
                continue
            rows = [row for row in await self._store.inbox.of_turn(turn.id) if row.fate is Fate.RUNNING]
            if not rows:
                log.error("turn.without_event", turn=turn.id)
                continue
            if all_turns or self._mine(rows[0]):
                self._take_up(turn, rows)
                count += 1
        return count

    def _take_up(self, turn: Turn, rows: list[InboxEvent]) -> None:
        event: MessageEvent = event_from_row(rows[0])
        item = Item(event_id=rows[0].id, event=event, text=event.text, resume=turn.id)
        self._workers.put(turn.key, item, front=True)
        log.info("turn.taken_up", turn=turn.id, attempts=turn.attempts)

    async def watch(self, *, all_turns: bool) -> None:
        """Look again regularly, until cancelled: turns of processes that have died since, orphans, and open
        events that this process does not know of."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.reap()
                await self._turns(all_turns=all_turns)
                await self._fates.reconcile(self._requeue)
                await self._forgotten()
            except StateError as error:
                log.warning("recovery.postponed", error=str(error))

    def _requeue(self, row: InboxEvent) -> None:
        event = event_from_row(row)
        self._intake.dispatch(Arrival(event_id=row.id, key=row.key, event=event))

    async def _forgotten(self) -> None:
        """Waiting events that neither a worker nor a lane holds (a lane was full)."""
        for row in await self._store.inbox.open_events():
            if self._free(row) and self._old(row) and not self._intake.holds(row.key, row.id):
                log.error("event.forgotten", event_id=row.id)
                self._intake.again(row)

    def _old(self, row: InboxEvent) -> bool:
        """True where the event is no newcomer that is on its way just now."""
        return row.received_at.timestamp() < self._store.clock.utc().timestamp() - EVERY
