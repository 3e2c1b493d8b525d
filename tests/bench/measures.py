"""Measures of the whole daemon, through HTTP, with the model's own time known."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from tests.bench.corpus import text
from tests.bench.daemon import Bench, bench, percentile, started
from tests.crash.harness import rows

LAG = "tidings_loop_lag_seconds"


async def start(quick: bool) -> dict[str, Any]:
    """Exec to /readyz, and the first turn after a start; medians of several starts of one home."""
    ready, first = [], []
    async with bench() as one:
        ready.append(one.ready_seconds)
        first.append(await one.turn(0, "first-0"))
        one.daemon.process.terminate()
        await asyncio.to_thread(one.daemon.process.wait, 60)
        for number in range(1, 3 if quick else 5):
            async with started(one.config, one.session) as (daemon, seconds):
                one.daemon = daemon
                ready.append(seconds)
                first.append(await one.turn(0, f"first-{number}"))
    return {
        "ready_s": round(statistics.median(ready), 2),
        "ready_s_most": round(max(ready), 2),
        "first_turn_at_once_s": round(statistics.median(first), 2),
        "first_turn_at_once_s_most": round(max(first), 2),
        "starts": len(ready),
    }


async def turns(quick: bool) -> dict[str, Any]:
    """Later turns: overhead (the model answers at once; its process's own time is still in it) and processor time.

    At 10: eight chats, each measured from 10 to 20 messages of history. At 500: one chat from there on. Once
    with short messages ("question 7") and once with some 300 bytes of natural text in each.
    """
    found: dict[str, Any] = {}
    before = 60 if quick else 250
    for kind, size in (("short", 0), ("natural_300_bytes", 300)):
        async with bench() as one:
            young: list[float] = []
            cpu = 0.0
            for chat in range(8):
                await _talk(one, f"young-{chat}", 0, 5, size)
                at = one.cpu()
                young += await _talk(one, f"young-{chat}", 5, 5, size)
                cpu += one.cpu() - at
            found[f"{kind}_at_10"] = _told(young, cpu)
            await _talk(one, "old", 0, before, size)
            at = one.cpu()
            old = await _talk(one, "old", before, 40, size)
            found[f"{kind}_at_{2 * before}"] = _told(old, one.cpu() - at)
            found[f"{kind}_p50_ratio"] = round(percentile(old, 0.5) / percentile(young, 0.5), 2)
    return found


async def _talk(one: Bench, chat: str, first: int, count: int, size: int) -> list[float]:
    """`count` turns of one chat, one after the other; seconds of each."""
    rng = random.Random(f"{chat} {first}")
    return [await one.turn(number, chat, text(rng, size) if size else "") for number in range(first, first + count)]


def _told(took: list[float], cpu: float) -> dict[str, float]:
    return {
        "p50_ms": round(percentile(took, 0.5) * 1000, 1),
        "p95_ms": round(percentile(took, 0.95) * 1000, 1),
        "cpu_ms": round(cpu / len(took) * 1000, 1),
    }


async def chats(quick: bool) -> dict[str, Any]:
    """200 chats at once with a model that thinks for a second; several such bursts of new chats, one after the other.

    The first burst meets a cold daemon. The lag is that of the bursts alone, over all of them: the daemon samples
    it ten times a second, so one burst alone has too few samples for a p99.
    """
    async with bench() as one:
        await one.turn(0)
        await one.latency(1.0)
        before = _buckets(await one.metrics(), LAG)
        bursts = [await _burst(one, burst) for burst in range(1 if quick else 5)]
        after = _buckets(await one.metrics(), LAG)
        counts = rows(one.home, "SELECT count(*), count(DISTINCT turn_id) FROM outbox WHERE kind = 'final'")
    lag = {bound: after[bound] - before[bound] for bound in after}
    return {
        "bursts": bursts,
        "lag_samples": lag[float("inf")],
        "lag_samples_above_20_ms": lag[float("inf")] - lag[0.02],
        "lag_samples_above_50_ms": lag[float("inf")] - lag[0.05],
        "lag_p99_at_most_ms": 1000 * next(bound for bound, count in lag.items() if count >= lag[float("inf")] * 0.99),
        "finals_and_turns": counts[0],
    }


async def _burst(one: Bench, burst: int) -> dict[str, float]:
    cpu, peak = one.cpu(), one.rss()
    began = time.perf_counter()
    work = asyncio.gather(*(one.turn(number, f"chat-{burst}-{number}") for number in range(200)))
    while not work.done():
        await asyncio.sleep(0.05)
        peak = max(peak, one.rss())
    await work
    seconds = time.perf_counter() - began
    return {
        "all_answered_s": round(seconds, 2),
        "peak_rss_mb": round(peak),
        "cpu_ms_a_turn": round((one.cpu() - cpu) / 200 * 1000, 1),
    }


def _buckets(metrics: str, name: str) -> dict[float, float]:
    """A histogram: how many samples were at or below each bound, in the order of the bounds."""
    found = {}
    for line in metrics.splitlines():
        if line.startswith(f"{name}_bucket"):
            bound = line.split('le="')[1].split('"')[0]
            found[float("inf") if bound == "+Inf" else float(bound)] = float(line.split()[-1])
    return found


async def idle(quick: bool) -> dict[str, Any]:
    """Memory after a start and after three turns, and processor seconds a minute with nothing to do."""
    async with bench() as one:
        await asyncio.sleep(2)
        fresh = one.rss()
        for number in range(3):
            await one.turn(number)
        after = one.rss()
        await asyncio.sleep(2)
        seconds = 10 if quick else 60
        cpu = one.cpu()
        await asyncio.sleep(seconds)
        used = (one.cpu() - cpu) * 60 / seconds
    return {"rss_idle_mb": round(fresh), "rss_after_3_turns_mb": round(after), "cpu_s_a_minute": round(used, 2)}


async def sessions(quick: bool) -> dict[str, Any]:
    """Memory over many sessions, one turn each, twenty at a time."""
    count = 500 if quick else 5000
    async with bench() as one:
        marks = []
        for start_at in range(0, count, 20):
            await asyncio.gather(*(one.turn(0, f"s-{number}") for number in range(start_at, start_at + 20)))
            if start_at % (count // 5) == 0:
                marks.append(round(one.rss()))
        marks.append(round(one.rss()))
    return {"sessions": count, "rss_mb_over_time": marks}
