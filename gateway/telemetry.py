"""Spans for an OpenTelemetry collector. Imported only where `telemetry.endpoint` is set (the extra `otel`).

A span is put into a bounded queue; a thread of the SDK sends what is there every few seconds, in batches, with a
bound of its own. A collector that is slow or down costs spans, never a turn's time, and is told once in the log.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, set_span_in_context

from gateway.spans import Id

log = structlog.get_logger("gateway.telemetry")

SEND = 5.0
"""Seconds for one batch, retries included."""
EVERY = 2.0
QUEUE = 4096
"""Spans that wait to be sent; the oldest are dropped beyond it."""
REMEMBERED = 4096
"""Events and turns whose spans may still get children."""
CLOSE = 3.0


class Telemetry:
    """Implements `gateway.spans.Spans`. One a process."""

    def __init__(self, exporter: SpanExporter, *, version: str) -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "tidings", "service.version": version}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _Told(exporter),
                max_queue_size=QUEUE,
                schedule_delay_millis=EVERY * 1000,
                max_export_batch_size=512,
                export_timeout_millis=SEND * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("tidings", version)
        self._known: OrderedDict[str, SpanContext] = OrderedDict()
        self._open: dict[str, Span] = {}

    def done(
        self,
        name: str,
        *,
        began: datetime,
        seconds: float,
        me: str = "",
        parent: str = "",
        failed: str = "",
        **ids: Id,
    ) -> None:
        """See `Spans.done`."""
        start = _nanoseconds(began)
        span = self._tracer.start_span(name, self._context(parent), start_time=start, attributes=_attributes(ids))
        self._remember(me, span)
        _end(span, failed, start + int(max(0.0, seconds) * 1e9))

    def begin(self, name: str, me: str, *, parent: str = "", **ids: Id) -> None:
        """See `Spans.begin`."""
        span = self._tracer.start_span(name, self._context(parent), attributes=_attributes(ids))
        self._remember(me, span)
        self._open[me] = span

    def end(self, me: str, *, failed: str = "", **ids: Id) -> None:
        """See `Spans.end`."""
        span = self._open.pop(me, None)
        if span is not None:
            span.set_attributes(_attributes(ids))
            _end(span, failed, None)

    def close(self, seconds: float = CLOSE) -> bool:
        """Send what is left, for so long at most. Blocking; False where that did not come to its end."""
        # the SDK waits for longer than a stop may take: it is left behind in a thread that holds nothing up
        thread = threading.Thread(target=self._provider.shutdown, name="telemetry-close", daemon=True)
        thread.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _context(self, parent: str) -> Context:
        known = self._known.get(parent)
        return Context() if known is None else set_span_in_context(NonRecordingSpan(known), Context())

    def _remember(self, me: str, span: Span) -> None:
        if me:
            self._known[me] = span.get_span_context()
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)


class _Told(SpanExporter):
    """Tells once that the collector takes nothing, and once that it does again."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """In the SDK's own thread."""
        try:
            result = self._inner.export(spans)
        except Exception:  # the boundary to the exporter: spans are worth less than what they are about
            if not self._failing:
                log.exception("telemetry.defect")
            result = SpanExportResult.FAILURE
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("telemetry.not_taken", so="the collector takes no spans; they are dropped until it does")
        elif self._failing and not failing:
            log.info("telemetry.taken_again")
        self._failing = failing
        return result

    def shutdown(self) -> None:
        """Let the connection go."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is kept here."""
        return self._inner.force_flush(timeout_millis)


def for_collector(endpoint: str, *, version: str) -> Telemetry:
    """Spans to a collector that speaks OTLP over HTTP. Nothing is connected before there is something to send."""
    for name in ("opentelemetry", "urllib3"):  # what they say of each failed try is said once, by `_Told`
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return Telemetry(OTLPSpanExporter(endpoint=endpoint, timeout=SEND), version=version)


def _end(span: Span, failed: str, at: int | None) -> None:
    if failed:
        span.set_status(Status(StatusCode.ERROR, failed))
    span.end(at)


def _attributes(ids: dict[str, Id]) -> dict[str, Id]:
    return {f"tidings.{name}": value for name, value in ids.items()}


def _nanoseconds(when: datetime) -> int:
    return int(when.timestamp() * 1e9)
