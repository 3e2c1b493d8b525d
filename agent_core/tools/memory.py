"""The tool `memory`: what is to last beyond this conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent_core.memory.book import Book, Step
from agent_core.memory.shelf import Facts, MemoryFault
from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.ports import ToolContext, ToolResult
from state.audience import Viewer
from state.clock import Clock
from state.ids import SessionId, TurnId

_STEP = (
    '{"type":"object","properties":{"action":{"type":"string","enum":["add","replace","remove"]},'
    '"text":{"type":"string","maxLength":2000,"description":"The entry, for add and replace."},'
    '"part":{"type":"string","maxLength":500,"description":"For replace and remove: a piece of the entry that no other '
    'entry has."},"public":{"type":"boolean","description":"For everybody, in every room; for owners only."}},'
    '"required":["action"],"additionalProperties":false}'
)


Mirror = Callable[[SessionId, TurnId, Viewer, str, str], Awaitable[object]]
"""Tells another memory what was written: session, turn, viewer, the identity of the write, the text."""


class MemoryTool:
    """Changes the memory files, all steps of a call or none. `mirror` is told of what was written, after it."""

    group = "memory"
    parallel = False

    def __init__(self, book: Book, clock: Clock, mirror: Mirror | None = None) -> None:
        self._book = book
        self._mirror = mirror
        self._clock = clock
        self.spec = ToolSpec(
            name="memory",
            description=(
                "Keep notes that later conversations begin with: lasting facts, decisions, preferences, corrections; "
                "never passing things, never secrets. `user` is about the person you talk with, `memory` everything "
                "else. Short entries, one fact each. All steps of a call happen, or none. A change counts for you at "
                "once; its text stands in your prompt from the next conversation on."
            ),
            parameters=(
                '{"type":"object","properties":{"target":{"type":"string","enum":["memory","user"]},'
                '"steps":{"type":"array","minItems":1,"maxItems":20,"items":' + _STEP + "}},"
                '"required":["target","steps"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """What is done, without the words."""
        steps = arguments.get("steps")
        count = len(steps) if isinstance(steps, list) else 0
        return f"changes its memory ({text.count(count, 'step')})"

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        steps = [Step(**one) for one in arguments["steps"]]
        if any(step.public for step in steps) and context.rights.role != "owner":
            return _refused("only an owner can make an entry public")
        facts = Facts(
            session=str(context.session_id),
            turn=str(context.turn_id),
            at=self._clock.utc().isoformat(),
            confidence="said",
        )
        try:
            outcome = await asyncio.to_thread(self._book.change, arguments["target"], steps, context.viewer, facts)
        except MemoryFault as fault:
            return _refused(str(fault))
        for number, step in enumerate(steps):
            if self._mirror is not None and step.action != "remove":
                key = f"{context.turn_id}:{context.call_id}:{number}"
                await self._mirror(context.session_id, context.turn_id, context.viewer, key, step.text)
        lines = [f"Kept: {outcome.used:,} of {outcome.limit:,} characters are used."]
        if outcome.rivals:
            lines += ["These entries may contradict it; look whether they are still true:"]
            lines += [f"- {one}" for one in outcome.rivals]
        done = self.describe(arguments)
        return ToolResult(content="\n".join(lines), summary=done, extract=done)


def _refused(why: str) -> ToolResult:
    return ToolResult(content=f"Nothing was changed: {why}", ok=False, summary=text.line(f"memory: {why}"))
