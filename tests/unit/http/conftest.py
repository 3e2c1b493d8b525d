"""A real server on loopback with the in-memory gateway behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.http.adapter import HttpAdapter
from adapters.http.settings import HttpSettings
from adapters.ports import Route
from gateway.health import Health
from gateway.httpd import HttpServer
from gateway.metrics import Metrics
from tests.unit.http.double import Gateway

KEY = "a-key-of-this-test-only"
OTHER = "another-key-of-this-test"


@dataclass
class House:
    """Everything that a test touches."""

    url: str
    gateway: Gateway
    adapter: HttpAdapter
    client: aiohttp.ClientSession
    metrics: Metrics
    health: Health
    files: Path

    def as_other(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {OTHER}"}


@asynccontextmanager
async def running(
    tmp_path: Path, gateway: Gateway | None = None, routes: Sequence[Route] = (), **changes: Any
) -> AsyncIterator[House]:
    """A running server; `changes` are settings."""
    given = {"enabled": True, "port": 0, "key": KEY, "keys": {"other": OTHER}, "wait_seconds": 5.0, **changes}
    settings = HttpSettings.model_validate(given)
    gateway = gateway or Gateway()
    files = tmp_path / "files" / "http"
    adapter = HttpAdapter(settings, conversations=gateway, models=lambda: ["small", "large"], files=files)
    gateway.adapter = adapter
    health, metrics = Health(["http"]), Metrics()
    server = HttpServer(
        settings,
        keys=settings.ring(),
        health=health,
        metrics=metrics,
        routes=[*adapter.routes(), *routes],
        closers=[adapter.closing],
    )
    async with server:
        ready = asyncio.Event()
        task = asyncio.create_task(adapter.run(gateway, ready.set), name="adapter")
        await ready.wait()
        url = f"http://127.0.0.1:{server.address[1]}"
        async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {KEY}"}) as client:
            try:
                yield House(url, gateway, adapter, client, metrics, health, files)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                for line in gateway.lines.values():
                    if line.worker is not None:
                        line.worker.cancel()
        gateway.adapter = None


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with running(tmp_path) as it:
        yield it
