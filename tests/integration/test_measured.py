"""What is measured of a turn, from the real core: no metric that is exported stays silent."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import process


class Spans:
    """Keeps them."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str, dict[str, Any]]] = []

    def done(
        self,
        name: str,
        *,
        began: datetime,
        seconds: float,
        me: str = "",
        parent: str = "",
        failed: str = "",
        **ids: Any,
    ) -> None:
        assert began.tzinfo is not None
        assert 0 <= seconds < 60
        self.kept.append((name, parent, {**ids, "failed": failed, "me": me}))

    def begin(self, name: str, me: str, *, parent: str = "", **ids: Any) -> None:
        self.kept.append((name, parent, {**ids, "me": me}))

    def end(self, me: str, *, failed: str = "", **ids: Any) -> None:
        self.kept.append(("end", "", {**ids, "me": me, "failed": failed}))

    def of(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        return [(parent, ids) for one, parent, ids in self.kept if one == name]


async def test_a_turn_is_measured_from_its_acceptance_to_its_delivery(tmp_path: Path) -> None:
    async with ModelServer() as model, process(tmp_path / "home", model) as served:
        metrics, spans = served.core.metrics, Spans()
        metrics.spans = spans
        served.store.measure(metrics.store_write)
        model.script(
            Step(
                when="hello", tool_calls=({"name": "todo", "arguments": {"steps": [{"text": "a", "state": "open"}]}},)
            ),
            Step(when="hello", text="done it"),
        )
        await served.platform.hear("hello", message_id="m1")
        await served.fate("m1")
        await served.quiet()
        assert metrics.value("events_accepted_total", {"platform": "memory", "known": "no"}) == 1
        assert metrics.value("queue_seconds_count") == 1
        assert metrics.value("turn_seconds_count", {"outcome": "answered"}) == 1
        assert metrics.value("fates_total", {"fate": "answered"}) == 1
        assert metrics.value("tool_call_seconds_count", {"tool": "todo", "status": "done"}) == 1
        assert metrics.value("model_call_seconds_count", {"model": "scripted", "outcome": "stop"}) == 1
        assert metrics.value("model_call_seconds_count", {"model": "scripted", "outcome": "tool_calls"}) == 1
        assert metrics.value("model_tokens_total", {"model": "scripted", "kind": "input"}) > 0
        assert metrics.value("prefix_breaks_total", {"reason": "undeclared"}) == 0
        assert metrics.value("prefix_breaks_total", {"reason": "new session"}) == 1
        assert metrics.value("deliveries_total", {"platform": "memory", "state": "sent"}) == 1
        assert metrics.value("arbiter_wait_seconds_count", {"kind": "final"}) == 1
        assert metrics.value("store_write_seconds_count") > 5
        row = await served.row("m1")
        turn = f"turn:{row.turn_id}"
        assert spans.of("accept")[0][1]["me"] == f"event:{row.id}"
        assert spans.of("dispatch")[0][0] == f"event:{row.id}"
        assert spans.of("turn")[0][0] == f"event:{row.id}"
        assert [parent for parent, _ in spans.of("model call")] == [turn, turn]
        assert [(parent, ids["tool"]) for parent, ids in spans.of("tool call")] == [(turn, "todo")]
        assert [parent for parent, _ in spans.of("delivery")] == [turn]
        assert spans.of("end")[0][1] == {"outcome": "answered", "me": turn, "failed": ""}
        assert "hello" not in repr(spans.kept)
        assert "done it" not in repr(spans.kept)


async def test_a_failing_model_and_a_known_event_are_counted(tmp_path: Path) -> None:
    async with ModelServer() as model, process(tmp_path / "home", model, limits={"retry_seconds": 0}) as served:
        metrics = served.core.metrics
        model.script(Step(when="hello", status=500, times=20))
        await served.platform.hear("hello", message_id="m1")
        await served.platform.hear("hello", message_id="m1")
        await served.fate("m1")
        await served.quiet()
        assert metrics.value("events_accepted_total", {"platform": "memory", "known": "yes"}) == 1
        assert metrics.value("model_call_seconds_count", {"model": "scripted", "outcome": "ModelUnavailable"}) >= 1
        assert metrics.value("turn_seconds_count", {"outcome": "failed"}) == 1
