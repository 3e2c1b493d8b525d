"""The giver's side of a hand-off that another process carries out: wait, tell, give up only what nobody has taken.

The waits for the claim and for the end are separate (B87): before the claim the giver may cancel, by
compare-and-set; after it the row is the claimer's, whose claim expires by itself where the process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.handoff import Plan
from state.errors import NotFound
from state.ids import HandoffId
from state.records import Handoff, HandoffState
from state.store import Store

CLAIM_SECONDS = 30.0
LOOK = 0.2
NOT_TAKEN = "the daemon did not take it in time"


async def follow(
    store: Store,
    handoff_id: HandoffId,
    *,
    claim_seconds: float = CLAIM_SECONDS,
    begun: Callable[[], None] = lambda: None,
) -> Handoff:
    """The row as it has ended. `begun` is called when it was claimed. Raises a `StateError`."""
    until, told = store.clock.monotonic() + claim_seconds, False
    while True:
        row = await store.handoffs.get(handoff_id)
        if row is None:
            raise NotFound(f"there is no hand-off {handoff_id}")
        if row.state in (HandoffState.DONE, HandoffState.FAILED):
            return row
        if row.state is HandoffState.RUNNING and not told:
            told = True
            begun()
        if row.state is HandoffState.PENDING and store.clock.monotonic() > until:
            await store.handoffs.cancel_pending(handoff_id, NOT_TAKEN)
        if row.state is HandoffState.RUNNING:
            await store.handoffs.sweep(handoff_id)  # the claimer may have died, and no daemon be there to see it
        await asyncio.sleep(LOOK)


def end_of(row: Handoff) -> str:
    """The end in words."""
    plan = Plan.from_json(row.target)
    if row.state is HandoffState.DONE:
        return f"This conversation goes on at {plan.target.address.platform}: {plan.target.name}."
    return f"The hand-off to {plan.target.name} failed: {row.reason}. Nothing has moved."
