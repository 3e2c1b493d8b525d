"""Counts and durations for `/metrics`. One `Metrics` a process, handed to whoever has something to count.

Every method is cheap (a few microseconds), never blocks and never raises. Durations are in seconds.
Label values come from closed sets; where one comes from the configuration (a model's or a tool's name)
the number of different values is bounded, and what is beyond counts as `other`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from gateway.spans import NoSpans, Spans

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_VALUES = 64
"""How many different combinations of label values a metric may have."""
LAG_EVERY = 0.1
"""Seconds between two samples of the event loop's lag."""

_FINE = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)
_WAIT = (0.005, 0.01, 0.025, 0.06, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)

T = TypeVar("T", Counter, Gauge, Histogram)


class _Family(Generic[T]):
    """The children of one metric by their label values: the library's own `labels` is slow."""

    def __init__(self, metric: T, labels: Sequence[str]) -> None:
        self._metric: T = metric
        # the library refuses labels() on a metric that has none
        self._children: dict[tuple[str, ...], T] = {} if labels else {(): metric}

    def of(self, *values: str) -> T:
        child = self._children.get(values)
        if child is None:
            if len(self._children) >= LABEL_VALUES:
                values = ("other",) * len(values)
            child = self._children[values] = self._metric.labels(*values)
        return child


class _Maker:
    """Makes the metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> _Family[Counter]:
        return _Family(Counter(f"tidings_{name}", text, labels, registry=self._registry), labels)

    def gauge(self, name: str, text: str, *labels: str) -> _Family[Gauge]:
        return _Family(Gauge(f"tidings_{name}", text, labels, registry=self._registry), labels)

    def histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> _Family[Histogram]:
        metric = Histogram(f"tidings_{name}", text, labels, registry=self._registry, buckets=buckets)
        return _Family(metric, labels)


class Metrics:
    """The facade. It has a registry of its own, so that several can live in one process (tests)."""

    def __init__(self, spans: Spans | None = None) -> None:
        self.spans: Spans = spans or NoSpans()
        """Where whoever measures something tells it in detail too."""
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)  # resident memory, CPU seconds, open files
        make = _Maker(self._registry)
        counter, histogram, gauge = make.counter, make.histogram, make.gauge
        self._accepted = counter("events_accepted", "Events taken from platforms", "platform", "known")
        self._fates = counter("fates", "Events by how they ended", "fate")
        self._turns = histogram("turn_seconds", "A turn from its lease to its end", _WAIT, "outcome")
        self._queued = histogram("queue_seconds", "An event from its acceptance to its turn", _WAIT)
        self._first = histogram("first_text_seconds", "An event from its acceptance to the first text", _WAIT)
        self._delivered = counter("deliveries", "Deliveries by how they ended", "platform", "state")
        self._resends = counter("resends_of_unknown", "Chunks sent once more with an unknown outcome", "platform")
        self._unknown = counter("sends_unknown", "Sends whose outcome was unknown", "platform")
        self._cosmetic = counter("cosmetic_failures", "Typing, drafts and the like that failed", "platform")
        self._arbiter = histogram("arbiter_wait_seconds", "A send from ready to its slot", _WAIT, "kind")
        self._held = counter("retry_after", "Waits that a platform asked for", "platform")
        self._reconnects = counter("adapter_ends", "Ends of an adapter's run", "platform", "remedy")
        self._lease_lost = counter("leases_lost", "Turns that lost their lease")
        self._prefix = counter("prefix_breaks", "Requests that did not continue the one before", "reason")
        self._calls = histogram("model_call_seconds", "A model call", _WAIT, "model", "outcome")
        self._tokens = counter("model_tokens", "Tokens as the provider gave them", "model", "kind")
        self._tools = histogram("tool_call_seconds", "A tool call", _WAIT, "tool", "status")
        self._writes = histogram("store_write_seconds", "A write of the store, queue and commit", _FINE)
        self._lag = histogram("loop_lag_seconds", "How late the event loop was", _FINE)
        self._requests = counter("http_requests", "Requests to the HTTP server", "listener", "status")
        self._memory = counter("memory_writes", "Writes to the external memory by their outcome", "outcome")
        self._gauges = gauge("now", "What there is at the moment", "what")

    def accepted(self, platform: str, *, is_new: bool) -> None:
        """An event was committed, or recognised."""
        self._accepted.of(platform, "no" if is_new else "yes").inc()

    def fate(self, fate: str, count: int = 1) -> None:
        """Events have ended."""
        self._fates.of(fate).inc(count)

    def turn(self, seconds: float, outcome: str) -> None:
        """A turn has ended: answered, interrupted, failed; `lost` with its lease, or `open` (parked, to be resumed)."""
        self._turns.of(outcome).observe(seconds)

    def queued(self, seconds: float) -> None:
        """An event's turn begins, this long after its acceptance."""
        self._queued.of().observe(seconds)

    def first_text(self, seconds: float) -> None:
        """The first text of an answer is there, this long after the acceptance."""
        self._first.of().observe(seconds)

    def delivery(self, platform: str, state: str) -> None:
        """A delivery has ended: sent, failed, parked, dropped."""
        self._delivered.of(platform, state).inc()

    def outcome_unknown(self, platform: str) -> None:
        """A send ended without our knowing whether it arrived."""
        self._unknown.of(platform).inc()

    def resent(self, platform: str) -> None:
        """Such a chunk was sent once more, marked (P4's stated exception)."""
        self._resends.of(platform).inc()

    def cosmetic_failure(self, platform: str) -> None:
        """Something cosmetic failed and was let go."""
        self._cosmetic.of(platform).inc()

    def arbiter_wait(self, seconds: float, kind: str) -> None:
        """A send of this delivery kind got its slot after so long."""
        self._arbiter.of(kind).observe(seconds)

    def retry_after(self, platform: str) -> None:
        """A platform asked us to wait."""
        self._held.of(platform).inc()

    def adapter_ended(self, platform: str, remedy: str) -> None:
        """An adapter's run ended: retry, wait, parked, returned."""
        self._reconnects.of(platform, remedy).inc()

    def lease_lost(self) -> None:
        """A turn lost its lease."""
        self._lease_lost.of().inc()

    def prefix_break(self, reason: str) -> None:
        """A request did not continue the previous one (P5); `reason` is the declared boundary or `undeclared`."""
        self._prefix.of(reason).inc()

    def model_call(
        self,
        model: str,
        seconds: float,
        outcome: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cached_tokens: int = 0,
    ) -> None:
        """A model call has ended: a finish reason or the name of an error."""
        self._calls.of(model, outcome).observe(seconds)
        for kind, count in (("input", input_tokens), ("output", output_tokens), ("cached", cached_tokens)):
            if count > 0:
                self._tokens.of(model, kind).inc(count)

    def tool_call(self, tool: str, seconds: float, status: str) -> None:
        """A tool call has ended."""
        self._tools.of(tool, status).observe(seconds)

    def store_write(self, seconds: float) -> None:
        """A write of the store is committed, so long after it was asked for. Any thread may call this."""
        self._writes.of().observe(seconds)

    def http_request(self, listener: str, status: int) -> None:
        """The HTTP server answered a request."""
        self._requests.of(listener, f"{status // 100}xx").inc()

    def memory_write(self, outcome: str) -> None:
        """A write to the external memory was tried: sent, gone (undone meanwhile), again (to be), refused."""
        self._memory.of(outcome).inc()

    def now(self, what: str, value: float) -> None:
        """A level: turns running, workers, waiters, connections, rows to be sent."""
        self._gauges.of(what).set(value)

    async def watch_loop(self, every: float = LAG_EVERY) -> None:
        """Sample the event loop's lag until cancelled. A task of the composition root."""
        loop = asyncio.get_running_loop()
        lag = self._lag.of()
        while True:
            due = loop.time() + every
            await asyncio.sleep(every)
            lag.observe(max(0.0, loop.time() - due))

    def render(self) -> bytes:
        """Everything in Prometheus' text format (`CONTENT_TYPE`). Reads /proc: call it in a thread."""
        return generate_latest(self._registry)

    def value(self, name: str, labels: dict[str, str] | None = None) -> float:
        """One sample as it would be scraped, 0 where there is none: for status pages and tests."""
        return self._registry.get_sample_value(f"tidings_{name}", labels or {}) or 0.0
