"""Questions to people: answered once, by the one who may, by nothing but an explicit press (B84)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.errors import NotReady
from adapters.memory.adapter import BareMemoryAdapter, MemoryAdapter
from gateway.approvals import Approvals, ApprovalSettings, fenced
from state.clock import SteppedClock
from state.ids import ApprovalId
from state.records import ApprovalState, TurnLease
from tests.unit.gateway.rig import Rig, connect, process, room

HERE = room(thread="T")
OWNER, ANN = "memory:boss", "memory:ann"
COMMAND = "rm -r ./old && echo `date`"


@pytest.fixture
async def adapter() -> AsyncIterator[MemoryAdapter]:
    one = MemoryAdapter()
    async with connect(one):
        yield one


def service(rig: Rig, settings: ApprovalSettings | None = None) -> Approvals:
    return Approvals(rig.store, rig.deliveries, clock=rig.clock, settings=settings or ApprovalSettings())


def asks(approvals: Approvals, lease: TurnLease):  # type: ignore[no-untyped-def]
    return approvals.for_turn(lease, HERE, sender_id="ann", reply_to="in-1")


async def asked(rig: Rig, adapter: BareMemoryAdapter, count: int = 1) -> str:
    """The id of the newest question, once it stands in the chat and is recorded."""
    await adapter.room.until(lambda: sum(1 for one in adapter.room.shown() if one.said.buttons) >= count)
    await rig.quiet()
    return [one for one in adapter.room.shown() if one.said.buttons][-1].said.buttons[0].id


async def test_B84_an_owners_press_allows_one_run(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        [shown] = adapter.room.shown()
        assert COMMAND in shown.text
        assert f"/approve {question}" in shown.text
        assert [one.value for one in shown.said.buttons] == ["approve", "deny"]
        assert (shown.address, shown.reply_to) == (HERE, "in-1")
        assert await approvals.press(question, "approve", OWNER, "owner") == "Allowed, for this one run."
        assert await task is True
        assert "already" in await approvals.press(question, "approve", OWNER, "owner")
        await rig.quiet()
        [closed] = adapter.room.shown()  # no dead button stays
        assert not closed.said.buttons
        assert "Allowed" in closed.text
        # the same command again is another question
        again = asyncio.create_task(asks(approvals, lease).approve("c2", COMMAND))
        assert await asked(rig, adapter) != question
        again.cancel()
        # and the very same call has had its one run
        assert await asks(approvals, lease).approve("c1", COMMAND) is False


@pytest.mark.parametrize("role", ["member", "guest", None])
async def test_B84_nobody_but_an_owner_approves(tmp_path: Path, adapter: MemoryAdapter, role: str | None) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        assert await approvals.press(question, "approve", ANN, role) == "Only an owner may answer that."  # type: ignore[arg-type]
        assert not task.done()
        assert await approvals.press(question, "yes", OWNER, "owner") == "The answer is approve or deny."
        assert not await approvals.answer_text(lease.turn_id, ANN, "yes")
        assert not await approvals.answer_text(lease.turn_id, OWNER, "approve")
        assert not task.done()
        assert await approvals.press(question, "deny", OWNER, "owner") == "Denied. Nothing is run."
        assert await task is False
        assert "denied already" in await approvals.press(question, "approve", OWNER, "owner")


async def test_B84_yes_answers_the_clarify_question_only(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        dangerous = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        await asked(rig, adapter)
        tabs = asyncio.create_task(asks(approvals, lease).clarify("c2", "Shall I use tabs?", ["yes", "no"]))
        question = await asked(rig, adapter, 2)
        assert await approvals.press(question, "0", "memory:bob", "owner") == "That question is for somebody else."
        assert await approvals.press(question, "7", ANN, "member") == "That is not one of the choices."
        assert not await approvals.answer_text(lease.turn_id, "memory:bob", "yes")
        assert await approvals.answer_text(lease.turn_id, ANN, "yes")
        assert await tabs == "yes"
        assert not dangerous.done()
        dangerous.cancel()


async def test_a_choice_is_pressed_by_its_number(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).clarify("c1", "Which?", ["left", "right"]))
        question = await asked(rig, adapter)
        assert await approvals.press(question, "1", ANN, "guest") == "Answered: right"
        assert await task == "right"
        # after a crash the resumed call gets the same answer and asks nobody again
        assert await asks(approvals, lease).clarify("c1", "Which?", ["left", "right"]) == "right"


async def test_B84_an_approval_after_its_time_is_told_and_runs_nothing(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        rig.clock.advance(299.0)
        approvals.nudge()
        await asyncio.sleep(0.02)
        assert not task.done()
        rig.clock.advance(61.0)
        assert "Too late" in await approvals.press(question, "approve", OWNER, "owner")
        assert await task is False
        assert "Too late" in await approvals.press(question, "approve", OWNER, "owner")


async def test_an_expired_question_says_so_in_the_chat(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        await asked(rig, adapter)
        rig.clock.advance(300.0)
        approvals.nudge()
        assert await task is False
        await rig.quiet()
        [closed] = adapter.room.shown()
        assert "Nobody answered in time" in closed.text
        assert closed.address == HERE


async def test_B84_after_a_restart_the_same_question_waits_and_is_not_asked_twice(
    tmp_path: Path, adapter: MemoryAdapter
) -> None:
    clock = SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock) as rig:
        lease = await rig.lease(HERE)
        task = asyncio.create_task(asks(service(rig), lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        task.cancel()
        await asyncio.wait([task])
    clock.advance(60.0)
    async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
        approvals = service(rig)
        again = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        await asyncio.sleep(0.02)
        await rig.quiet()
        assert len(adapter.room.shown()) == 1
        assert not again.done()
        await approvals.press(question, "approve", OWNER, "owner")
        assert await again is True


async def test_B84_an_approval_does_not_survive_a_long_stop_unnoticed(tmp_path: Path, adapter: MemoryAdapter) -> None:
    clock = SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        row = await rig.store.approvals.create(
            "approval",
            lease.session_id,
            lease.turn_id,
            "c1",
            ANN,
            '{"what":"rm x","address":{"platform":"memory","account":"bot","chat_id":"c","thread_id":"T"}}',
            300.0,
        )
        await approvals.press(row.id, "approve", OWNER, "owner")
    clock.advance(600.0)
    async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
        assert await asks(service(rig), lease).approve("c1", "rm x") is False
        await rig.quiet()
        # what the first process had no time to show (it was allowed) may be shown first
        assert (await rig.store.approvals.get(row.id)).state is ApprovalState.APPROVED  # type: ignore[union-attr]


async def test_a_press_taken_by_another_process_is_seen(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        mine, theirs, lease = service(rig), service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(mine, lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        await theirs.press(question, "approve", OWNER, "owner")
        assert not task.done()
        mine.nudge()  # in life: at the next look, at most two seconds later
        assert await task is True


async def test_the_end_of_the_turn_voids_what_it_asks(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        question = await asked(rig, adapter)
        task.cancel()
        await asyncio.wait([task])
        await approvals.ended(lease.turn_id)
        assert "the turn that asked has ended" in await approvals.press(question, "approve", OWNER, "owner")


async def test_what_is_always_asked_for_is_asked_for(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig, ApprovalSettings(mode="never", always=("rm ",))), await rig.lease(HERE)
        assert await asks(approvals, lease).approve("c1", "ls") is True
        task = asyncio.create_task(asks(approvals, lease).approve("c2", "rm x"))
        question = await asked(rig, adapter)
        await approvals.press(question, "deny", OWNER, "owner")
        assert await task is False


async def test_approvals_never_asks_nobody(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        assert await asks(service(rig, ApprovalSettings(mode="never")), lease).approve("c1", COMMAND) is True
        assert adapter.room.shown() == []


async def test_a_question_waits_for_its_platform(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        approvals, lease = service(rig), await rig.lease(HERE)
        adapter.room.fail("send", NotReady())
        task = asyncio.create_task(asks(approvals, lease).approve("c1", COMMAND))
        while all(name != "send" for name, _ in adapter.room.calls):
            await asyncio.sleep(0.001)
        await rig.quiet()
        await rig.later(2.0)
        await approvals.press(await asked(rig, adapter), "approve", OWNER, "owner")
        assert await task is True


async def test_an_unknown_id_is_told(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        assert "do not know that question" in await service(rig).press("a_nothing", "approve", OWNER, "owner")
        assert await rig.store.approvals.get(ApprovalId("")) is None


@pytest.mark.parametrize("text", ["ls", "echo ```", "a\n```` b\n`", ""])
def test_nothing_in_a_command_ends_its_block(text: str) -> None:
    first, *middle, last = fenced(text).split("\n")
    assert "\n".join(middle) == text
    assert first == last
    assert first not in text
