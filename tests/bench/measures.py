"""Measures of the whole daemon, through HTTP, with the model's own time known."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from tests.bench.daemon import Bench, bench, percentile, started
from tests.crash.harness import Client, DaemonProcess, rows


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
        "first_turn_at_once_s": round(statistics.median(first), 2),
        "starts": len(ready),
    }


async def turns(quick: bool) -> dict[str, Any]:
    """Later turns at 10 and at 500 messages of history: overhead (the model answers at once) and processor time."""
    found: dict[str, Any] = {}
    async with bench() as one:
        for number in range(5):
            await one.turn(number)
        found["at_10_messages"] = await _sample(one, 5, 40)
        have = 45
        for number in range(have, 250 if not quick else 120):
            await one.turn(number)
        found[f"at_{2 * (250 if not quick else 120)}_messages"] = await _sample(one, 1000, 40)
        found["rss_after_mb"] = round(one.rss())
    return found


async def _sample(one: Bench, first: int, count: int) -> dict[str, float]:
    cpu = one.cpu()
    took = [await one.turn(first + number) for number in range(count)]
    return {
        "p50_ms": round(percentile(took, 0.5) * 1000, 1),
        "p95_ms": round(percentile(took, 0.95) * 1000, 1),
        "cpu_ms": round((one.cpu() - cpu) / count * 1000, 1),
    }


async def chats(_quick: bool) -> dict[str, Any]:
    """200 chats at once with a model that thinks for a second."""
    async with bench() as one:
        await one.turn(0)
        await one.latency(1.0)
        cpu, peak = one.cpu(), one.rss()
        began = time.perf_counter()
        work = asyncio.gather(*(one.turn(number, f"chat-{number}") for number in range(200)))
        while not work.done():
            await asyncio.sleep(0.05)
            peak = max(peak, one.rss())
        await work
        seconds = time.perf_counter() - began
        used = (one.cpu() - cpu) / 200
        lag = _quantile(await one.metrics(), "tidings_loop_lag_seconds", 0.99)
        counts = rows(one.home, "SELECT count(*), count(DISTINCT turn_id) FROM outbox WHERE kind = 'final'")
    return {
        "all_answered_s": round(seconds, 2),
        "peak_rss_mb": round(peak),
        "cpu_ms_a_turn": round(used * 1000, 1),
        "loop_lag_p99_at_most_ms": lag * 1000,
        "finals_and_turns": counts[0],
    }


def _quantile(metrics: str, name: str, share: float) -> float:
    """The upper bound of the histogram's bucket that holds the quantile."""
    buckets = []
    for line in metrics.splitlines():
        if line.startswith(f"{name}_bucket"):
            bound = line.split('le="')[1].split('"')[0]
            buckets.append((float("inf") if bound == "+Inf" else float(bound), float(line.split()[-1])))
    wanted = buckets[-1][1] * share
    return next(bound for bound, count in buckets if count >= wanted)


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


async def crash(quick: bool) -> dict[str, Any]:
    """kill -9 at random moments while messages come in; counts what is lost and what is doubled."""
    rounds = 6 if quick else 20
    rng = random.Random(3)
    sent = 0
    async with bench() as one:
        one.daemon.kill()
        for _ in range(rounds):
            daemon = DaemonProcess(one.config)
            await daemon.ready()
            client = Client(one.session, daemon)
            begun = sent
            posts = [
                asyncio.create_task(client.post(f"q {n}", f"m{n}", session=f"s{n % 4}")) for n in range(sent, sent + 5)
            ]
            sent += 5
            await asyncio.sleep(rng.random() * 0.15)
            daemon.kill()
            taken = [n for n, done in enumerate(await asyncio.gather(*posts), begun) if done]
            daemon = DaemonProcess(one.config)
            await daemon.ready()
            client = Client(one.session, daemon)
            for number in range(begun, sent):  # what was not taken is sent again, as a platform would
                if number not in taken:
                    await client.post(f"q {number}", f"m{number}", session=f"s{number % 4}")
            for number in range(begun, sent):
                await client.settled(f"m{number}")
            daemon.kill()
        answered = rows(one.home, "SELECT count(DISTINCT message_id) FROM inbox WHERE fate = 'answered'")[0][0]
        doubled = rows(
            one.home,
            "SELECT count(*) FROM"
            " (SELECT turn_id FROM outbox WHERE kind = 'final' GROUP BY turn_id HAVING count(*) > 1)",
        )[0][0]
        turns_of = rows(one.home, "SELECT count(*) FROM turns WHERE state = 'answered'")[0][0]
    return {"kills": rounds * 2, "messages": sent, "lost": sent - answered, "doubled": doubled + turns_of - answered}
