"""A daemon under measurement: its start, its turns, its processor time and memory."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests.crash.harness import KEY, DaemonProcess, write_config

ROOT = Path(__file__).parents[2]


@dataclass(slots=True, kw_only=True)
class Bench:
    """A daemon, its model peer, and a client."""

    daemon: DaemonProcess
    process: psutil.Process
    session: aiohttp.ClientSession
    model_port: int
    ready_seconds: float
    home: Path
    config: Path

    @property
    def headers(self) -> dict[str, str]:
        """The client's key."""
        return {"Authorization": f"Bearer {KEY}"}

    def cpu(self) -> float:
        """Processor seconds of the daemon so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss(self) -> float:
        """Resident memory of the daemon in MB."""
        return float(self.process.memory_info().rss) / 1e6

    async def turn(self, number: int, chat: str = "main", text: str = "") -> float:
        """One message and its whole answer; seconds."""
        body = {"text": text or f"question {number}", "id": f"{chat}-{number}", "session": chat, "stream": False}
        began = time.perf_counter()
        url = f"http://127.0.0.1:{self.daemon.port}/api/messages"
        async with self.session.post(url, json=body, headers=self.headers) as answer:
            found = await answer.json()
        if found.get("fate") != "answered":
            raise RuntimeError(f"no answer: {found}")
        return time.perf_counter() - began

    async def latency(self, seconds: float) -> None:
        """Set how long the model thinks."""
        async with self.session.post(f"http://127.0.0.1:{self.model_port}/_latency", data=str(seconds)) as answer:
            await answer.read()

    async def metrics(self) -> str:
        """The daemon's own figures."""
        async with self.session.get(f"http://127.0.0.1:{self.daemon.port}/metrics", headers=self.headers) as answer:
            return await answer.text()


@asynccontextmanager
async def model_process(folder: Path) -> AsyncIterator[int]:
    """The scripted model as a process of its own; its port."""
    port_file = folder / "model-port"
    args = [sys.executable, "-m", "tests.counterparts.model_server", "--port-file", str(port_file)]
    model = subprocess.Popen(args, cwd=ROOT)
    try:
        while not port_file.exists() or not port_file.read_text().strip():
            await asyncio.sleep(0.02)
        yield int(port_file.read_text())
    finally:
        model.terminate()
        model.wait(10)


@asynccontextmanager
async def bench(**changes: Any) -> AsyncIterator[Bench]:
    """Start the daemon in a fresh home beside a scripted model, warmed by nothing."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as name:
        folder = Path(name)
        async with model_process(folder) as port:
            config = write_config(folder / "home", f"http://127.0.0.1:{port}/v1", log={"level": "info"}, **changes)
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=0)
                ) as session,
                started(config, session) as (daemon, seconds),
            ):
                yield Bench(
                    daemon=daemon,
                    process=psutil.Process(daemon.process.pid),
                    session=session,
                    model_port=port,
                    ready_seconds=seconds,
                    home=folder / "home",
                    config=config,
                )


@asynccontextmanager
async def started(config: Path, session: aiohttp.ClientSession) -> AsyncIterator[tuple[DaemonProcess, float]]:
    """One start, measured from the exec to the first 200 of /readyz."""
    began = time.perf_counter()
    daemon = DaemonProcess(config, direct=True)
    try:
        await daemon.ready()
        while True:
            async with session.get(f"http://127.0.0.1:{daemon.port}/readyz") as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.005)
        yield daemon, time.perf_counter() - began
    finally:
        if daemon.process.poll() is None:
            daemon.process.terminate()
            await asyncio.to_thread(daemon.process.wait, 60)
        daemon.kill()


def percentile(values: list[float], share: float) -> float:
    """A percentile, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def machine() -> dict[str, Any]:
    """What the figures were measured on, with the speed of one core at this moment."""
    began = time.perf_counter()
    total = 0
    for number in range(3_000_000):
        total += number
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "file_system": _file_system(Path(tempfile.gettempdir())),
        "loop_of_3_million_seconds": round(time.perf_counter() - began, 3),
        "load": round(os.getloadavg()[0], 2),
        "steal_seconds": round(getattr(psutil.cpu_times(), "steal", 0.0), 1),
    }


def _file_system(folder: Path) -> str:
    """The type of the file system that the databases of the measures lie on."""
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"
