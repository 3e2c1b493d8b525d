"""The lease of a running turn: kept, and given up with the turn's own end without an alarm."""

from __future__ import annotations

import pytest

from gateway import running as module
from gateway.running import Running, SteeringQueue, keep_lease
from state.clock import SYSTEM
from state.errors import LeaseLost


class Leases:
    async def renew(self, lease: object, ttl: float) -> None:
        raise LeaseLost("it was given up")


class Lost:
    count = 0

    def lease_lost(self) -> None:
        self.count += 1


class Store:
    leases = Leases()


@pytest.mark.parametrize("committing", [True, False])
async def test_a_lease_that_the_end_has_given_up_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, committing: bool
) -> None:
    monkeypatch.setattr(module, "LEASE_TTL", 0.03)
    running = Running(
        key="k",  # type: ignore[arg-type]
        session_id="s",  # type: ignore[arg-type]
        turn_id="t",  # type: ignore[arg-type]
        items=(),
        steering=SteeringQueue(None, shared=False),  # type: ignore[arg-type]
        started=0.0,
        committing=committing,
    )
    lost = Lost()
    await keep_lease(Store(), None, running, SYSTEM, lost)  # type: ignore[arg-type]
    assert (running.lost, lost.count) == (not committing, int(not committing))
