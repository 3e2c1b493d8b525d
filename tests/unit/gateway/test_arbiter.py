"""The arbiter: one call at a time for a chat, by priority, within the budget, never during a hold."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from adapters.errors import RetryAfter
from adapters.limits import Limits
from gateway.arbiter import LONGEST_HOLD, Arbiter, NoTurn, Priority, account_of, platform_of
from gateway.keys import account_queue, chat_queue
from gateway.metrics import Metrics
from state.clock import SteppedClock
from state.errors import StoreBusy
from state.records import Hold
from tests.unit.gateway.rig import room


class Kept:
    """Holds in memory; `busy` makes the store refuse."""

    def __init__(self) -> None:
        self.rows: dict[str, Hold] = {}
        self.busy = False

    async def set(self, chat: str, until: datetime, reason: str) -> None:
        if self.busy:
            raise StoreBusy
        self.rows[chat] = Hold(chat=chat, until=until, reason=reason)

    async def active(self) -> list[Hold]:
        return list(self.rows.values())

    async def clear(self, chat: str) -> None:
        self.rows.pop(chat, None)


def made(limits: Limits | None = None, kept: Kept | None = None, clock: SteppedClock | None = None):  # type: ignore[no-untyped-def]
    clock, kept = clock or SteppedClock(), kept or Kept()
    return Arbiter(kept, clock, Metrics(), lambda _: limits), clock, kept


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


CHAT = chat_queue(room("c"))


async def take(arbiter: Arbiter, order: list[str], name: str, priority: Priority, chat: str = CHAT) -> None:
    async with arbiter.turn(chat, priority):
        order.append(name)


def test_the_names_of_queues_are_those_of_keys() -> None:
    odd = chat_queue(room("a:b/~%", platform="x:y"))
    assert account_of(odd) == account_queue("x:y", "bot")
    assert platform_of(odd) == platform_of(account_of(odd)) == "x:y"


async def test_the_highest_priority_goes_first_and_equals_in_order() -> None:
    arbiter, _, _ = made()
    order: list[str] = []
    tasks = []
    async with arbiter.turn(CHAT, Priority.DRAFT):
        for name, priority in (
            ("typing", Priority.TYPING),
            ("progress", Priority.PROGRESS),
            ("draft", Priority.DRAFT),
            ("notice", Priority.NOTICE),
            ("approval", Priority.APPROVAL),
            ("final 1", Priority.FINAL),
            ("final 2", Priority.FINAL),
            ("interim", Priority.INTERIM),
        ):
            tasks.append(asyncio.create_task(take(arbiter, order, name, priority)))
        await settle()
        assert order == []
    await asyncio.gather(*tasks)
    assert order == ["final 1", "final 2", "approval", "notice", "interim", "draft", "progress", "typing"]
    assert len(arbiter) == 0


async def test_one_call_at_a_time_for_a_chat_and_chats_do_not_wait_for_each_other() -> None:
    arbiter, _, _ = made()
    order: list[str] = []
    async with arbiter.turn(CHAT, Priority.FINAL):
        other = chat_queue(room("other"))
        await take(arbiter, order, "other", Priority.TYPING, other)
        waiting = asyncio.create_task(take(arbiter, order, "same", Priority.FINAL))
        await settle()
        assert order == ["other"]
    await waiting
    assert order == ["other", "same"]


async def test_B30_a_hold_stops_its_chat_only_and_ends_on_time() -> None:
    arbiter, clock, kept = made()
    with pytest.raises(RetryAfter):
        async with arbiter.turn(CHAT, Priority.FINAL):
            raise RetryAfter(30.0)
    assert arbiter.held_for(CHAT) == 30.0
    assert arbiter.held_for(chat_queue(room("other"))) == 0.0
    assert kept.rows[CHAT].until == clock.utc() + timedelta(seconds=30)
    order: list[str] = []
    waiting = asyncio.create_task(take(arbiter, order, "final", Priority.FINAL))
    clock.advance(29.9)
    arbiter.nudge()
    await settle()
    assert order == []
    clock.advance(0.1)
    arbiter.nudge()
    await waiting
    assert order == ["final"]
    assert kept.rows == {}  # what has passed is not kept for ever


async def test_B30_odd_figures_have_bounds_and_a_hold_is_never_shortened() -> None:
    arbiter, _, _ = made()
    assert await arbiter.hold(CHAT, float("nan")) == 1.0
    assert await arbiter.hold(CHAT, -5.0) == 1.0
    assert await arbiter.hold(CHAT, 0.0) == 1.0
    assert await arbiter.hold(CHAT, 1e12) == LONGEST_HOLD
    assert await arbiter.hold(CHAT, 2.0) == 2.0
    assert arbiter.held_for(CHAT) == LONGEST_HOLD


async def test_B30_a_hold_counts_although_the_store_cannot_keep_it() -> None:
    arbiter, _, kept = made()
    kept.busy = True
    await arbiter.hold(CHAT, 30.0)
    assert arbiter.held_for(CHAT) == 30.0


async def test_B30_a_hold_of_the_account_stops_all_its_chats() -> None:
    arbiter, _, _ = made()
    with pytest.raises(RetryAfter):
        async with arbiter.turn(CHAT, Priority.FINAL):
            raise RetryAfter(10.0, everywhere=True)
    assert arbiter.held_for(chat_queue(room("other"))) == 10.0
    assert arbiter.held_for(chat_queue(room("other", platform="second"))) == 0.0


@pytest.mark.parametrize("step", [-86_400.0 * 365, 0.0])
async def test_B30_a_loaded_hold_is_never_longer_than_was_asked_for(step: float) -> None:
    arbiter, clock, kept = made()
    await arbiter.hold(CHAT, 30.0)
    clock.step_wall(step)
    again, _, _ = made(kept=kept, clock=clock)
    await again.load()
    assert again.held_for(CHAT) == 30.0


async def test_B30_a_hold_that_passed_while_we_were_down_is_gone() -> None:
    arbiter, clock, kept = made()
    await arbiter.hold(CHAT, 30.0)
    clock.advance(31.0)
    again, _, _ = made(kept=kept, clock=clock)
    await again.load()
    assert again.held_for(CHAT) == 0.0
    assert kept.rows == {}


async def test_the_budget_leaves_the_burst_to_what_is_not_cosmetic() -> None:
    arbiter, clock, _ = made(Limits(text=100, chat_every=1.0, chat_burst=3))
    order: list[str] = []
    for n in range(3):
        await take(arbiter, order, f"final {n}", Priority.FINAL)
    late = asyncio.create_task(take(arbiter, order, "final 3", Priority.FINAL))
    drawn = asyncio.create_task(take(arbiter, order, "draft", Priority.DRAFT))
    await settle()
    assert len(order) == 3
    clock.advance(1.0)
    arbiter.nudge()
    await late
    assert order[-1] == "final 3"
    clock.advance(1.0)
    arbiter.nudge()
    await settle()
    assert order[-1] == "final 3"  # a final could go now, a draft may not use up the burst
    clock.advance(2.0)
    arbiter.nudge()
    await drawn


async def test_the_budget_of_the_account_is_shared_by_its_chats() -> None:
    arbiter, clock, _ = made(Limits(text=100, account_every=0.5, account_burst=2))
    order: list[str] = []
    tasks = [
        asyncio.create_task(take(arbiter, order, str(n), Priority.FINAL, chat_queue(room(f"c{n}")))) for n in range(4)
    ]
    await settle()
    assert len(order) == 2
    for count in (3, 4):
        clock.advance(0.5)
        arbiter.nudge()
        await settle()
        assert len(order) == count
    await asyncio.gather(*tasks)


async def test_patience_ends_and_a_cancelled_waiter_takes_nothing_along() -> None:
    arbiter, _, _ = made()
    order: list[str] = []
    async with arbiter.turn(CHAT, Priority.FINAL):
        with pytest.raises(NoTurn):
            async with arbiter.turn(CHAT, Priority.TYPING, patience=0.01):
                order.append("never")
        cancelled = asyncio.create_task(take(arbiter, order, "cancelled", Priority.FINAL))
        waiting = asyncio.create_task(take(arbiter, order, "waiting", Priority.TYPING))
        await settle()
        cancelled.cancel()
        await settle()
    # granted and cancelled in the same moment: the turn goes on to the next
    await waiting
    assert order == ["waiting"]
    assert len(arbiter) == 0


async def test_a_waiter_that_is_cancelled_when_its_turn_was_granted_hands_it_on() -> None:
    arbiter, _, _ = made()
    order: list[str] = []
    holder = arbiter.turn(CHAT, Priority.FINAL)
    await holder.__aenter__()
    first = asyncio.create_task(take(arbiter, order, "first", Priority.FINAL))
    second = asyncio.create_task(take(arbiter, order, "second", Priority.FINAL))
    await settle()
    exiting = asyncio.ensure_future(holder.__aexit__(None, None, None))
    await asyncio.sleep(0)
    first.cancel()
    await exiting
    await second
    assert order in (["second"], ["first", "second"])
    assert len(arbiter) == 0
