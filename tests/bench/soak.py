"""A daemon under steady load for ten minutes: what must not grow does not, and nothing is lost.

Three chat platforms (their counterparts over real sockets) and HTTP at once. A line a minute; the growth is that from
the sixth minute, when caches are full (rows are kept for five minutes), to the last.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests.bench.daemon import model_process
from tests.crash.harness import KEY, DaemonProcess, rows, write_config
from tests.e2e.sides import SIDES, Side

MINUTES, QUICK_MINUTES, WARM = 10, 2, 6
HTTP_EVERY, CHAT_EVERY = 0.2, 4.0
"""Seconds between two messages: five a second over HTTP, one in four seconds in a private chat of each platform."""
TURNS = 20
"""Messages after which a conversation ends and another begins, so that the load stays the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The process at one moment."""

    minute: float
    rss_mb: float
    threads: int
    descriptors: int
    tasks: int
    cpu_seconds: float
    database_mb: float
    answered: int


class Soak:
    """One daemon, its load, and what was seen."""

    def __init__(self, daemon: DaemonProcess, session: aiohttp.ClientSession, home: Path) -> None:
        self.daemon = daemon
        self.process = psutil.Process(daemon.process.pid)
        self.session = session
        self.home = home
        self.answered = 0
        self.failed: list[str] = []
        self.slowest = 0.0

    async def http(self) -> None:
        """Somebody who asks over HTTP and waits for the answer; several at once where one takes long."""
        async with asyncio.TaskGroup() as group:
            number = 0
            while True:
                group.create_task(self._ask(number), name=f"ask:{number}")
                number += 1
                await asyncio.sleep(HTTP_EVERY)

    async def _ask(self, number: int) -> None:
        body: dict[str, Any] = {
            "text": f"question {number}",
            "id": f"h{number}",
            "session": f"h{number % 10}-{number // (10 * TURNS)}",
        }
        body["stream"] = False
        began = time.perf_counter()
        url = f"http://127.0.0.1:{self.daemon.port}/api/messages"
        async with self.session.post(url, json=body, headers={"Authorization": f"Bearer {KEY}"}) as answer:
            found = await answer.json()
        self.slowest = max(self.slowest, time.perf_counter() - began)
        if found.get("fate") == "answered":
            self.answered += 1
        else:
            self.failed.append(str(found)[:200])

    async def chat(self, side: Side) -> None:
        """Ann in her private chat."""
        number = 0
        while True:
            text = "/new" if number % TURNS == TURNS - 1 else f"question {number}"
            side.say(side.private, text)
            number += 1
            await asyncio.sleep(CHAT_EVERY)

    async def sample(self, minute: float) -> Sample:
        """Look at the process."""
        url = f"http://127.0.0.1:{self.daemon.port}/metrics"
        async with self.session.get(url, headers={"Authorization": f"Bearer {KEY}"}) as answer:
            text = await answer.text()
        tasks = re.search(r'tidings_now\{what="tasks"\} ([0-9.]+)', text)
        size = sum(one.stat().st_size for one in self.home.glob("tidings.db*"))
        times = self.process.cpu_times()
        return Sample(
            minute=round(minute, 1),
            rss_mb=round(self.process.memory_info().rss / 1e6, 1),
            threads=self.process.num_threads(),
            descriptors=self.process.num_fds(),
            tasks=int(float(tasks[1])) if tasks else -1,
            cpu_seconds=round(times.user + times.system, 1),
            database_mb=round(size / 1e6, 1),
            answered=self.answered,
        )


async def soak(quick: bool) -> dict[str, Any]:
    """Run it."""
    minutes = QUICK_MINUTES if quick else MINUTES
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidings-soak-")))
        port = await stack.enter_async_context(model_process(folder))
        sides = [kind() for kind in SIDES]
        for side in sides:
            await stack.enter_async_context(side.open())
        http = {"enabled": True, "host": "127.0.0.1", "port": 0, "key": "${TIDINGS_HTTP_KEY}"}
        config = write_config(
            folder / "home",
            f"http://127.0.0.1:{port}/v1",
            log={"level": "info"},
            access={"owners": [side.owner() for side in sides], "pairing": False},
            platforms={"http": http, **{side.name: side.section() for side in sides}},
        )
        env = {name: value for side in sides for name, value in side.env().items()}
        daemon = DaemonProcess(config, direct=True, env=env)
        stack.callback(daemon.kill)
        await daemon.ready()
        timeout = aiohttp.ClientTimeout(total=120)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        run = Soak(daemon, session, folder / "home")
        samples = await _load(run, sides, minutes)
        await asyncio.sleep(15.0)  # what was said last is answered
        after = await run.sample(minutes + 0.25)
        open_events = rows(folder / "home", "SELECT count(*) FROM inbox WHERE fate IN ('waiting', 'running')")[0][0]
        fates = dict(rows(folder / "home", "SELECT fate, count(*) FROM inbox GROUP BY fate"))
        await daemon.terminate(60.0)
    warm, last = samples[min(WARM, len(samples)) - 1 if not quick else 0], samples[-1]
    names = ("rss_mb", "threads", "descriptors", "tasks")
    return {
        "minutes": minutes,
        "samples": [asdict(one) for one in samples],
        "after": asdict(after),
        "growth": {name: round(getattr(last, name) - getattr(warm, name), 1) for name in names},
        "cpu_seconds_a_minute": round((last.cpu_seconds - warm.cpu_seconds) / max(last.minute - warm.minute, 1), 1),
        "slowest_http_seconds": round(run.slowest, 2),
        "fates": fates,
        "open": open_events,
        "http_failed": run.failed[:5],
    }


async def _load(run: Soak, sides: list[Side], minutes: int) -> list[Sample]:
    tasks = [asyncio.create_task(run.http(), name="http")]
    tasks += [asyncio.create_task(run.chat(side), name=side.name) for side in sides]
    samples: list[Sample] = []
    began = time.perf_counter()
    try:
        for minute in range(1, minutes + 1):
            done, _ = await asyncio.wait(tasks, timeout=began + minute * 60 - time.perf_counter())
            for task in done:
                task.result()
            samples.append(await run.sample((time.perf_counter() - began) / 60))
            print(samples[-1], file=sys.stderr, flush=True)
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)
    return samples
