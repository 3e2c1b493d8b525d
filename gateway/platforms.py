"""The platforms at work: an adapter and a supervisor each, which can be begun and ended alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import structlog

from adapters import registry
from adapters.errors import AuthFailed
from adapters.ports import AdapterServices, HasRoutes, HearsClosing, PlatformAdapter, Route
from gateway import locks
from gateway.config_types import Config
from gateway.core import Core
from gateway.places import Cursors
from gateway.supervisor import Claim, Supervisor
from state.clock import SYSTEM

log = structlog.get_logger("gateway.platforms")

END = 15.0
"""Seconds that an adapter has to close everything when its platform is ended alone."""

Spawn = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Platforms:
    """Owns the supervisors of the process; the adapters are in `core.adapters`, the table that everybody reads."""

    def __init__(self, core: Core, spawn: Spawn) -> None:
        """`spawn` makes a task of the composition root."""
        self._core = core
        self._spawn = spawn
        self._supervisors: dict[str, tuple[Supervisor, asyncio.Task[None]]] = {}

    async def make(self, config: Config, name: str) -> PlatformAdapter:
        """The adapter of a platform, connected to nothing yet. Its SDK is imported here, in a thread.

        Raises ImportError, or what the adapter says to its settings (ValueError).
        """
        manifest = registry.manifests()[name]
        assert manifest.adapter is not None, "the configuration refuses platforms without an adapter"
        make = await asyncio.to_thread(registry.load, manifest.adapter)
        services = AdapterServices(
            conversations=self._core.conversations,
            models=self._core.models.names,
            files=config.home / "files",
            cursors=Cursors(self._core.store),
            moves=self._core.moves,
            commands=tuple(self._core.commands.names()),
            attachment_bytes=config.limits.attachment_bytes,
        )
        adapter: PlatformAdapter = make(config.platforms[name], services)
        return adapter

    def start(self, config: Config, name: str) -> None:
        """Serve the platform with the adapter that is in the table."""
        core = self._core
        core.health.starting(name)
        supervisor = Supervisor(
            core.adapters[name],
            core.intake,
            core.health,
            core.metrics,
            SYSTEM,
            connected=core.deliveries.resume,
            ended=core.deliveries.pause,
            claim=claim_of(config, name),
        )
        self._supervisors[name] = supervisor, self._spawn(supervisor.run(), f"platform:{name}")

    async def end(self, name: str) -> bool:
        """End the platform and wait until its adapter has closed everything. False where it did not in time: it
        is left behind, named in the log, and its token stays locked until it has."""
        held = self._supervisors.pop(name, None)
        if held is None:
            return True
        _, task = held
        task.cancel()
        _, stuck = await asyncio.wait([task], timeout=END)
        self._core.deliveries.pause(name)
        if stuck:
            log.error("platform.stuck", platform=name, seconds=END)
        return not stuck

    def wake(self) -> None:
        """Try those at once that wait or are parked (the operator has looked at the configuration)."""
        for supervisor, _ in self._supervisors.values():
            supervisor.wake()

    def refuse(self, platform: str, error: AuthFailed) -> None:
        """A delivery met a refusal of our credentials."""
        held = self._supervisors.get(platform)
        if held is not None:
            held[0].refuse(error)

    def closing(self) -> None:
        """The HTTP server closes: whoever waits there is told."""
        for adapter in self._core.adapters.values():
            if isinstance(adapter, HearsClosing):
                adapter.closing()


def routes_of(adapters: Sequence[PlatformAdapter]) -> list[Route]:
    """What these adapters are reached by."""
    return [route for adapter in adapters if isinstance(adapter, HasRoutes) for route in adapter.routes()]


def claim_of(config: Config, platform: str) -> Claim:
    """Takes the locks of the platform's tokens. Blocking; raises `locks.LockHeld` or `locks.LockUnusable`."""

    def claim() -> AbstractContextManager[object]:
        with ExitStack() as stack:
            for token in config.platforms[platform].exclusive():
                lock = locks.token_lock(platform, token, home=config.home, environ=os.environ)
                stack.enter_context(locks.held(lock))
            return stack.pop_all()

    return claim
