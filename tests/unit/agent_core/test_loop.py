"""The loop: answers, tools, steering, bounds, and the ways in which a model fails."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent_core.events import StepCommitted, TextDelta, TextReset, ToolEnded, ToolStarted, Waiting
from agent_core.loop import Budget, run_turn
from agent_core.models.ports import Capabilities, Completion
from agent_core.models.scripted import ScriptedModel, ScriptedStep
from agent_core.tools.ports import Rights, ToolResult
from state.errors import LeaseLost
from state.records import Fate, ToolStatus, TurnState
from tests.unit.agent_core.rig import AskingTool, FakeTool, calls, opened, scripted

ERR = ScriptedStep(error="unavailable")


async def test_an_answer_is_streamed_and_given_back_uncommitted(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(text="Hello there", chunks=3))) as rig:
        entry = await rig.input("hi")
        lease = await rig.lease()
        final = await run_turn(rig.context(lease, entry))
        assert final.state is TurnState.ANSWERED
        assert final.text == "Hello there" == "".join(event.text for event in rig.seen(TextDelta))
        assert [row.role for row in await rig.rows()] == ["user"]
        assert (await rig.store.inbox.get(entry.event_ids[0])).fate is Fate.RUNNING  # type: ignore[union-attr]
        await rig.commit(lease, final, entry)
        assert [(row.role, row.content) for row in await rig.rows()] == [("user", "hi"), ("assistant", "Hello there")]
        assert (await rig.store.inbox.get(entry.event_ids[0])).fate is Fate.ANSWERED  # type: ignore[union-attr]
        assert final.usage.calls == 1
        assert (await rig.store.usage.of_session(rig.session.id)).request_bytes == final.usage.request_bytes > 0


async def test_a_call_is_planned_started_and_done_in_that_order(tmp_path: Path) -> None:
    seen: list[ToolStatus | None] = []

    async def look(arguments: object, context: object) -> ToolResult:
        seen.extend(row.tool_status for row in await rig.rows() if row.role == "tool")
        return ToolResult(content="seven", summary="found", extract="looked")

    tool = FakeTool("look", look)
    async with opened(
        tmp_path, scripted(calls(("look", '{"n":1}'), text="Let me see."), "It is seven."), tools=[tool]
    ) as rig:
        final = await rig.say("what?")
        assert seen == [ToolStatus.STARTED]
        assert final.text == "It is seven."
        rows = await rig.rows()
        assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"]
        assert (rows[2].content, rows[2].tool_status, rows[2].tool_name) == ("seven", ToolStatus.DONE, "look")
        assert json.loads(rows[2].wire or "")["content"] == "seven"
        assert [event.text for event in rig.seen(StepCommitted)] == ["Let me see."]
        assert [(one.name, one.call_id) for one in rig.seen(ToolStarted)] == [("look", f"c{rows[2].id}")]
        assert [(one.status, one.summary) for one in rig.seen(ToolEnded)] == [(ToolStatus.DONE, "found")]


async def test_parallel_calls_run_together_and_stand_in_source_order(tmp_path: Path) -> None:
    order: list[str] = []
    both = asyncio.Barrier(2)

    async def read(arguments: object, context: object) -> ToolResult:
        await asyncio.wait_for(both.wait(), 5)
        order.append("read")
        return ToolResult(content=str(arguments))

    def write(arguments: object, context: object) -> ToolResult:
        order.append("write")
        return ToolResult(content="written")

    tools = [FakeTool("read", read, parallel=True), FakeTool("write", write)]
    step = calls(("write", "{}"), ("read", '{"n":1}'), ("read", '{"n":2}'), ("write", "{}"))
    async with opened(tmp_path, scripted(step, "ok"), tools=tools) as rig:
        await rig.say("go")
        assert order == ["write", "read", "read", "write"]
        assert [row.content for row in await rig.rows() if row.role == "tool"] == [
            "written",
            "{'n': 1}",
            "{'n': 2}",
            "written",
        ]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("nothing", "{}"), "There is no tool 'nothing'. The tools are: look."),
        (("look", '{"n": '), "not valid JSON"),
        (("look", "[" * 100_000), "not valid JSON"),
        (("look", "[1]"), "must be one JSON object"),
        (("look", '{"n":"x"}'), "n must be a whole number"),
        (("look", '{"m":1}'), "must not have 'm'"),
        (("secret", "{}"), "may not be used in this turn"),
    ],
)
async def test_a_call_that_is_wrong_gets_a_result_that_says_why(
    tmp_path: Path, call: tuple[str, str], says: str
) -> None:
    tools = [FakeTool("look"), FakeTool("secret", group="owners")]
    async with opened(tmp_path, scripted(calls(call), "I see."), tools=tools) as rig:
        assert (await rig.say("go")).text == "I see."
        (result,) = [row for row in await rig.rows() if row.role == "tool"]
        assert result.tool_status is ToolStatus.FAILED
        assert says in result.content
        assert not tools[0].runs
        assert not tools[1].runs


async def test_rights_are_checked_again_when_a_call_runs(tmp_path: Path) -> None:
    def demote(arguments: object, context: object) -> ToolResult:
        rig.steering.now = Rights(role="guest", tools=frozenset())
        return ToolResult(content="demoted")

    tools = [FakeTool("demote", demote), FakeTool("look")]
    async with opened(tmp_path, scripted(calls(("demote", "{}"), ("look", "{}")), "ok"), tools=tools) as rig:
        await rig.say("go")
        assert not tools[1].runs


async def test_a_defect_in_a_tool_is_a_failed_result_and_logged(tmp_path: Path) -> None:
    def broken(arguments: object, context: object) -> ToolResult:
        raise RuntimeError("wires crossed, password=hunter22")

    tool = FakeTool("look", broken)
    async with opened(tmp_path, scripted(calls(("look", "{}")), "sorry"), tools=[tool]) as rig:
        assert (await rig.say("go")).text == "sorry"
        (result,) = [row for row in await rig.rows() if row.role == "tool"]
        assert result.tool_status is ToolStatus.FAILED
        assert "RuntimeError: wires crossed" in result.content
        assert "hunter22" not in result.content


async def test_the_very_same_failing_call_is_not_run_for_ever(tmp_path: Path) -> None:
    tool = FakeTool("look", lambda *_: ToolResult(content="no", ok=False))
    steps = [calls(("look", '{"n":1}'), text=f"try {number}") for number in range(6)]
    async with opened(tmp_path, scripted(*steps), tools=[tool]) as rig:
        final = await rig.say("go")
        assert len(tool.runs) == rig.budget.same_failures
        assert final.state is TurnState.FAILED
        assert "kept trying the same thing" in final.text
        assert (await rig.say("hello")).state is TurnState.ANSWERED


async def test_too_many_calls_in_one_answer_are_refused_each_with_a_result(tmp_path: Path) -> None:
    tool = FakeTool("look", parallel=True)
    step = calls(*[("look", f'{{"n":{number}}}') for number in range(5)])
    async with opened(tmp_path, scripted(step, "ok"), tools=[tool], budget=Budget(calls_per_step=3)) as rig:
        await rig.say("go")
        results = [row for row in await rig.rows() if row.role == "tool"]
        assert len(tool.runs) == 3
        assert [row.tool_status for row in results] == [ToolStatus.DONE] * 3 + [ToolStatus.FAILED] * 2


async def test_the_budget_of_steps_ends_a_turn_honestly(tmp_path: Path) -> None:
    steps = [calls(("look", f'{{"n":{number}}}')) for number in range(9)]
    async with opened(tmp_path, scripted(*steps), tools=[FakeTool("look")], budget=Budget(iterations=3)) as rig:
        final = await rig.say("go")
        assert final.state is TurnState.FAILED
        assert "used up its 3 steps" in final.text
        assert len([row for row in await rig.rows() if row.role == "tool"]) == 3
        assert (await rig.rows())[-1].role == "assistant"


async def test_what_people_say_meanwhile_joins_after_the_tools(tmp_path: Path) -> None:
    async def look(arguments: object, context: object) -> ToolResult:
        rig.steering.waiting.append(await rig.input("and be brief"))
        return ToolResult(content="seen")

    model = scripted(calls(("look", "{}")), ScriptedStep(when="and be brief", text="Brief."))
    async with opened(tmp_path, model, tools=[FakeTool("look", look)]) as rig:
        assert (await rig.say("go")).text == "Brief."
        rows = await rig.rows()
        assert [row.role for row in rows] == ["user", "assistant", "tool", "user", "assistant"]
        assert rows[3].turn_id == rows[0].turn_id
        (event,) = [one for one in await rig.store.inbox.recent(rig.key, 10) if one.fate is Fate.STEERED]
        assert event.turn_id == rows[0].turn_id


async def test_a_passing_fault_is_retried_with_back_off_and_told(tmp_path: Path) -> None:
    broken = ScriptedStep(text="half", finish=None)
    async with opened(tmp_path, scripted(ERR, broken, ERR, "there")) as rig:
        final = await rig.say("hi")
        assert final.text == "there"
        assert rig.slept == [0.5, 1.0, 2.0]
        assert len(rig.seen(Waiting)) == 3
        assert len(rig.seen(TextReset)) == 1
        assert final.usage.retries == 3


async def test_the_servers_own_delay_is_obeyed(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(error="unavailable", retry_after=7), "there")) as rig:
        assert (await rig.say("hi")).text == "there"
        assert rig.slept == [7]


async def test_a_delay_beyond_the_budget_is_told_and_not_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(error="unavailable", retry_after=900))) as rig:
        final = await rig.say("hi")
        assert final.state is TurnState.FAILED
        assert "asks to wait 15 minutes" in final.text
        assert rig.slept == []


@pytest.mark.parametrize(("budget", "tries"), [(Budget(retries=2), 3), (Budget(retries=50, retry_seconds=10.0), 5)])
async def test_the_retries_of_a_turn_have_one_budget(tmp_path: Path, budget: Budget, tries: int) -> None:
    model = scripted(*[ERR] * 60)
    async with opened(tmp_path, model, budget=budget) as rig:
        final = await rig.say("hi")
        assert final.state is TurnState.FAILED
        assert "cannot be reached" in final.text
        assert model.count == tries
        assert sum(rig.slept) <= budget.retry_seconds


async def test_the_budget_of_retries_spans_the_steps_of_a_turn(tmp_path: Path) -> None:
    model = scripted(ERR, calls(("look", "{}")), ERR, ERR, "never")
    async with opened(tmp_path, model, tools=[FakeTool("look")], budget=Budget(retries=2)) as rig:
        assert (await rig.say("hi")).state is TurnState.FAILED
        assert model.count == 4


@pytest.mark.parametrize(("fault", "told"), [("refused", "refused"), ("key", "key"), ("context", "/new")])
async def test_a_lasting_fault_is_told_at_once_and_the_next_turn_works(tmp_path: Path, fault: str, told: str) -> None:
    model = scripted(ScriptedStep(error=fault))  # type: ignore[arg-type]
    async with opened(tmp_path, model) as rig:
        final = await rig.say("hi")
        assert (final.state, model.count) == (TurnState.FAILED, 1)
        assert told in final.text
        assert rig.slept == []
        assert (await rig.say("again")).text == "echo 2: again"
        assert [row.role for row in await rig.rows()] == ["user", "assistant"] * 2


@pytest.mark.parametrize("fault", ["refused", "key", "unavailable"])
async def test_the_fall_back_answers_and_the_change_is_recorded(tmp_path: Path, fault: str) -> None:
    first = scripted(*[ScriptedStep(error=fault)] * 20)  # type: ignore[arg-type]
    async with opened(tmp_path, first, scripted("from two", name="two")) as rig:
        final = await rig.say("hi")
        assert (final.text, final.model) == ("from two", "two")
        session = await rig.store.sessions.get(rig.session.id)
        assert session is not None
        assert session.prompt_reason == "model changed from one to two"
        assert any("go on with the model two" in event.text for event in rig.seen(Waiting))
        tried = first.count
        assert (await rig.say("more")).model == "two"  # it keeps the session for a while
        assert first.count == tried


async def test_after_a_while_the_sessions_own_model_is_tried_again(tmp_path: Path) -> None:
    first = scripted(ScriptedStep(error="key"), "back")
    async with opened(tmp_path, first, scripted(name="two")) as rig:
        assert (await rig.say("hi")).model == "two"
        rig.clock.advance(301)
        assert (await rig.say("more")).text == "back"


async def test_a_full_context_does_not_go_to_the_fall_back(tmp_path: Path) -> None:
    second = scripted(name="two")
    async with opened(tmp_path, scripted(ScriptedStep(error="context")), second) as rig:
        assert "/new" in (await rig.say("hi")).text
        assert second.count == 0


class Waking(ScriptedModel):
    """Cannot tell its abilities at first, like a server that is still starting."""

    fails = 2

    async def capabilities(self) -> Capabilities:
        if self.fails:
            self.fails -= 1
            from agent_core.errors import ModelUnavailable

            raise ModelUnavailable("starting")
        return await super().capabilities()


async def test_a_model_that_cannot_be_asked_yet_is_waited_for(tmp_path: Path) -> None:
    model = Waking(scripted()._settings)
    async with opened(tmp_path, model, tools=[FakeTool("look")]) as rig:
        assert (await rig.say("hi")).text == "echo 1: hi"
        session = await rig.store.sessions.get(rig.session.id)
        assert session is not None
        assert session.prompt_reason == "the model's abilities changed"
        assert json.loads(session.prompt or "")["tools"]


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("step", [ScriptedStep(), ScriptedStep(text=" \n\t "), ScriptedStep(reasoning="hmm")])
async def test_B55_an_empty_answer_is_asked_again_once_then_told(
    tmp_path: Path, step: ScriptedStep, finish: str
) -> None:
    from dataclasses import replace

    empty = replace(step, finish=finish)  # type: ignore[arg-type]
    model = scripted(empty, "there", empty, empty)
    async with opened(tmp_path, model) as rig:
        assert (await rig.say("hi")).text == "there"
        final = await rig.say("again")
        assert final.state is TurnState.FAILED
        assert "gave" in final.text
        assert model.count == 4
        assert (await rig.say("next")).text == "echo 5: next"
        rows = await rig.rows()
        assert [row.role for row in rows] == ["user", "assistant"] * 3
        assert all(json.loads(row.wire or "")["content"].strip() for row in rows)


async def test_B55_a_stream_without_any_chunk_is_a_fault_of_the_server(tmp_path: Path) -> None:
    model = scripted(ScriptedStep(finish=None), "there")
    async with opened(tmp_path, model) as rig:
        assert (await rig.say("hi")).text == "there"


async def test_an_answer_cut_at_its_length_is_told_as_such(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(text="One, two", finish="length"))) as rig:
        final = await rig.say("count")
        assert final.state is TurnState.ANSWERED
        assert final.text.startswith("One, two\n\n[The answer was cut off")
        assert (await rig.rows())[-1].content == "One, two"


async def test_a_call_cut_at_the_length_limit_is_not_run(tmp_path: Path) -> None:
    tool = FakeTool("look")
    step = ScriptedStep(tool_calls=({"name": "look", "arguments": '{"n":1'},), finish="length")
    async with opened(tmp_path, scripted(step, "ok"), tools=[tool]) as rig:
        await rig.say("go")
        assert not tool.runs
        assert "length limit" in (await rig.rows())[2].content


class Defective(ScriptedModel):
    """Has a defect of its own."""

    fault: Exception = KeyError("boom")

    async def stream(self, request: object):  # type: ignore[no-untyped-def,override]
        if self.count == 0:
            self.count += 1
            raise self.fault
        async for piece in super().stream(request):  # type: ignore[arg-type]
            yield piece


async def test_a_defect_ends_the_turn_told_and_the_next_one_works(tmp_path: Path) -> None:
    async with opened(tmp_path, Defective(scripted()._settings)) as rig:
        final = await rig.say("hi")
        assert (final.state, final.detail) == (TurnState.FAILED, "defect: KeyError")
        assert "in the log" in final.text
        assert (await rig.say("again")).state is TurnState.ANSWERED


async def test_B54_a_connection_error_of_the_provider_is_a_passing_fault(tmp_path: Path) -> None:
    model = Defective(scripted()._settings)
    model.fault = ConnectionResetError("reset")
    async with opened(tmp_path, model) as rig:
        assert (await rig.say("hi")).text == "echo 2: hi"


async def test_a_lost_lease_ends_the_turn_at_the_next_write(tmp_path: Path) -> None:
    async def look(arguments: object, context: object) -> ToolResult:
        rig.clock.advance(31)
        await rig.lease()
        return ToolResult(content="late")

    model = scripted(calls(("look", "{}")), "never")
    async with opened(tmp_path, model, tools=[FakeTool("look", look)]) as rig:
        entry = await rig.input("go")
        lease = await rig.lease()
        with pytest.raises(LeaseLost):
            await run_turn(rig.context(lease, entry))
        assert model.count == 1


async def test_a_call_asks_before_it_is_started(tmp_path: Path) -> None:
    tool = AskingTool("act")
    async with opened(tmp_path, scripted(calls(("act", "{}")), "ok"), tools=[tool]) as rig:
        rig.ask.waits = asyncio.Event()
        task, lease, entry, _ = await rig.start("go")
        async with asyncio.timeout(5):
            while not rig.ask.asked:
                await asyncio.sleep(0)
        (row,) = [one for one in await rig.rows() if one.role == "tool"]
        assert row.tool_status is ToolStatus.PLANNED
        rig.ask.waits.set()
        await rig.commit(lease, await task, entry)
        assert tool.effects == 1
        assert (await rig.rows())[2].tool_status is ToolStatus.DONE


async def test_a_denied_call_has_no_effect(tmp_path: Path) -> None:
    tool = AskingTool("act")
    async with opened(tmp_path, scripted(calls(("act", "{}")), "ok"), tools=[tool]) as rig:
        rig.ask.allows = False
        await rig.say("go")
        assert (tool.effects, (await rig.rows())[2].tool_status) == (0, ToolStatus.FAILED)


async def test_a_lease_lost_while_a_person_was_asked_lets_nothing_run(tmp_path: Path) -> None:
    tool = AskingTool("act")
    async with opened(tmp_path, scripted(calls(("act", "{}")), "ok"), tools=[tool]) as rig:
        rig.ask.waits = asyncio.Event()
        task, *_ = await rig.start("go")
        async with asyncio.timeout(5):
            while not rig.ask.asked:
                await asyncio.sleep(0)
        rig.clock.advance(31)
        await rig.lease()
        rig.ask.waits.set()
        with pytest.raises(LeaseLost):
            await task
        assert tool.effects == 0


async def test_B04_each_tool_sees_its_own_session_only(tmp_path: Path) -> None:
    met = asyncio.Barrier(2)

    async def who(arguments: object, context: object) -> ToolResult:
        await asyncio.wait_for(met.wait(), 5)
        inside = await asyncio.to_thread(lambda: context.session_id)  # type: ignore[attr-defined]
        spawned = await asyncio.create_task(asyncio.sleep(0, context.session_id), name="spawned")  # type: ignore[attr-defined]
        return ToolResult(content=f"{inside} {spawned}")

    async with (
        opened(tmp_path / "a", scripted(calls(("who", "{}"))), tools=[FakeTool("who", who)]) as one,
        opened(tmp_path / "b", scripted(calls(("who", "{}"))), tools=[FakeTool("who", who)]) as two,
    ):
        await asyncio.gather(one.say("go"), two.say("go"))
        for rig in (one, two):
            assert (await rig.rows())[2].content == f"{rig.session.id} {rig.session.id}"


async def test_history_and_instructions_of_a_stateless_client(tmp_path: Path) -> None:
    model = scripted()
    async with opened(tmp_path, model) as rig:
        history = (("user", "one"), ("assistant", "two"), ("user", " "))
        await rig.say("three", history=history, instructions="Speak Latin.")
        await rig.say("four", history=(("user", "not again"),))
        assert [row.content for row in await rig.rows()] == [
            "one",
            "two",
            "three",
            "echo 1: three",
            "four",
            "echo 2: four",
        ]
        session = await rig.store.sessions.get(rig.session.id)
        assert session is not None
        assert "Speak Latin." in json.loads(session.prompt or "")["system"]
        assert session.prompt_reason == "new session"


async def test_the_final_row_is_the_models_own_bytes(tmp_path: Path) -> None:
    class Odd(ScriptedModel):
        async def stream(self, request: object):  # type: ignore[no-untyped-def,override]
            async for given in super().stream(request):  # type: ignore[arg-type]
                piece = given
                if isinstance(piece, Completion):
                    from dataclasses import replace

                    piece = replace(piece, wire='{"role":"assistant","content":"x","odd":true}')
                yield piece

    async with opened(tmp_path, Odd(scripted()._settings)) as rig:
        final = await rig.say("hi")
        assert final.rows[0].wire == '{"role":"assistant","content":"x","odd":true}'


async def test_a_message_that_is_deleted_before_it_joins_does_not_join(tmp_path: Path) -> None:
    async def look(arguments: object, context: object) -> ToolResult:
        for text in ("gone", "kept"):
            rig.steering.waiting.append(await rig.input(text))
        await rig.store.inbox.settle(rig.steering.waiting[0].event_ids[0], Fate.CANCELLED, "deleted")
        return ToolResult(content="seen")

    async with opened(tmp_path, scripted(calls(("look", "{}")), "ok"), tools=[FakeTool("look", look)]) as rig:
        assert (await rig.say("go")).text == "ok"
        assert [row.content for row in await rig.rows() if row.role == "user"] == ["go", "kept"]


async def test_a_result_without_bounds_is_cut(tmp_path: Path) -> None:
    tool = FakeTool("look", lambda *_: ToolResult(content="x" * 500_000))
    async with opened(tmp_path, scripted(calls(("look", "{}")), "ok"), tools=[tool]) as rig:
        await rig.say("go")
        assert len((await rig.rows())[2].content) == 200_000


async def test_B78_no_words_of_people_or_models_are_logged(tmp_path: Path) -> None:
    model = scripted(
        ScriptedStep(error="unavailable", text="verysecret"),
        calls(("look", '{"n":4711}'), text="verysecret"),
        "verysecret",
    )
    tool = FakeTool("look", lambda *_: ToolResult(content="verysecret", summary="verysecret"))
    async with opened(tmp_path, model, tools=[tool]) as rig:
        with capture_logs() as logs:
            await rig.say("verysecret", note="verysecret", author="Ann")
        assert len(logs) >= 6
        assert "verysecret" not in str(logs)
        assert "4711" not in str(logs)


async def test_usage_is_recorded_with_its_prefix_and_the_declared_reason(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(ScriptedStep(text="a", times=2)), scripted(name="two")) as rig:
        with capture_logs() as logs:
            await rig.say("one")
            await rig.say("two")
            rig.models = rig.models[1:]
            await rig.say("three")
        answered = [one for one in logs if one["event"] == "model.answered"]
        assert [one["boundary"] for one in answered] == ["new session", None, "model changed from one to two"]
        assert answered[0]["prefix_bytes"] == 0
        assert answered[2]["prefix_bytes"] > answered[1]["prefix_bytes"] > 500
        total = await rig.store.usage.of_session(rig.session.id)
        assert (total.calls, total.prefix_bytes) == (3, sum(one["prefix_bytes"] for one in answered))
