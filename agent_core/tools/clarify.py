"""The tool `clarify`: a question to the person of this turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.ports import ToolContext, ToolResult


class Clarify:
    """Asks, and waits for the answer (the wait is bounded by `Ask`)."""

    group = "clarify"
    parallel = False
    asks_first: Literal[True] = True

    def __init__(self) -> None:
        self.spec = ToolSpec(
            name="clarify",
            description=(
                "Ask the person one question when you cannot go on without the answer. `options` are answers to choose "
                "from; other words are possible too."
            ),
            parameters=(
                '{"type":"object","properties":{"question":{"type":"string","minLength":1,"maxLength":1000},'
                '"options":{"type":"array","maxItems":6,"items":{"type":"string","minLength":1,"maxLength":100}}},'
                '"required":["question"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The question."""
        return text.line(f"asks: {text.argument(arguments, 'question')}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        options = tuple(dict.fromkeys(arguments.get("options", ())))
        answer = await context.ask.clarify(context.call_id, arguments["question"], options)
        if answer is None:
            told = "Nobody answered. Go on with the safest assumption and say which it is, or end here."
            return ToolResult(content=told, ok=False, summary="no answer")
        return ToolResult(content=f"Answer: {answer}", summary=text.line(f"answered: {answer}"))
