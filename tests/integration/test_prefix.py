"""P5 over real HTTP: the raw body of each request begins with all of the one before.

The bodies are those that the counterpart received. They are cut here by a scanner of its own, so that
nothing of what builds them is trusted.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.events import TextDelta
from agent_core.loop import run_turn
from agent_core.models.openai import OpenAIModel
from agent_core.models.settings import ModelSettings
from agent_core.tools.ports import ToolResult
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.unit.agent_core.rig import DOT, FakeTool, Rig, opened, reopened, until

JSON = json.JSONDecoder()


def canon(body: bytes) -> bytes:
    """Tools, then each message (the system prompt first), cut unchanged from the raw body."""
    text = body.decode()
    return "\x00".join([*array(text, "tools"), "|", *array(text, "messages")]).encode()


def array(text: str, name: str) -> list[str]:
    """The raw texts of the elements of a top-level array; [] where there is none."""
    at, found = 1, []
    while text[at] != "}":
        key, at = JSON.raw_decode(text, at)
        at += 1
        if key != name:
            _, at = JSON.raw_decode(text, at)
        else:
            at += 1
            while text[at] != "]":
                _, end = JSON.raw_decode(text, at)
                found.append(text[at:end])
                at = end + (text[end] == ",")
            at += 1
        at += text[at] == ","
    return found


def test_the_scanner_cuts_raw_texts() -> None:
    body = (
        b'{"model":"m","stream":true,"tools":[{"a":1.50},{}],"messages":[{"role":"x","content":"]}\\u00e9"}],"z":[1]}'
    )
    assert canon(body) == b'{"a":1.50}\x00{}\x00|\x00{"role":"x","content":"]}\\u00e9"}'


@dataclass
class Line:
    """A session at a real endpoint. `open_stores` keeps the stores of further processes."""

    server: ModelServer
    rig: Rig
    stack: AsyncExitStack
    stubborn: asyncio.Event

    def check(self, since: int = 0) -> list[bytes]:
        """Every request since the `since`th begins with all of the one before it."""
        bodies = [canon(call.body) for call in self.server.calls[since:]]
        for number, (before, after) in enumerate(pairwise(bodies), since + 1):
            assert after.startswith(before), f"request {number + 1} does not begin with request {number}"
        return bodies


@asynccontextmanager
async def line(path: Path, *, fall_back: bool = False, stream: bool = True) -> AsyncIterator[Line]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ModelServer())
        names = ("scripted", "second") if fall_back else ("scripted",)
        models = [
            OpenAIModel(ModelSettings(provider="openai", name=name, base_url=server.url, api_key="k", stream=stream))
            for name in names
        ]
        for model in models:
            stack.push_async_callback(model.close)
        hold = asyncio.Event()

        async def slow(arguments: object, context: object) -> ToolResult:
            await hold.wait()
            return ToolResult(content="never")

        def fail(arguments: object, context: object) -> ToolResult:
            raise RuntimeError("broken")

        tools = [
            FakeTool("look", lambda arguments, _: ToolResult(content=f"séen {dict(arguments)} 🌍\n"), parallel=True),
            FakeTool("write"),
            FakeTool("slow", slow),
            FakeTool("broken", fail),
        ]
        rig = await stack.enter_async_context(opened(path, *models, tools=tools))
        yield Line(server, rig, stack, hold)


def ask(*names: str, text: str = "") -> Step:
    calls = ({"name": name, "arguments": json.dumps({"n": number})} for number, name in enumerate(names))
    return Step(text=text, tool_calls=tuple(calls))


async def text(line: Line) -> None:
    await line.rig.say('Grüße "an" \\ alle \u2028 \x00 🎈')


async def noted(line: Line) -> None:
    await line.rig.say("look", note='[in reply to a message: "x"]', author="Ann")


async def tool(line: Line) -> None:
    line.server.script(ask("write", text="I write."), "written")
    await line.rig.say("write")


async def parallel(line: Line) -> None:
    line.server.script(ask("look", "look", "write", "look"), ask("look"), "seen")
    await line.rig.say("look around")


async def wrong_calls(line: Line) -> None:
    wrong = (
        {"name": "nothing"},
        {"name": "look", "arguments": '{"n": '},
        {"name": "look", "arguments": "", "id": None},
    )
    line.server.script(Step(tool_calls=wrong), ask("broken"), "hm")
    await line.rig.say("try")


async def steering(line: Line) -> None:
    line.rig.steering.waiting.append(await line.rig.input("and this", author="Bob"))
    line.server.script(ask("look"), "both")
    await line.rig.say("do this")


async def image(line: Line) -> None:
    await line.rig.say("what is this?", images=(DOT,))


async def interrupted(line: Line) -> None:
    line.server.script(Step(text="a long long answer", chunks=6, hold_after=3))
    line.rig.events.clear()
    started = await line.rig.start("talk")
    await until(lambda: line.rig.seen(TextDelta))
    await line.rig.stop(started, "it was stopped")


async def interrupted_tool(line: Line) -> None:
    line.server.script(ask("look", "slow", "write"))
    slow = next(one for one in line.rig.tools if one.name == "slow")
    before = len(slow.runs)
    started = await line.rig.start("slowly")
    await until(lambda: len(slow.runs) > before)
    await line.rig.stop(started, "it was stopped")


async def failed(line: Line) -> None:
    line.server.script(Step(status=400, error={"message": "no such thing", "type": "invalid_request_error"}))
    await line.rig.say("refuse me")


async def retried(line: Line) -> None:
    line.server.script(Step(status=503), Step(text="half", cut_after=2), Step(text="half", finish=None), "whole")
    await line.rig.say("hello?")


async def empty(line: Line) -> None:
    line.server.script(Step(text=" "), Step(text=""))
    await line.rig.say("say nothing")


async def cut(line: Line) -> None:
    line.server.script(Step(text="one two", finish="length"))
    await line.rig.say("count")


async def other_process(line: Line) -> None:
    line.rig = await line.stack.enter_async_context(reopened(line.rig))


async def crashed(line: Line) -> None:
    """The process dies with a call under way; another one takes the turn up."""
    line.server.script(ask("look", "slow", "look"), "taken up")
    slow = next(one for one in line.rig.tools if one.name == "slow")
    before = len(slow.runs)
    task, lease, _, _ = await line.rig.start("slowly")
    await until(lambda: len(slow.runs) > before)
    line.rig.clock.advance(31)
    await other_process(line)
    await line.rig.resume(lease.turn_id)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


TURNS: list[Callable[[Line], Awaitable[None]]] = [
    text,
    noted,
    tool,
    parallel,
    wrong_calls,
    steering,
    image,
    interrupted,
    interrupted_tool,
    failed,
    retried,
    empty,
    cut,
    other_process,
    crashed,
]


@pytest.mark.parametrize("stream", [True, False])
async def test_B76_every_kind_of_turn_keeps_the_prefix(tmp_path: Path, stream: bool) -> None:
    turns = [one for one in TURNS if stream or one not in (interrupted, retried)]
    async with line(tmp_path, stream=stream) as one:
        for turn in (*turns, *reversed(turns)):
            await turn(one)
            await text(one)
        bodies = one.check()
        assert len(bodies) > 40
        assert all(call.messages()[-1]["role"] in ("user", "tool") for call in one.server.calls)
        total = await one.rig.store.usage.of_session(one.rig.session.id)
        assert total.prefix_bytes > 0
        session = await one.rig.store.sessions.get(one.rig.session.id)
        assert session is not None
        assert session.prompt_reason == "new session"


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(st.lists(st.sampled_from(TURNS), min_size=2, max_size=8))
def test_any_sequence_of_turns_keeps_the_prefix(turns: list[Callable[[Line], Awaitable[None]]]) -> None:
    async def run(path: Path) -> None:
        async with line(path) as one:
            for turn in (text, *turns, text):
                await turn(one)
            one.check()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def test_a_fall_back_is_a_boundary_that_is_declared_and_the_only_one(tmp_path: Path) -> None:
    async with line(tmp_path, fall_back=True) as one:
        await text(one)
        await tool(one)
        one.check()
        before = len(one.server.calls)
        one.server.script(ask("look"), Step(status=401, error={"message": "bad key"}), "from the second")
        final = await one.rig.say("go on")
        assert (final.text, final.model) == ("from the second", "second")
        # The same dialect and the same tools: even here only the frozen prompt could differ, and its date does not.
        for turn in (text, parallel, other_process, image, crashed, text):
            await turn(one)
        one.check(before)
        assert all(call.json()["model"] == "second" for call in one.server.calls[before + 2 :])
        session = await one.rig.store.sessions.get(one.rig.session.id)
        assert session is not None
        assert session.prompt_reason == "model changed from scripted to second"
        one.rig.clock.advance(400)
        again = len(one.server.calls)
        await text(one)
        await tool(one)
        one.check(again)
        assert one.server.calls[-1].json()["model"] == "scripted"


async def test_B01_two_turns_of_a_session_never_interleave(tmp_path: Path) -> None:
    """The lease sees to it: the second one gets no lease before the first has ended."""
    from state.errors import LeaseHeld

    async with line(tmp_path) as one:
        one.server.script(Step(text="first", hold_after=2))
        started = await one.rig.start("one")
        await one.server.wait_calls(1)
        with pytest.raises(LeaseHeld):
            await one.rig.lease()
        one.server.release()
        task, lease, entry, _ = started
        await one.rig.commit(lease, await task, entry)
        await one.rig.say("two")
        assert [row.role for row in await one.rig.rows()] == ["user", "assistant"] * 2


async def test_two_processes_take_turns_on_one_session(tmp_path: Path) -> None:
    async with line(tmp_path) as one, reopened(one.rig) as other:
        for number in range(3):
            await one.rig.say(f"here {number}")
            await other.say(f"there {number}", images=(DOT,) if number == 1 else ())
        one.check()


async def test_a_break_that_nobody_declared_is_recorded(tmp_path: Path) -> None:
    async with line(tmp_path) as one:
        await text(one)
        turn = await one.rig.store.turns.latest(one.rig.session.id)
        assert turn is not None
        await one.rig.store.transcript.deactivate_turn(one.rig.session.id, turn.id)
        one.rig.prefixes.declare(one.rig.session.id, "undo")
        entry = await one.rig.input("again")
        lease = await one.rig.lease()
        final = await run_turn(one.rig.context(lease, entry))
        assert final.usage.prefix_bytes < len(canon(one.server.calls[0].body))
        with pytest.raises(AssertionError):
            one.check()


async def test_a_client_that_goes_away_and_comes_back_has_the_same_tools(tmp_path: Path) -> None:
    async with line(tmp_path) as one:
        await text(one)
        one.rig = replace(one.rig, tools=list(reversed(one.rig.tools)))
        await text(one)
        one.check()
