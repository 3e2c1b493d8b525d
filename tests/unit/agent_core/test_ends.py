"""Turns that are ended from outside, and turns that are taken up again after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_core.events import TextDelta
from agent_core.loop import Budget, abandon, run_turn
from agent_core.models.scripted import ScriptedStep
from agent_core.settle import end, left_behind, settled
from agent_core.tool_calls import NOT_RUN
from agent_core.tools.ports import Rights, ToolResult
from state.errors import LeaseLost
from state.records import Fate, NewMessage, ToolCall, ToolStatus, TurnState
from tests.unit.agent_core.rig import AskingTool, FakeTool, Rig, calls, opened, reopened, scripted, until


async def _valid(rig: Rig) -> None:
    """The session goes on, and every call in its transcript has a result."""
    rows = await rig.rows()
    asked = [call.id for row in rows for call in row.tool_calls]
    assert asked == [row.tool_call_id for row in rows if row.role == "tool"]
    assert all(row.wire for row in rows)
    assert (await rig.say("hello")).state is TurnState.ANSWERED
    assert await rig.store.leases.holder(rig.session.id) is None


async def test_half_an_answer_does_not_become_history(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(text="I will now delete", chunks=8, delay=0.01))) as rig:
        started = await rig.start("go")
        await until(lambda: rig.seen(TextDelta))
        final = await rig.stop(started, "it was stopped")
        assert (final.state, final.detail) == (TurnState.INTERRUPTED, "it was stopped")
        assert final.text == "Stopped: it was stopped."
        rows = await rig.rows()
        assert [(row.role, row.content) for row in rows] == [
            ("user", "go"),
            ("assistant", "[No answer to this message. Stopped: it was stopped.]"),
        ]
        await _valid(rig)


async def test_B54_a_model_that_never_answers_is_stopped(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(text="x", delay=3600))) as rig:
        started = await rig.start("go")
        await until(lambda: rig.models[0].count)  # type: ignore[attr-defined]
        await rig.stop(started, "it was stopped")
        await _valid(rig)


async def test_a_call_that_is_interrupted_says_so(tmp_path: Path) -> None:
    async def slow(arguments: object, context: object) -> ToolResult:
        await asyncio.sleep(3600)
        return ToolResult(content="never")

    tool, other = FakeTool("slow", slow), FakeTool("other")
    async with opened(tmp_path, scripted(calls(("slow", "{}"), ("other", "{}"))), tools=[tool, other]) as rig:
        started = await rig.start("go")
        await until(lambda: tool.runs)
        await rig.stop(started, "it was stopped")
        results = [row for row in await rig.rows() if row.role == "tool"]
        assert [row.tool_status for row in results] == [ToolStatus.FAILED, ToolStatus.FAILED]
        assert "interrupted while it ran" in results[0].content
        assert results[1].content == NOT_RUN
        assert not other.runs
        await _valid(rig)


async def test_a_call_that_ends_in_time_keeps_its_result_although_the_turn_is_stopped(tmp_path: Path) -> None:
    async def tidy(arguments: object, context: object) -> ToolResult:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return ToolResult(content="half of it is done", ok=False)
        return ToolResult(content="never")

    tool = FakeTool("tidy", tidy)
    async with opened(tmp_path, scripted(calls(("tidy", "{}"))), tools=[tool]) as rig:
        started = await rig.start("go")
        await until(lambda: tool.runs)
        await rig.stop(started, "it was stopped")
        assert (await rig.rows())[2].content == "half of it is done"
        await _valid(rig)


@pytest.mark.parametrize("parallel", [False, True])
async def test_B54_a_tool_that_ignores_its_cancellation_does_not_hang_the_turn(tmp_path: Path, parallel: bool) -> None:
    release = asyncio.Event()

    async def stubborn(arguments: object, context: object) -> ToolResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(content="too late")

    tool = FakeTool("stubborn", stubborn, parallel=parallel)
    async with opened(tmp_path, scripted(calls(("stubborn", "{}"), ("stubborn", '{"n":1}'))), tools=[tool]) as rig:
        started = await rig.start("go")
        await until(lambda: len(tool.runs) == (2 if parallel else 1))
        await rig.stop(started, "it was stopped")
        results = [row for row in await rig.rows() if row.role == "tool"]
        assert results[0].tool_status is ToolStatus.UNKNOWN
        assert "goes on out of reach" in results[0].content
        assert f"tool:stubborn:{results[0].id}" in left_behind()
        await _valid(rig)
        release.set()
        await until(lambda: not left_behind())
        assert (await rig.store.transcript.get(results[0].id)) == results[0]  # the late result is fenced off


async def test_a_tool_has_a_time_bound_of_its_own(tmp_path: Path) -> None:
    async def slow(arguments: object, context: object) -> ToolResult:
        await asyncio.sleep(3600)
        return ToolResult(content="never")

    budget = Budget(tool_seconds=0.02, cancel_seconds=0.5)
    async with opened(
        tmp_path, scripted(calls(("slow", "{}")), "ok"), tools=[FakeTool("slow", slow)], budget=budget
    ) as rig:
        assert (await rig.say("go")).text == "ok"
        assert "longer than 0.02 s" in (await rig.rows())[2].content


async def test_the_time_in_which_a_person_is_asked_does_not_count(tmp_path: Path) -> None:
    tool = AskingTool("act")
    async with opened(
        tmp_path, scripted(calls(("act", "{}")), "ok"), tools=[tool], budget=Budget(tool_seconds=0.02)
    ) as rig:
        rig.ask.waits = asyncio.Event()
        task, lease, entry, _ = await rig.start("go")
        await until(lambda: rig.ask.asked)
        await asyncio.sleep(0.05)
        rig.ask.waits.set()
        await rig.commit(lease, await task, entry)
        assert tool.effects == 1


async def test_a_turn_that_was_ended_before_it_began_leaves_its_message(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted()) as rig:
        entry = await rig.input("go")
        lease = await rig.lease()
        context = rig.context(lease, entry)
        await rig.commit(lease, await abandon(context, "it was deleted"), entry)
        assert [row.role for row in await rig.rows()] == ["user", "assistant"]
        (event,) = await rig.store.inbox.of_turn(lease.turn_id)
        assert event.fate is Fate.CANCELLED
        await _valid(rig)


async def test_a_dead_turn_is_given_up_without_asking_the_model(tmp_path: Path) -> None:
    model = scripted(ScriptedStep(text="x", delay=3600))
    async with opened(tmp_path, model) as rig:
        task, lease, *_ = await rig.start("go")
        await until(lambda: model.count)
        await rig.crash(task, lease)
        again = await rig.lease(lease.turn_id)
        final = await abandon(rig.context(again, resume=True), "this message has ended the daemon twice")
        await rig.commit(again, final)
        assert (await rig.store.turns.get(lease.turn_id)).state is TurnState.INTERRUPTED  # type: ignore[union-attr]
        await _valid(rig)


@pytest.mark.parametrize("after", [0.0, 0.001, 0.003, 0.006, 0.01, 0.02])
async def test_B54_cancelling_at_any_moment_leaves_a_turn_that_can_be_ended(tmp_path: Path, after: float) -> None:
    tool = FakeTool("look", parallel=True)
    step = calls(("look", '{"n":1}'), ("look", '{"n":2}'))
    async with opened(tmp_path, scripted(*[step] * 50), tools=[tool]) as rig:
        started = await rig.start("go")
        await asyncio.sleep(after)
        await rig.stop(started, "it was stopped")
        rows = await rig.rows()
        assert rows[0].content == "go"
        assert all(row.wire for row in rows)
        started_runs = len(tool.runs)
        await asyncio.sleep(0.005)
        assert len(tool.runs) == started_runs


async def _dead_turn(rig: Rig, *statuses: ToolStatus) -> None:
    """A turn whose process has died with its calls in these states."""
    entry = await rig.input("restart the gateway")
    lease = await rig.lease()
    await rig.store.turns.begin(
        lease,
        rig.key,
        entry.event_ids,
        [
            NewMessage(
                role="user", content="restart the gateway", wire='{"role":"user","content":"restart the gateway"}'
            )
        ],
    )
    made = tuple(ToolCall(id=f"c{n}", name="act", arguments=f'{{"n":{n}}}') for n in range(len(statuses)))
    if made:
        said = NewMessage(role="assistant", content="", wire=rig.models[0].wire_assistant("", made), tool_calls=made)
        rows = [
            NewMessage(
                role="tool", content="", tool_call_id=call.id, tool_name=call.name, tool_status=ToolStatus.PLANNED
            )
            for call in made
        ]
        ids = await rig.store.turns.append(lease, [said, *rows])
        for call, row_id, status in zip(made, ids[1:], statuses, strict=True):
            if status is not ToolStatus.PLANNED:
                await rig.store.turns.start_call(lease, row_id)
            if status is ToolStatus.DONE:
                wire = rig.models[0].wire_tool_result(call, "done")
                await rig.store.turns.finish_call(lease, row_id, status, content="done", wire=wire)
    await rig.store.leases.release(lease)


async def _turn_id(rig: Rig):  # type: ignore[no-untyped-def]
    turn = await rig.store.turns.latest(rig.session.id)
    assert turn is not None
    return turn.id


async def test_B57_a_started_call_is_unknown_after_a_crash_and_not_run_again(tmp_path: Path) -> None:
    tool = FakeTool("act")
    async with opened(tmp_path, scripted("I will check."), tools=[tool]) as rig:
        await _dead_turn(rig, ToolStatus.STARTED)
        final = await rig.resume(await _turn_id(rig))
        assert not tool.runs
        assert (await rig.rows())[2].tool_status is ToolStatus.UNKNOWN
        assert "outcome of this call is unknown" in ((await rig.rows())[2].wire or "")
        assert "[Note: the outcome of a call of act is unknown, and it was not repeated.]" in final.text
        await _valid(rig)


async def test_B57_three_crashes_repeat_no_call(tmp_path: Path) -> None:
    runs: list[int] = []

    async def dies(arguments: object, context: object) -> ToolResult:
        runs.append(1)
        await asyncio.sleep(3600)
        return ToolResult(content="never")

    model = scripted(calls(("act", '{"n":0}')), ScriptedStep(text="x", delay=3600), "It is not known.")
    async with opened(tmp_path, model, tools=[FakeTool("act", dies)]) as rig:
        entry = await rig.input("restart")
        lease = await rig.lease()
        task = asyncio.create_task(run_turn(rig.context(lease, entry)))
        await until(lambda: runs)
        rig.clock.advance(31)  # frozen: the lease passes to the next process while the call runs
        second = await rig.lease(lease.turn_id)
        resumed = asyncio.create_task(run_turn(rig.context(second, resume=True)))
        await until(lambda: model.count == 2)
        await rig.crash(resumed, second)
        final = await rig.resume(lease.turn_id)
        assert final.text.startswith("It is not known.")
        assert len(runs) == 1
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or isinstance(task.exception(), LeaseLost)
        rows = await rig.rows()
        assert [row.tool_status for row in rows if row.role == "tool"] == [ToolStatus.UNKNOWN]


async def test_planned_calls_of_a_dead_turn_run_once_after_a_check(tmp_path: Path) -> None:
    tool = FakeTool("act")
    async with opened(tmp_path, scripted("ok"), tools=[tool]) as rig:
        await _dead_turn(rig, ToolStatus.DONE, ToolStatus.STARTED, ToolStatus.PLANNED)
        await rig.resume(await _turn_id(rig))
        assert tool.runs == [{"n": 2}]
        statuses = [row.tool_status for row in await rig.rows() if row.role == "tool"]
        assert statuses == [ToolStatus.DONE, ToolStatus.UNKNOWN, ToolStatus.DONE]
        await _valid(rig)


async def test_planned_calls_of_a_dead_turn_do_not_run_without_the_right(tmp_path: Path) -> None:
    tool = FakeTool("act")
    async with opened(tmp_path, scripted("ok"), tools=[tool]) as rig:
        await _dead_turn(rig, ToolStatus.PLANNED)
        rig.steering.now = Rights(role="guest", tools=frozenset())
        await rig.resume(await _turn_id(rig))
        assert not tool.runs
        assert "may not be used" in (await rig.rows())[2].content


async def test_a_call_that_waited_for_an_approval_waits_again(tmp_path: Path) -> None:
    tool = AskingTool("act")
    async with opened(tmp_path, scripted(calls(("act", "{}")), "ok"), tools=[tool]) as rig:
        rig.ask.waits = asyncio.Event()
        task, lease, *_ = await rig.start("go")
        await until(lambda: rig.ask.asked)
        rig.clock.advance(31)  # as if the process had been killed: nothing is written any more
        async with reopened(rig) as other:
            again = await other.lease(lease.turn_id)
            resumed = asyncio.create_task(run_turn(other.context(again, resume=True)))
            await until(lambda: len(rig.ask.asked) == 2)
            assert rig.ask.asked[0] == rig.ask.asked[1]  # the same question, not a second one
            rig.ask.waits.set()
            await other.commit(again, await resumed)
            with pytest.raises(LeaseLost):
                await task
            assert tool.effects == 1
            assert [row.tool_status for row in await other.rows() if row.role == "tool"] == [ToolStatus.DONE]


@pytest.mark.parametrize("statuses", [(), (ToolStatus.DONE,)])
async def test_a_dead_turn_goes_on_where_it_was(tmp_path: Path, statuses: tuple[ToolStatus, ...]) -> None:
    async with opened(tmp_path, scripted("here I am"), tools=[FakeTool("act")]) as rig:
        await _dead_turn(rig, *statuses)
        assert (await rig.resume(await _turn_id(rig))).text == "here I am"
        turn = await rig.store.turns.latest(rig.session.id)
        assert turn is not None
        assert (turn.state, turn.attempts) == (TurnState.ANSWERED, 2)
        await _valid(rig)


async def test_steps_before_the_crash_count(tmp_path: Path) -> None:
    model = scripted(calls(("act", "{}")), "never")
    async with opened(tmp_path, model, tools=[FakeTool("act")], budget=Budget(iterations=2)) as rig:
        await _dead_turn(rig, ToolStatus.DONE)
        assert (await rig.resume(await _turn_id(rig))).state is TurnState.FAILED
        assert model.count == 1


async def test_B02_of_two_that_resume_only_one_can_write(tmp_path: Path) -> None:
    model = scripted(ScriptedStep(text="x", delay=0.02), ScriptedStep(text="y"))
    async with opened(tmp_path, model) as rig:
        await _dead_turn(rig)
        turn_id = await _turn_id(rig)
        first = await rig.lease(turn_id)
        slow = asyncio.create_task(run_turn(rig.context(first, resume=True)))
        await until(lambda: model.count)
        rig.clock.advance(31)
        async with reopened(rig) as other:
            await other.resume(turn_id)
            with pytest.raises(LeaseLost):
                await rig.commit(first, await slow)
        assert [row.content for row in await rig.rows() if row.role == "assistant"] == ["y"]


# -- settle


async def test_a_settled_write_ends_before_the_cancellation_goes_on() -> None:
    began, go, done = asyncio.Event(), asyncio.Event(), []

    async def write() -> None:
        began.set()
        await go.wait()
        done.append(1)

    task = asyncio.create_task(settled(write(), "write"))
    await began.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done == [1]


async def test_a_settled_write_that_fails_while_cancelled_ends_as_cancelled() -> None:
    go = asyncio.Event()

    async def write() -> None:
        await go.wait()
        raise LeaseLost

    task = asyncio.create_task(settled(write(), "write"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_ending_a_task_is_bounded_although_the_caller_is_cancelled_too() -> None:
    async def outer() -> bool:
        inner = asyncio.create_task(asyncio.sleep(3600), name="inner")
        await asyncio.sleep(0)
        return await end(inner, 1.0)

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=1)
    assert task.done()
