"""The metrics facade: counted, bounded, scraped."""

import asyncio
import time

from gateway.metrics import LABEL_VALUES, Metrics


def test_counts_reach_the_scrape() -> None:
    metrics = Metrics()
    metrics.accepted("http", is_new=True)
    metrics.accepted("http", is_new=False)
    metrics.fate("answered", 2)
    metrics.turn(0.3, "answered")
    metrics.queued(0.01)
    metrics.model_call("m", 1.0, "stop", input_tokens=10, output_tokens=3)
    metrics.lease_lost()
    metrics.now("waiters", 7)
    text = metrics.render().decode()
    assert 'tidings_fates_total{fate="answered"} 2.0' in text
    assert 'tidings_events_accepted_total{known="yes",platform="http"} 1.0' in text
    assert 'tidings_turn_seconds_count{outcome="answered"} 1.0' in text
    assert 'tidings_model_tokens_total{kind="input",model="m"} 10.0' in text
    assert "tidings_leases_lost_total 1.0" in text
    assert 'tidings_now{what="waiters"} 7.0' in text
    assert "process_resident_memory_bytes" in text
    assert metrics.value("queue_seconds_count") == 1


def test_two_registries_do_not_meet() -> None:
    one, two = Metrics(), Metrics()
    one.resent("p")
    assert one.value("resends_of_unknown_total", {"platform": "p"}) == 1
    assert two.value("resends_of_unknown_total", {"platform": "p"}) == 0


def test_label_values_are_bounded() -> None:
    metrics = Metrics()
    for number in range(LABEL_VALUES + 100):
        metrics.prefix_break(f"reason {number}")
    assert metrics.value("prefix_breaks_total", {"reason": "other"}) == 100
    assert metrics.render().count(b"tidings_prefix_breaks_total{") == LABEL_VALUES + 1


async def test_the_lag_of_a_blocked_loop_is_seen() -> None:
    metrics = Metrics()
    probe = asyncio.create_task(metrics.watch_loop(every=0.001), name="lag probe")
    await asyncio.sleep(0.002)
    time.sleep(0.03)  # the fault: something blocks the loop
    await asyncio.sleep(0.005)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    count = metrics.value("loop_lag_seconds_count")
    below = metrics.value("loop_lag_seconds_bucket", {"le": "0.02"})
    assert count >= 2
    assert count - below >= 1
