"""Spans through a turn: from the real core to the SDK, and from a real daemon to a collector on loopback."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from state.clock import SYSTEM
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.crash.conftest import world
from tests.crash.harness import KEY
from tests.crash.test_reload import begun
from tests.integration.process import process

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otel` is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from gateway.telemetry import Telemetry, _Told

__all__ = ["world"]

SECRET_WORDS = "what people say to each other"


async def test_one_trace_holds_the_whole_way_of_a_message_and_no_words(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(exporter, version="1")
    async with ModelServer() as model, process(tmp_path / "home", model) as served:
        served.core.metrics.spans = telemetry
        todo = {"name": "todo", "arguments": {"steps": [{"text": SECRET_WORDS, "state": "open"}]}}
        model.script(Step(tool_calls=(todo,)), Step(text=SECRET_WORDS))
        await served.platform.hear(SECRET_WORDS, message_id="m1")
        await served.fate("m1")
        await served.quiet()
        row = await served.row("m1")
    assert await asyncio.to_thread(telemetry.close)
    spans = exporter.get_finished_spans()
    by_name: dict[str, list[ReadableSpan]] = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
    assert {name: len(found) for name, found in by_name.items()} == {
        "accept": 1,
        "dispatch": 1,
        "turn": 1,
        "model call": 2,
        "tool call": 1,
        "delivery": 1,
    }
    (accept,), (turn,) = by_name["accept"], by_name["turn"]
    assert len({_trace(span) for span in spans}) == 1
    assert accept.parent is None
    assert _parent(turn) == _id(accept) == _parent(by_name["dispatch"][0])
    for name in ("model call", "tool call", "delivery"):
        assert {_parent(span) for span in by_name[name]} == {_id(turn)}
    assert turn.attributes is not None
    assert turn.attributes["tidings.event"] == row.id
    assert turn.attributes["tidings.turn"] == row.turn_id
    assert turn.attributes["tidings.outcome"] == "answered"
    assert all(span.status.status_code is not StatusCode.ERROR for span in spans)
    assert all(span.start_time is not None and span.end_time is not None for span in spans)
    assert SECRET_WORDS not in "".join(span.to_json() for span in spans)


async def test_a_failure_is_marked(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(exporter, version="1")
    async with ModelServer() as model, process(tmp_path / "home", model, limits={"retry_seconds": 0}) as served:
        served.core.metrics.spans = telemetry
        model.script(Step(status=500, times=20))
        await served.platform.hear("hello", message_id="m1")
        await served.fate("m1")
        await served.quiet()
    await asyncio.to_thread(telemetry.close)
    failed = {span.name: span.status.description for span in exporter.get_finished_spans() if not span.status.is_ok}
    assert failed["turn"] == "failed"
    assert failed["model call"] == "ModelUnavailable"


def test_an_exporter_that_hangs_holds_nothing_up() -> None:
    freed = threading.Event()

    class Hanging(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            freed.wait(30)
            return SpanExportResult.FAILURE

    telemetry = Telemetry(Hanging(), version="1")
    begun = time.monotonic()
    for number in range(10_000):  # more than the queue holds
        telemetry.begin("turn", f"turn:{number}")
        telemetry.end(f"turn:{number}")
    assert time.monotonic() - begun < 5
    begun = time.monotonic()
    assert not telemetry.close(0.2)
    assert time.monotonic() - begun < 2
    freed.set()


def test_a_collector_that_takes_nothing_is_told_once_and_once_when_it_does_again() -> None:
    results = [SpanExportResult.FAILURE, RuntimeError("odd"), SpanExportResult.SUCCESS, SpanExportResult.SUCCESS]

    class Flaky(InMemorySpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            result = results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

    told = _Told(Flaky())
    with structlog.testing.capture_logs() as lines:
        outcomes = [told.export([]) for _ in range(4)]
    assert outcomes == [SpanExportResult.FAILURE] * 2 + [SpanExportResult.SUCCESS] * 2
    assert [line["event"] for line in lines] == ["telemetry.not_taken", "telemetry.taken_again"]


def test_what_is_not_known_is_ignored_or_begins_a_trace() -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(exporter, version="1")
    telemetry.end("turn:unknown")
    telemetry.done("delivery", began=SYSTEM.utc(), seconds=0.1, parent="turn:of an earlier process")
    assert telemetry.close()
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


class Collector:
    """A collector on loopback that keeps what it gets, or takes nothing."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.agents: set[str] = set()
        self.hangs = False
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        try:
            yield
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        message = ExportTraceServiceRequest.FromString(await request.read())
        for resource in message.resource_spans:
            self.agents |= {one.value.string_value for one in resource.resource.attributes if one.key == "service.name"}
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response()


async def test_a_daemon_sends_to_its_collector_and_waits_for_none(world: Any) -> None:
    collector = Collector()
    async with collector.open():
        world.configure(telemetry={"endpoint": collector.url})
        daemon, client = await begun(world)
        await client.post(SECRET_WORDS, "m1")
        await client.settled("m1")
        assert await daemon.terminate() == 0, "what is left is sent at the end"
        assert collector.agents == {"tidings"}
        assert {"accept", "dispatch", "turn", "model call", "delivery"} <= {span.name for span in collector.spans}
        sent = "".join(str(span) for span in collector.spans)
        assert SECRET_WORDS not in sent
        assert KEY not in sent
        collector.hangs = True
        daemon, client = await begun(world)
        await client.post("while the collector hangs", "m2")
        assert (await client.settled("m2", 10))["fate"] == "answered"
        stopping = time.monotonic()
        assert await daemon.terminate() == 0
        assert time.monotonic() - stopping < 10
    daemon, client = await begun(world)  # and now there is no collector at all
    await client.post("without a collector", "m3")
    assert (await client.settled("m3", 10))["fate"] == "answered"
    assert await daemon.terminate() == 0


def _trace(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def _parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id
