"""Takes back what we said in a turn that was undone, where the platform can."""

from __future__ import annotations

import structlog

from adapters.errors import AdapterError, RetryAfter
from adapters.ports import CanDelete
from gateway.arbiter import NoTurn, Priority
from gateway.convert import address_from_json
from gateway.delivery import Deliveries
from state.ids import TurnId
from state.records import StoredDelivery

log = structlog.get_logger("gateway.retract")

PATIENCE = 60.0
"""Seconds that a retraction waits for its slot; it is cosmetic, and is given up then."""


async def retract(deliveries: Deliveries, turn_id: TurnId) -> int:
    """Delete our messages of the turn. Returns how many are gone; failures are logged, nothing is retried."""
    gone = 0
    for delivery in await deliveries.store.outbox.of_turn(turn_id):
        gone += await _retract_one(deliveries, delivery)
    return gone


async def _retract_one(deliveries: Deliveries, delivery: StoredDelivery) -> int:
    adapter = deliveries.reach.adapter(delivery.platform, delivery.account)
    if not isinstance(adapter, CanDelete):
        return 0
    gone, address = 0, address_from_json(delivery.address_json)
    for message_id in [one for chunk in delivery.chunks for one in chunk.message_ids]:
        try:
            async with deliveries.arbiter.turn(delivery.chat, Priority.PROGRESS, patience=PATIENCE):
                await adapter.delete(address, message_id)
            gone += 1
        except RetryAfter as error:
            await deliveries.arbiter.hold(delivery.chat, error.seconds, everywhere=error.everywhere)
        except (AdapterError, NoTurn) as error:
            log.warning("message.not_retracted", delivery=delivery.id, error=str(error))
    return gone
