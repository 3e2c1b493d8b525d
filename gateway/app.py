"""The composition root of the daemon: one exit stack, one task group, every long-lived task by its name.

Order of a start: lock → store → core → what is open is taken up → the HTTP server and the adapters → READY.
A stop goes the other way, in stages that are bounded and name what they leave.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog

from adapters import registry
from adapters.errors import AuthFailed
from adapters.http.settings import HttpSettings
from adapters.ports import AdapterServices, HasRoutes, HearsClosing, PlatformAdapter
from gateway import lifecycle, locks
from gateway import log as logs
from gateway.config_types import Config
from gateway.core import Core, assemble
from gateway.health import Health
from gateway.httpd import HttpdError, HttpServer
from gateway.in_force import access_settings
from gateway.keys import person_of
from gateway.lifecycle import FLUSH, UNWIND, ExitCode, Stage, StopRequest
from gateway.metrics import Metrics
from gateway.places import Cursors
from gateway.restart import say_back
from gateway.supervisor import Claim, Supervisor
from state.clock import SYSTEM
from state.errors import StateError
from state.owners import this_process
from state.store import Store

log = structlog.get_logger("gateway.app")

HTTP = "http"
READERS = 3


def run_daemon(config: Config) -> int:
    """Run the daemon until it is asked to end. Blocking; returns the exit code."""
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # the watchdog's SIGABRT, or a fault in native code, leaves the stacks
    logs.configure(level=config.log.level, format=config.log.format, secrets=config.secrets, file=config.log_file())
    try:
        return asyncio.run(_guarded(config))
    finally:
        logs.shutdown()


CANNOT_START = (locks.LockHeld, locks.LockUnusable, StateError, HttpdError)


async def _guarded(config: Config) -> int:
    """The daemon, with the faults of a start told in one line each."""
    try:
        return await Daemon(config).run()
    except CANNOT_START as error:
        return _cannot_start(error)
    except BaseExceptionGroup as group:
        for fault in group.exceptions:
            if isinstance(fault, CANNOT_START):
                _cannot_start(fault)
            else:
                log.critical("daemon.fault", reason=str(fault), exc_info=fault)
        return ExitCode.FAULT


def _cannot_start(error: BaseException) -> ExitCode:
    log.critical("daemon.cannot_start", reason=str(error), remedy=type(error).__name__)
    return ExitCode.FAULT


class Daemon:
    """One run of the daemon."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._metrics = Metrics()
        self._health = Health(config.enabled(), version=_version())
        self._stop = StopRequest()
        self._notifier = lifecycle.Notifier.from_environ(os.environ)
        self._tasks: list[asyncio.Task[None]] = []
        self._supervisors: dict[str, Supervisor] = {}

    async def run(self) -> int:
        """From the locks to the exit code. Raises what keeps it from starting."""
        config = self._config
        log.info("daemon.starting", home=str(config.home), config=str(config.file), version=_version(), pid=os.getpid())
        for warning in config.warnings:
            log.warning("config.warning", warning=warning)
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(make_home, config)
            stack.enter_context(locks.held(await asyncio.to_thread(locks.daemon_lock, config.home)))
            owner = this_process("daemon")
            store = await stack.enter_async_context(
                Store.open(config.home / "tidings.db", owner=owner, readers=READERS, clock=SYSTEM)
            )
            self._health.store_open()
            store.measure(self._metrics.store_write)
            log.info("store.open", path=str(store.path), journal=store.journal_mode)
            stack.enter_context(lifecycle.signals(self._stop))
            last_resort = lifecycle.LastResort(lifecycle.last_resort_seconds(config.limits.drain_seconds))
            async with asyncio.TaskGroup() as group:
                core = self._assemble(store, group)
                await self._serve(core, group, last_resort)
            last_resort.disarm()
            self._health.store_open(False)
        log.info("daemon.ended", code=int(self._stop.code), reason=self._stop.reason)
        return self._stop.code

    def _assemble(self, store: Store, group: asyncio.TaskGroup) -> Core:
        config = self._config
        http = config.platforms.get(HTTP)
        keys = http.ring().names if isinstance(http, HttpSettings) and http.enabled else ()
        enabled = frozenset(config.enabled())
        access = access_settings(config, members=frozenset(person_of(HTTP, name) for name in keys))
        return assemble(
            config,
            store,
            access=access,
            group=group,
            metrics=self._metrics,
            health=self._health,
            clock=SYSTEM,
            status=self._status,
            mine=lambda row: row.platform in enabled,
            on_auth_failed=self._refused,
            restart=lambda why: self._stop.ask(why, ExitCode.RESTART),
        )

    def _status(self) -> list[str]:
        """Lines for `/status`: how each platform stands."""
        return [
            f"{name}: {state.state.value}{f' ({state.reason})' if state.reason else ''}"
            for name, state in self._health.platforms().items()
        ]

    async def _serve(self, core: Core, group: asyncio.TaskGroup, last_resort: lifecycle.LastResort) -> None:
        """Everything between an open store and a closed one."""

        def start(work: Coroutine[Any, Any, None], name: str) -> None:
            self._tasks.append(group.create_task(work, name=name))

        start(core.models.warm(), "warm-up")  # a thread imports the SDK while we wait for the disk
        await core.moves.load()
        await core.pairing.load()
        start(core.pairing.watch(), "pairing")
        self._make_adapters(core)
        await core.arbiter.load()
        await core.recovery.start(all_turns=True)
        async with AsyncExitStack() as stack:
            server = self._server(core)
            await stack.enter_async_context(server)
            start(core.deliveries.run(), "deliveries")
            start(core.handoffs.run(core.intake.internal), "handoffs")
            start(core.recovery.watch(all_turns=True), "recovery")
            await say_back(self._config.home, core.deliveries)
            start(self._metrics.watch_loop(), "loop-lag")
            start(self._gauges(core), "gauges")
            start(self._notifier.keep_alive(lambda: True), "watchdog")
            for name, adapter in core.adapters.items():
                if name in self._config.enabled():
                    supervisor = Supervisor(
                        adapter,
                        core.intake,
                        self._health,
                        self._metrics,
                        SYSTEM,
                        connected=core.deliveries.resume,
                        ended=core.deliveries.pause,
                        claim=claim_of(self._config, name),
                    )
                    self._supervisors[name] = supervisor
                    start(supervisor.run(), f"platform:{name}")
            self._health.intake_running()
            self._notifier.ready(f"serving {', '.join(self._config.enabled()) or 'nothing but health'}")
            log.info("daemon.ready", platforms=list(self._config.enabled()), http=server.address)
            gc.freeze()  # what is there now stays: no later collection need look at it
            gc.enable()
            await self._stop.asked.wait()
            self._health.stopping()
            self._notifier.stopping(lifecycle.longest_stop(self._config.limits.drain_seconds))
            last_resort.arm()
            await lifecycle.shut_down(self._stages(core), self._stop)
        for task in self._tasks:
            task.cancel()
        core.background.cancel()
        await core.models.close()

    def _make_adapters(self, core: Core) -> None:
        """The adapters of the enabled platforms; their SDKs are imported here and nowhere else."""
        services = AdapterServices(
            conversations=core.conversations,
            models=core.models.names,
            files=self._config.home / "files",
            cursors=Cursors(core.store),
            moves=core.moves,
            commands=tuple(core.commands.names()),
            attachment_bytes=self._config.limits.attachment_bytes,
        )
        for name in self._config.enabled():
            manifest = registry.manifests()[name]
            assert manifest.adapter is not None, "the configuration refuses platforms without an adapter"
            make = registry.load(manifest.adapter)
            adapter: PlatformAdapter = make(self._config.platforms[name], services)
            core.adapters[name] = adapter

    def _server(self, core: Core) -> HttpServer:
        """The HTTP server; health answers there even when the http platform is off."""
        http = self._config.platforms[HTTP]
        assert isinstance(http, HttpSettings)
        routed = [adapter for adapter in core.adapters.values() if isinstance(adapter, HasRoutes)]
        return HttpServer(
            http,
            keys=http.ring(),
            health=self._health,
            metrics=self._metrics,
            routes=[route for adapter in routed for route in adapter.routes()],
            closers=[adapter.closing for adapter in core.adapters.values() if isinstance(adapter, HearsClosing)],
        )

    def _refused(self, platform: str, error: AuthFailed) -> None:
        """A delivery met a refusal of our credentials."""
        if supervisor := self._supervisors.get(platform):
            supervisor.refuse(error)

    async def _gauges(self, core: Core) -> None:
        """Levels for `/metrics`, every few seconds, until cancelled."""
        while True:
            self._metrics.now("turns_running", len(core.work.all()))
            self._metrics.now("workers", len(core.workers))
            self._metrics.now("delivery_lanes", core.deliveries.lanes)
            self._metrics.now("events_queued", sum(len(one.waiting) for one in core.workers.all().values()))
            await asyncio.sleep(5.0)

    def _stages(self, core: Core) -> Sequence[Stage]:
        drain = self._config.limits.drain_seconds
        return (
            Stage(name="intake", run=self._stop_intake(core), seconds=2.0),
            Stage(name="drain", run=lambda: core.workers.close(drain), seconds=drain + 1.0, hurried=0.1),
            Stage(name="park", run=lambda: park(core), seconds=UNWIND + 2.0),
            Stage(name="flush", run=_flush(core), seconds=FLUSH + 1.0, hurried=1.0),
            Stage(name="checkpoint", run=core.store.checkpoint, seconds=5.0),
        )

    def _stop_intake(self, core: Core) -> Any:
        async def stop() -> None:
            core.intake.close()
            self._health.intake_running(False)

        return stop


def claim_of(config: Config, platform: str) -> Claim:
    """Takes the locks of the platform's tokens. Blocking; raises `locks.LockHeld` or `locks.LockUnusable`."""

    def claim() -> AbstractContextManager[object]:
        with ExitStack() as stack:
            for token in config.platforms[platform].exclusive():
                lock = locks.token_lock(platform, token, home=config.home, environ=os.environ)
                stack.enter_context(locks.held(lock))
            return stack.pop_all()

    return claim


async def park(core: Core) -> list[str]:
    """Interrupt what the drain has left; those turns are taken up at the next start."""
    for running in list(core.work.all().values()):
        running.end("the daemon stops; this turn goes on after its next start", park=True)
    return [str(key) for key in await core.workers.cancel_waiting(UNWIND)]


def _flush(core: Core) -> Any:
    async def flush() -> list[str]:
        left = await core.deliveries.flush(FLUSH)
        return [f"{left} chats with something to be sent"] if left else []

    return flush


def make_home(config: Config) -> None:
    """The state folder, readable by its user only."""
    os.umask(0o077)
    for part in ("", "files", "memories", "skills", "models", "locks", "backups"):
        (config.home / part).mkdir(parents=True, exist_ok=True, mode=0o700)
    config.root.mkdir(parents=True, exist_ok=True)


def _version() -> str:
    try:
        return version("tidings")
    except PackageNotFoundError:
        return "unpackaged"
