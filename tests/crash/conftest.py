"""A scripted model and a home for each crash test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.counterparts.model_server import ModelServer
from tests.crash.harness import Client, DaemonProcess, write_config


class World:
    """One home, one model, and as many starts of the daemon as the test wants."""

    def __init__(self, home: Path, model: ModelServer, session: aiohttp.ClientSession) -> None:
        self.home = home
        self.work = home.parent / "work"
        self.model = model
        self._session = session
        self.started: list[DaemonProcess] = []
        self.config = self.configure()

    def configure(self, **changes: Any) -> Path:
        """Write the configuration (anew)."""
        tools = {
            "guests": ["clarify"],
            "members": ["todo"],
            "owners": ["files", "terminal"],
            "root": str(self.work),
            "approvals": "never",
        }
        self.config = write_config(self.home, self.model.url, **{"tools": tools, **changes})
        return self.config

    async def start(self, point: str = "none", **env: str) -> tuple[DaemonProcess, Client]:
        """Start the daemon and wait until it serves."""
        daemon = self.spawn(point, **env)
        await daemon.ready()
        return daemon, self.client(daemon)

    def spawn(self, point: str = "none", **env: str) -> DaemonProcess:
        """Start the daemon."""
        daemon = DaemonProcess(self.config, point=point, env=env)
        self.started.append(daemon)
        return daemon

    def successor(self, point: str = "none", **env: str) -> DaemonProcess:
        """Start another daemon that is to take over."""
        daemon = DaemonProcess(self.config, point=point, env=env, takeover=True)
        self.started.append(daemon)
        return daemon

    def client(self, daemon: DaemonProcess) -> Client:
        """Somebody who talks with it."""
        return Client(self._session, daemon)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fresh world; whatever still runs at its end is killed."""
    async with ModelServer() as model, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        made = World(tmp_path / "home", model, session)
        try:
            yield made
        finally:
            for daemon in made.started:
                daemon.kill()
