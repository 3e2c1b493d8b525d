"""The closed ledger: every accepted event ends in exactly one stated fate, and those concerned hear it.

`conclude` is for events that end outside a turn; those of a turn end in the turn's own transaction and
are only announced here. The reconciler looks for events that nobody works on, and closes or requeues them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from adapters.events import ChatAddress, MessageEvent
from adapters.ports import HearsFates, PlatformAdapter
from state.ids import EventId, SessionId, TurnId
from state.records import Fate, InboxEvent, NewDelivery, TurnState
from state.store import Store

log = structlog.get_logger("gateway.fates")


class FateMetrics(Protocol):
    """What is counted."""

    def fate(self, fate: str) -> None:
        """An event has ended so."""
        ...


class Fates:
    """Ends events and tells it. `adapters` is the live table of this process."""

    def __init__(self, store: Store, adapters: Mapping[str, PlatformAdapter], metrics: FateMetrics) -> None:
        self._store = store
        self._adapters = adapters
        self._metrics = metrics

    async def conclude(
        self,
        event_id: EventId,
        event: MessageEvent,
        fate: Fate,
        detail: str = "",
        *,
        turn_id: TurnId | None = None,
        delivery: NewDelivery | None = None,
        undo: tuple[SessionId, TurnId] | None = None,
    ) -> bool:
        """End one event, in one transaction with what is said about it (and with the taking back of a
        turn). False, and nothing done, where it had ended before."""
        done = await self._store.inbox.conclude(event_id, fate, detail, turn_id=turn_id, delivery=delivery, undo=undo)
        if done:
            self.announce(event.address, event.message_id, fate, detail)
        return done

    def announce(self, address: ChatAddress, message_id: str, fate: Fate, detail: str) -> None:
        """Tell those who wait for the end of an event. After the commit; never fails."""
        self._metrics.fate(fate.value)
        log.info("event.settled", platform=address.platform, message=message_id, fate=fate.value, why=detail)
        adapter = self._adapters.get(address.platform)
        if isinstance(adapter, HearsFates):
            adapter.settled(address, message_id, fate.value, detail)

    async def reconcile(self, requeue: Callable[[InboxEvent], None]) -> int:
        """Close what a turn has left open, requeue what no turn holds. Each one is an alarm in the log.

        An orphan is RUNNING although its turn has ended, or without any turn: the transactions make
        that impossible, so one that is found is a defect, and is mended and told.
        """
        found = await self._store.inbox.orphans()
        for row in found:
            turn = None if row.turn_id is None else await self._store.turns.get(row.turn_id)
            log.error("event.orphan", event_id=row.id, turn=row.turn_id, state=turn and turn.state.value)
            if turn is None:
                requeue(row)
            else:
                fate = {
                    TurnState.ANSWERED: Fate.ANSWERED,
                    TurnState.INTERRUPTED: Fate.CANCELLED,
                }.get(turn.state, Fate.FAILED)
                await self._store.inbox.settle(row.id, fate, "closed by the reconciler", turn_id=row.turn_id)
        return len(found)
