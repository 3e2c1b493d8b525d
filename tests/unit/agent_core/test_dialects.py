"""A session that goes from one provider's dialect to another's and back, with the real wire modules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from agent_core.models import anthropic_wire
from agent_core.models.ports import Completion, Delta, Image, Request, ToolSpec
from agent_core.models.scripted import ScriptedModel, ScriptedStep
from agent_core.models.wire import canon
from state.records import ToolCall
from tests.unit.agent_core.rig import DOT, FakeTool, calls, opened, reopened, scripted


class Recording(ScriptedModel):
    """Keeps its requests."""

    def __init__(self, name: str, *steps: ScriptedStep | str) -> None:
        super().__init__(scripted(name=name)._settings, steps)
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Delta | Completion]:
        self.requests.append(request)
        async for piece in super().stream(request):
            yield piece


class Anthropic(Recording):
    """A script in Anthropic's dialect."""

    def wire_system(self, text: str) -> str:
        return anthropic_wire.system(text)

    def wire_user(self, text: str, images: Sequence[Image] = ()) -> str:
        return anthropic_wire.user(text, images)

    def wire_assistant(self, text: str, tool_calls: Sequence[ToolCall] = ()) -> str:
        return anthropic_wire.assistant(text, tool_calls)

    def wire_tool_result(self, call: ToolCall, content: str) -> str:
        return anthropic_wire.tool_result(call, content)

    def wire_tool(self, spec: ToolSpec) -> str:
        return anthropic_wire.tool(spec)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Completion]:
        async for piece in super().stream(request):
            if isinstance(piece, Completion):
                yield replace(piece, wire=self.wire_assistant(piece.text, piece.tool_calls))
            else:
                yield piece


def _grow(requests: Sequence[Request]) -> None:
    texts = [canon(request) for request in requests]
    for before, after in pairwise(texts):
        assert after.startswith(before)


async def test_a_session_survives_a_change_of_dialect_in_mid_turn_and_back(tmp_path: Path) -> None:
    first = Recording(
        "first", calls(("look", '{"n":1}')), "seen", calls(("look", '{"n":2}')), ScriptedStep(error="key")
    )
    second = Anthropic("second", calls(("look", '{"n":3}')), "from the second", "more", calls(("look", "{}")), "still")
    async with opened(tmp_path, first, second, tools=[FakeTool("look")]) as rig:
        await rig.say("what is this?", images=(DOT,), note="[a note]")
        final = await rig.say("go on")
        assert final.text == "from the second"
        async with reopened(rig) as other:
            await other.say("and?", images=(DOT,))
            await other.say("again")
        for request in second.requests:
            messages = [json.loads(one) for one in request.messages]
            assert all(isinstance(one["content"], list) for one in messages)
            assert {one["role"] for one in messages} <= {"user", "assistant"}
            assert [part["type"] for part in messages[0]["content"]] == ["image", "text"]
            assert messages[0]["content"][1]["text"] == "[a note]\nwhat is this?"
            used = [part["id"] for one in messages for part in one["content"] if part["type"] == "tool_use"]
            answered = [
                part["tool_use_id"] for one in messages for part in one["content"] if part["type"] == "tool_result"
            ]
            assert used == answered
        _grow(second.requests)
        rig.clock.advance(400)
        at = len(first.requests)
        first.add("back", "there")
        await rig.say("hello")
        await rig.say("hello again")
        back = [json.loads(one) for one in first.requests[-1].messages]
        assert {one["role"] for one in back} == {"user", "assistant", "tool"}
        assert not any("tool_use" in str(one) or "'source'" in str(one) for one in back)
        assert first.requests[at].messages[:4] == first.requests[at - 1].messages[:4]  # its own texts, unchanged
        _grow(first.requests[at:])


async def test_a_turn_that_ends_while_its_models_fail_is_written_in_the_frozen_dialect(tmp_path: Path) -> None:
    bad = [ScriptedStep(error="key")] * 2
    first, second = Recording("first", "one", *bad), Anthropic("second", *bad)

    async with opened(tmp_path, first, second) as rig:
        await rig.say("a")
        final = await rig.say("b")
        assert final.rows[0].wire == second.wire_assistant(final.rows[0].content)
        rig.clock.advance(400)
        first._steps.clear()
        await rig.say("c")
        assert [json.loads(one)["content"] for one in first.requests[-1].messages][-1] == "c"
        assert all(isinstance(json.loads(one)["content"], str) for one in first.requests[-1].messages)
