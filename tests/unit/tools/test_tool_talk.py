"""Todo and clarify."""

from __future__ import annotations

from typing import Any

from agent_core.tools.clarify import Clarify
from agent_core.tools.ports import ToolContext
from agent_core.tools.todo import Todo


async def test_todo_gives_the_list_back(context: ToolContext) -> None:
    steps = [{"text": "look\n around", "state": "done"}, {"text": "act", "state": "active"}]
    result = await Todo().run({"steps": steps}, context)
    assert result.content == "1. [x] look around\n2. [>] act"
    assert result.summary == "plans: 1 of 2 steps done"
    assert (await Todo().run({"steps": []}, context)).content == "The list is empty."


async def test_todo_takes_one_active_step_only(context: ToolContext) -> None:
    result = await Todo().run({"steps": [{"text": "a", "state": "active"}] * 2}, context)
    assert not result.ok
    assert "not taken" in result.content


async def test_B04_todo_keeps_nothing_between_sessions(context: ToolContext) -> None:
    tool = Todo()
    await tool.run({"steps": [{"text": "mine", "state": "open"}]}, context)
    assert "mine" not in (await tool.run({"steps": []}, context)).content
    assert context.memory == {}


async def test_clarify_asks_this_turns_person(context: ToolContext, person: Any) -> None:
    person.answer = "blue"
    result = await Clarify().run({"question": "Which?", "options": ["red", "blue", "red"]}, context)
    assert (result.ok, result.content) == (True, "Answer: blue")
    assert person.asked == [("call_1", "Which? ['red', 'blue']")]


async def test_clarify_says_when_nobody_answers(context: ToolContext) -> None:
    result = await Clarify().run({"question": "Which?"}, context)
    assert not result.ok
    assert "Nobody answered" in result.content
