"""Runs the calls of a step: checked, started, bounded, and each with a result that is stored (P3).

Calls that may run side by side do; all others run alone, in order. Results stand in the order of the calls.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import structlog

from agent_core.events import ToolEnded, ToolStarted
from agent_core.gate import Gate
from agent_core.models.ports import Model
from agent_core.settle import end, settled
from agent_core.tools import schema, text
from agent_core.tools.ports import AsksFirst, Tool, ToolContext, ToolResult
from agent_core.turn import TurnContext
from state.records import ToolCall, ToolStatus, TranscriptMessage

log = structlog.get_logger("agent_core.tool_calls")

UNKNOWN_AFTER_CRASH = (
    "The outcome of this call is unknown: it was running when its process died or its turn was ended. It may have "
    "taken effect in part or whole. It was not run again. Check what is the case before you repeat it, and tell the "
    "person."
)
NOT_RUN = "This call did not run: the turn was ended before. Nothing was done."
INTERRUPTED = "This call was interrupted while it ran. A part of its effect may have happened."
IGNORED = "This call did not end when it was told to, and goes on out of reach. Its outcome is unknown."
LONGEST_RESULT = 200_000
"""Characters. Tools have bounds of their own; one without must not fill the model's window for good."""
_POLL = 15.0
"""Seconds after which a wait that had no bound (a person was asked) looks at its bound again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended."""

    status: ToolStatus
    content: str
    summary: str = ""
    extract: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    tool: Tool
    arguments: Mapping[str, Any]


class Calls:
    """The tool calls of one turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._failures: Counter[tuple[str, str]] = Counter()
        self._memory: dict[str, Any] = {}
        self.refused_repeats = 0
        """Calls that were not run because the very same had failed too often."""
        self.notices: list[str] = []
        """What the person has to be told besides the answer: outcomes that are unknown."""

    def remember(self, rows: Sequence[TranscriptMessage]) -> None:
        """Count what failed in an earlier attempt of this turn."""
        calls = {call.id: call for row in rows for call in row.tool_calls}
        for row in rows:
            call = calls.get(row.tool_call_id or "")
            if call is not None and row.tool_status in (ToolStatus.FAILED, ToolStatus.UNKNOWN):
                self._failures[call.name, call.arguments] += 1

    async def run(
        self, planned: Sequence[tuple[TranscriptMessage, ToolCall]], model: Model, *, cut: bool = False
    ) -> list[TranscriptMessage]:
        """Run the planned calls; returns their rows with the results, in order. `cut` says that the answer
        which asked for them was cut at its length limit.

        Raises the store's errors, and CancelledError after every call of the running batch has its result
        stored; calls of later batches stay planned.
        """
        done: list[TranscriptMessage] = []
        numbered = list(enumerate(planned))
        for together, group in groupby(numbered, key=lambda one: -1 if self._is_parallel(one[1][1]) else one[0]):
            batch = [(row, call, number >= self._context.budget.calls_per_step) for number, (row, call) in group]
            if together >= 0 or len(batch) == 1:
                done.extend([await self._one(row, call, model, cut=cut, over=over) for row, call, over in batch])
            else:
                done.extend(await self._together(batch, model, cut=cut))
        return done

    def _is_parallel(self, call: ToolCall) -> bool:
        tool = self._context.registry.get(call.name)
        return tool is not None and tool.parallel

    async def _together(
        self, batch: Sequence[tuple[TranscriptMessage, ToolCall, bool]], model: Model, *, cut: bool
    ) -> list[TranscriptMessage]:
        room = asyncio.Semaphore(self._context.budget.parallel)

        async def one(row: TranscriptMessage, call: ToolCall, over: bool) -> TranscriptMessage:
            async with room:
                return await self._one(row, call, model, cut=cut, over=over)

        tasks = [asyncio.create_task(one(*entry), name=f"call:{entry[0].id}") for entry in batch]
        cancelled: asyncio.CancelledError | None = None
        while not all(task.done() for task in tasks):
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError as exc:
                cancelled = exc
                for task in tasks:  # each of them ends within its bound and stores its result
                    task.cancel()
        if cancelled is not None:
            for task in tasks:
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.warning("call.failed_while_cancelled", row=task.get_name(), error=type(error).__name__)
            raise cancelled
        errors = [error for task in tasks if (error := task.exception()) is not None]
        if errors:
            raise errors[0]
        return [task.result() for task in tasks]

    async def _one(
        self, row: TranscriptMessage, call: ToolCall, model: Model, *, cut: bool, over: bool
    ) -> TranscriptMessage:
        context = self._context
        began = context.clock.monotonic()
        ready = f"More than {context.budget.calls_per_step} calls in one answer: this one was not run." if over else (
            self._check(call, cut=cut)
        )
        cancelled: asyncio.CancelledError | None = None
        if isinstance(ready, _Ready):
            outcome, cancelled = await self._attempt(row, ready)
        else:
            outcome = Outcome(status=ToolStatus.FAILED, content=ready, summary=text.line(ready))
        if outcome.status is not ToolStatus.DONE:
            self._failures[call.name, call.arguments] += 1
        finished = await self.store(row, call, model, outcome)
        seconds = context.clock.monotonic() - began
        known = call.name if context.registry.get(call.name) is not None else "unknown"
        context.watch.tool_called(known, seconds, outcome.status.value, call_key(row))
        log.info(
            "tool.ended", turn=context.lease.turn_id, row=row.id, tool=text.line(call.name, 60),
            status=outcome.status.value, chars=len(outcome.content), seconds=round(seconds, 3),
        )
        if cancelled is not None:
            raise cancelled
        return finished

    async def store(
        self, row: TranscriptMessage, call: ToolCall, model: Model, outcome: Outcome
    ) -> TranscriptMessage:
        """Store the result of a call, tell it, and give back the row as it is now."""
        wire = model.wire_tool_result(call, outcome.content)
        await settled(
            self._context.store.turns.finish_call(
                self._context.lease, row.id, outcome.status, content=outcome.content, wire=wire, extract=outcome.extract
            ),
            f"finish:{row.id}",
        )
        self._context.emit(
            ToolEnded(call_id=call_key(row), name=call.name, status=outcome.status, summary=outcome.summary)
        )
        return replace(row, content=outcome.content, wire=wire, tool_status=outcome.status)

    def _check(self, call: ToolCall, *, cut: bool) -> _Ready | str:
        """The tool and its arguments, or one sentence about what is wrong with the call."""
        context = self._context
        rights, disabled = context.steering.rights(), context.disabled
        tool = context.registry.get(call.name)
        name = text.line(call.name, 60)
        if tool is None:
            known = ", ".join(one.spec.name for one in context.registry.for_rights(rights, disabled=disabled)) or "none"
            return f"There is no tool {name!r}. The tools are: {known}."
        if not context.registry.allows(call.name, rights, disabled=disabled):
            return f"The tool {name!r} may not be used in this turn: the people in it do not all have the right to it."
        try:
            arguments = json.loads(call.arguments) if call.arguments.strip() else {}
        except (ValueError, RecursionError) as exc:
            why = " The answer was cut at its length limit: make the call shorter." if cut else ""
            return f"The arguments are not valid JSON ({text.line(str(exc), 120)}). The call did not run.{why}"
        if not isinstance(arguments, dict):
            return "The arguments must be one JSON object. The call did not run."
        if (fault := schema.check(arguments, tool.spec.parameters)) is not None:
            return f"The arguments do not fit: {fault}. The call did not run."
        if self._failures[call.name, call.arguments] >= context.budget.same_failures:
            self.refused_repeats += 1
            return (
                f"This very call has failed {self._failures[call.name, call.arguments]} times in this turn and was not "
                "run again. Do something else, or tell the person what stands in the way."
            )
        return _Ready(tool=tool, arguments=arguments)

    async def _attempt(
        self, row: TranscriptMessage, ready: _Ready
    ) -> tuple[Outcome, asyncio.CancelledError | None]:
        """Run it within its bound. The second value is our own cancellation, to be raised once the outcome
        is stored. Raises the store's errors where the call could not be started."""
        context, tool = self._context, ready.tool
        gate = Gate(context.store, context.lease, row.id, context.ask, context.budget.tool_seconds)
        summary = _describe(ready)
        context.emit(ToolStarted(call_id=call_key(row), name=tool.spec.name, summary=summary))
        if not isinstance(tool, AsksFirst):
            try:
                await gate.start()
            except asyncio.CancelledError as exc:
                return Outcome(status=ToolStatus.FAILED, content=NOT_RUN, summary="not run"), exc
        handed = ToolContext(
            session_id=context.session.id, turn_id=context.lease.turn_id, call_id=call_key(row),
            rights=context.steering.rights(), root=context.root, home=context.home, ask=gate,
            processes=context.processes, post=context.post, viewer=context.viewer, memory=self._memory,
        )
        task = asyncio.create_task(tool.run(ready.arguments, handed), name=f"tool:{tool.spec.name}:{row.id}")
        cancelled: asyncio.CancelledError | None = None
        late = False
        try:
            while not task.done() and not late:
                left = gate.left()
                late = left is not None and left <= 0
                if not late:
                    await asyncio.wait({task}, timeout=_POLL if left is None else left)
        except asyncio.CancelledError as exc:
            cancelled = exc
        if not task.done() and not await end(task, context.budget.cancel_seconds):
            self.notices.append(f"a call of {tool.spec.name} did not end when it was told to; its outcome is unknown")
            return Outcome(status=ToolStatus.UNKNOWN, content=IGNORED, summary="does not end"), cancelled
        if gate.error is not None:
            raise gate.error
        return self._outcome(task, row, gate, late=late, ended=cancelled is not None), cancelled

    def _outcome(
        self, task: asyncio.Task[ToolResult], row: TranscriptMessage, gate: Gate, *, late: bool, ended: bool
    ) -> Outcome:
        """From the end of the tool's task to the outcome of the call. A result counts whoever ended it."""
        if task.cancelled():
            if late:
                content = f"Ended: it took longer than {self._context.budget.tool_seconds:g} s. {INTERRUPTED}"
            else:
                content = INTERRUPTED if gate.started or not ended else NOT_RUN
            return Outcome(status=ToolStatus.FAILED, content=content, summary="interrupted")
        error = task.exception()
        if error is not None:
            log.error(
                "tool.defect", turn=self._context.lease.turn_id, row=row.id, tool=task.get_name(), exc_info=error
            )
            told = f"The tool failed by a defect: {type(error).__name__}: {text.line(str(error), 300)}"
            return Outcome(status=ToolStatus.FAILED, content=told, summary=f"failed ({type(error).__name__})")
        result = task.result()
        return Outcome(
            status=ToolStatus.DONE if result.ok else ToolStatus.FAILED,
            content=text.cut(result.content, LONGEST_RESULT) or "(no output)",
            summary=result.summary,
            extract=result.extract or None,
        )


def call_key(row: TranscriptMessage) -> str:
    """The id of a call towards tools, approvals and the record of processes: the row's, since models give
    the same id to several calls, and an approval is for one."""
    return f"c{row.id}"


def _describe(ready: _Ready) -> str:
    try:
        return ready.tool.describe(ready.arguments)
    except Exception as exc:  # noqa: BLE001 - boundary: a tool's defect must not end the turn
        log.warning("tool.describe_defect", tool=ready.tool.spec.name, error=type(exc).__name__)
        return ready.tool.spec.name
