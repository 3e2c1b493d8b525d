"""The tool `todo`: the plan of the turn, as the model wants to see it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.ports import ToolContext, ToolResult

_MARKS = {"open": "[ ]", "active": "[>]", "done": "[x]", "dropped": "[-]"}


class Todo:
    """Takes the whole list each time and gives it back. It is kept nowhere else: the transcript holds
    every result, is replayed whole, and survives restarts."""

    group = "todo"
    parallel = False

    def __init__(self) -> None:
        self.spec = ToolSpec(
            name="todo",
            description=(
                "Keep a list of the steps of a longer task. Give the whole list each time; the latest one counts. At "
                "most one step is active."
            ),
            parameters=(
                '{"type":"object","properties":{"steps":{"type":"array","maxItems":50,"items":{"type":"object",'
                '"properties":{"text":{"type":"string","minLength":1,"maxLength":300},'
                '"state":{"type":"string","enum":["open","active","done","dropped"]}},'
                '"required":["text","state"],"additionalProperties":false}}},'
                '"required":["steps"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """How far it is."""
        steps = arguments.get("steps")
        rows = [one for one in steps if isinstance(one, dict)] if isinstance(steps, list) else []
        done = sum(one.get("state") == "done" for one in rows)
        return f"plans: {done} of {text.count(len(rows), 'step')} done"

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        steps: list[dict[str, str]] = arguments["steps"]
        if sum(one["state"] == "active" for one in steps) > 1:
            told = "Only one step can be active. The list was not taken."
            return ToolResult(content=told, ok=False, summary=told)
        rows = [
            f"{number}. {_MARKS[one['state']]} {' '.join(one['text'].split())}" for number, one in enumerate(steps, 1)
        ]
        return ToolResult(content="\n".join(rows) or "The list is empty.", summary=self.describe(arguments))
