"""What the loop tells while it runs: a closed union. A consumer matches all of it (`assert_never`)."""

from __future__ import annotations

from dataclasses import dataclass

from state.ids import RowId
from state.records import ToolStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """An increment of the answer, not yet committed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReset:
    """What was streamed since the last step is void: the model is asked again, or it went on to tools."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCommitted:
    """An assistant row with tool calls is committed. `text` is what the model said beside the calls."""

    row_id: RowId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A call begins. `summary` is one line for people."""

    call_id: str
    name: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A call has ended and its result is committed."""

    call_id: str
    name: str
    status: ToolStatus
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The turn waits for something outside (a retry of the model, an approval). One line for people."""

    text: str


AgentEvent = TextDelta | TextReset | StepCommitted | ToolStarted | ToolEnded | Waiting
