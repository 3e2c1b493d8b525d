"""What `tidings status` makes of `/metrics`: from the real text."""

from __future__ import annotations

import math

from gateway.cli.measures import figures, samples
from gateway.metrics import Metrics


def test_figures_come_from_what_is_exported() -> None:
    metrics = Metrics()
    metrics.now("turns_running", 3)
    metrics.now("events_queued", 7)
    metrics.lease_lost()
    metrics.prefix_break("new session")
    metrics.retry_after("one")
    metrics.retry_after("two")
    for _ in range(19):
        metrics.queued(0.003)
    metrics.queued(3.0)
    metrics.turn(1.5, "answered")
    metrics.turn(100_000.0, "failed")
    found = figures(samples(metrics.render().decode()))
    assert found["turns_running"] == 3
    assert found["events_queued"] == 7
    assert found["leases_lost"] == 1
    assert found["waits_asked_for"] == 2
    assert "prefix_breaks_undeclared" not in found
    assert (found["queue_count"], found["queue_p50"], found["queue_p95"]) == (20, 0.005, 0.005)
    assert found["turn_p50"] == 2.0
    assert math.isinf(found["turn_p95"])
    assert found["memory_bytes"] > 1e6
    assert "first_text_p50" not in found, "nothing was measured"


def test_a_second_look_is_about_the_time_between() -> None:
    metrics = Metrics()
    metrics.queued(50.0)
    before = samples(metrics.render().decode())
    metrics.queued(0.003)
    after = samples(metrics.render().decode())
    assert figures(after)["queue_p95"] == 60.0
    assert figures(after, before)["queue_p95"] == 0.005
    assert figures(after, before)["queue_count"] == 1
    assert "queue_p95" not in figures(before, before)


def test_odd_lines_are_left_out() -> None:
    assert samples("# a comment 1\nnonsense\nname{} x\nfine 2\n").values == {("fine", ()): 2.0}
    assert samples('a{b="x\\"} 1",c="d"} 4\n').total("a", c="d") == 4
