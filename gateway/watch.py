"""What a turn's model and tool calls are to `/metrics` and to the spans."""

from __future__ import annotations

from datetime import timedelta

from agent_core.models.ports import Usage
from agent_core.prefix import FIRST
from gateway.metrics import Metrics
from state.clock import Clock
from state.ids import TurnId


class TurnWatch:
    """Implements `agent_core.ports.Watch` for one turn."""

    def __init__(self, metrics: Metrics, clock: Clock, turn_id: TurnId) -> None:
        self._metrics = metrics
        self._clock = clock
        self._turn = turn_id

    def model_called(
        self, model: str, seconds: float, outcome: str, usage: Usage | None, boundary: str | None, tries: int
    ) -> None:
        """Count it, and the break of the prefix that it declared."""
        used = usage or Usage()
        self._metrics.model_call(
            model,
            seconds,
            outcome,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
        )
        if boundary is not None and boundary != FIRST:
            self._metrics.prefix_break(boundary)
        self._metrics.spans.done(
            "model call",
            began=self._clock.utc() - timedelta(seconds=seconds),
            seconds=seconds,
            parent=f"turn:{self._turn}",
            failed="" if usage is not None else outcome,
            turn=self._turn,
            model=model,
            outcome=outcome,
            tries=tries,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
        )

    def tool_called(self, tool: str, seconds: float, status: str, call_id: str) -> None:
        """Count it."""
        self._metrics.tool_call(tool, seconds, status)
        self._metrics.spans.done(
            "tool call",
            began=self._clock.utc() - timedelta(seconds=seconds),
            seconds=seconds,
            parent=f"turn:{self._turn}",
            failed="" if status == "done" else status,
            turn=self._turn,
            tool=tool,
            call=call_id,
            status=status,
        )
