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
from contextlib import AsyncExitStack, ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog

from adapters.http.settings import HttpSettings
from gateway import lifecycle, locks
from gateway import log as logs
from gateway.config import load_settled
from gateway.config_types import Config
from gateway.core import Core, assemble
from gateway.health import Health
from gateway.httpd import HttpdError, HttpServer
from gateway.in_force import access_settings
from gateway.keys import person_of
from gateway.lifecycle import FLUSH, UNWIND, ExitCode, Stage, StopRequest
from gateway.memory import begin_memory, memory_left
from gateway.metrics import Metrics
from gateway.platforms import Platforms, routes_of
from gateway.reload import Reloaded, Reloader
from gateway.restart import say_back
from gateway.spans import NoSpans, Spans
from gateway.succession.incumbent import House, Incumbent
from gateway.succession.successor import Takeover, TakeoverFailed
from gateway.succession.successor import ask as succeed
from gateway.upkeep import Upkeep
from state.clock import SYSTEM
from state.errors import StateError
from state.owners import this_process
from state.store import Store

log = structlog.get_logger("gateway.app")

HTTP = "http"
READERS = 3


def run_daemon(config: Config, *, takeover: bool = False) -> int:
    """Run the daemon until it is asked to end. Blocking; returns the exit code. `takeover`: in the place of the one
    that runs over the state folder, where one does."""
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # the watchdog's SIGABRT, or a fault in native code, leaves the stacks
    logs.configure(level=config.log.level, format=config.log.format, secrets=config.secrets, file=config.log_file())
    with ExitStack() as stack:
        stack.callback(logs.shutdown)
        return asyncio.run(_guarded(config, spans_of(config, stack), takeover=takeover))


def spans_of(config: Config, stack: ExitStack) -> Spans:
    """Where spans go; what the stack closes takes a few seconds at most."""
    endpoint = config.telemetry.endpoint
    if endpoint is None:
        return NoSpans()
    from gateway.telemetry import for_collector  # noqa: PLC0415 - an extra, imported where it is switched on

    telemetry = for_collector(endpoint, version=_version())
    stack.callback(telemetry.close)
    return telemetry


CANNOT_START = (locks.LockHeld, locks.LockUnusable, StateError, HttpdError, TakeoverFailed)


async def _guarded(config: Config, spans: Spans, *, takeover: bool) -> int:
    """The daemon, with the faults of a start told in one line each."""
    try:
        return await Daemon(config, spans).run(takeover=takeover)
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

    def __init__(self, config: Config, spans: Spans) -> None:
        self._config = config
        self._metrics = Metrics(spans)
        self._health = Health(config.enabled(), version=_version())
        self._stop = StopRequest()
        self._notifier = lifecycle.Notifier.from_environ(os.environ)
        self._tasks: list[asyncio.Task[None]] = []
        self._platforms: Platforms | None = None
        self._reloader: Reloader | None = None
        self._incumbent: Incumbent | None = None
        self._reload_asked = asyncio.Event()

    async def run(self, *, takeover: bool = False) -> int:
        """From the locks to the exit code. Raises what keeps it from starting."""
        config = self._config
        log.info("daemon.starting", home=str(config.home), config=str(config.file), version=_version(), pid=os.getpid())
        for warning in config.warnings:
            log.warning("config.warning", warning=warning)
        async with AsyncExitStack() as stack:
            # before the lock, by whose note a command finds the process that it sends a signal to
            stack.enter_context(lifecycle.signals(self._stop, reload=self._reload_asked.set))
            await asyncio.to_thread(make_home, config)
            owner = this_process("daemon")
            taking = await succeed(config, owner) if takeover else None
            if taking is not None:
                stack.callback(taking.close)
            lock = taking.lock if taking else await asyncio.to_thread(locks.daemon_lock, config.home)
            stack.enter_context(locks.held(lock))
            store = await stack.enter_async_context(
                Store.open(config.home / "tidings.db", owner=owner, readers=READERS, clock=SYSTEM)
            )
            self._health.store_open()
            store.measure(self._metrics.store_write)
            log.info("store.open", path=str(store.path), journal=store.journal_mode)
            last_resort = lifecycle.LastResort(lifecycle.last_resort_seconds(config.limits.drain_seconds))
            async with asyncio.TaskGroup() as group:
                core = self._assemble(store, group)
                await self._serve(core, group, last_resort, lock, taking)
            last_resort.disarm()
            self._health.store_open(False)
        log.info("daemon.ended", code=int(self._stop.code), reason=self._stop.reason)
        return self._stop.code

    def _assemble(self, store: Store, group: asyncio.TaskGroup) -> Core:
        config = self._config
        http = config.platforms.get(HTTP)
        keys = http.ring().names if isinstance(http, HttpSettings) and http.enabled else ()
        access = access_settings(config, members=frozenset(person_of(HTTP, name) for name in keys))
        core = assemble(
            config,
            store,
            access=access,
            group=group,
            metrics=self._metrics,
            health=self._health,
            clock=SYSTEM,
            status=self._status,
            mine=lambda row: row.platform in core.in_force.config.enabled(),
            on_auth_failed=lambda platform, error: self._sure_platforms().refuse(platform, error),
            end=self._stop.ask,
            reload=self._reload,
        )
        return core

    def _sure_platforms(self) -> Platforms:
        assert self._platforms is not None
        return self._platforms

    async def _reload(self, why: str) -> Reloaded:
        assert self._reloader is not None
        return await self._reloader.reload(why)

    def _status(self) -> list[str]:
        """Lines for `/status`: how each platform stands."""
        return [
            f"{name}: {state.state.value}{f' ({state.reason})' if state.reason else ''}"
            for name, state in self._health.platforms().items()
        ]

    async def _serve(
        self,
        core: Core,
        group: asyncio.TaskGroup,
        last_resort: lifecycle.LastResort,
        lock: locks.Lock,
        taking: Takeover | None,
    ) -> None:
        """Everything between an open store and a closed one."""

        def start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
            task = group.create_task(work, name=name)
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)
            return task

        start(core.models.warm(), "warm-up")  # a thread imports the SDK while we wait for the disk
        await core.moves.load()
        await core.pairing.load()
        start(core.pairing.watch(), "pairing")
        platforms = self._platforms = Platforms(core, start)
        for name in self._config.enabled():
            core.adapters[name] = await platforms.make(self._config, name)
        await core.arbiter.load()
        if taking is not None:
            core.overlap.begin(taking.other)
        await core.recovery.start(all_turns=True)
        async with AsyncExitStack() as stack:
            server = self._server(core, platforms, taking)
            await stack.enter_async_context(server)
            start(core.deliveries.run(), "deliveries")
            start(core.handoffs.run(core.intake.internal), "handoffs")
            start(core.recovery.watch(all_turns=True), "recovery")
            await say_back(self._config.home, core.deliveries)
            start(self._metrics.watch_loop(), "loop-lag")
            start(self._gauges(core), "gauges")
            begin_memory(core.memory, start)
            start(Upkeep(core.store, self._config.home, lambda: core.in_force.config.limits).run(), "upkeep")
            start(self._notifier.keep_alive(lambda: True), "watchdog")
            if taking is not None:
                await taking.take(core, platforms, self._config)
                start(taking.follow(core), "predecessor")
            else:
                for name in core.adapters:
                    platforms.start(self._config, name)
            self._incumbent = self._make_incumbent(core, platforms, server, lock)
            start(self._incumbent.run(), "succession")
            self._reloader = self._make_reloader(core, platforms, server, last_resort)
            start(self._reloader.run(), "reload")
            self._health.intake_running()
            self._notifier.ready(_serving(self._config))
            log.info("daemon.ready", platforms=list(self._config.enabled()), http=server.address)
            gc.freeze()  # what is there now stays: no later collection need look at it
            gc.enable()
            await self._stop.asked.wait()
            self._health.stopping()
            self._notifier.stopping(lifecycle.longest_stop(self._config.limits.drain_seconds))
            last_resort.arm()
            await lifecycle.shut_down(self._stages(core), self._stop)
        for task in list(self._tasks):
            task.cancel()
        await core.release()

    def _make_reloader(
        self, core: Core, platforms: Platforms, server: HttpServer, last_resort: lifecycle.LastResort
    ) -> Reloader:
        file = self._config.file

        def applied(config: Config) -> None:
            self._config = config
            last_resort.seconds = lifecycle.last_resort_seconds(config.limits.drain_seconds)
            self._notifier.status(_serving(config))

        return Reloader(
            core,
            platforms,
            server,
            lambda: load_settled(file, environ=os.environ),
            self._reload_asked,
            applied,
            lambda: self._stop.asked.is_set() or (self._incumbent is not None and self._incumbent.busy),
        )

    def _make_incumbent(self, core: Core, platforms: Platforms, server: HttpServer, lock: locks.Lock) -> Incumbent:
        def retire(names: Sequence[str]) -> None:
            for task in list(self._tasks):
                if task.get_name() in names:
                    task.cancel()

        return Incumbent(
            House(
                config=lambda: self._config,
                core=core,
                platforms=platforms,
                server=server,
                lock=lock,
                notifier=self._notifier,
                stop=self._stop,
                retire=retire,
                drain=self._config.limits.turn_seconds,
            )
        )

    def _server(self, core: Core, platforms: Platforms, taking: Takeover | None) -> HttpServer:
        """The HTTP server; health answers there even when the http platform is off."""
        http = self._config.platforms[HTTP]
        assert isinstance(http, HttpSettings)
        return HttpServer(
            http,
            keys=http.ring(),
            health=self._health,
            metrics=self._metrics,
            routes=routes_of(list(core.adapters.values())),
            closers=[platforms.closing],
            inherited=taking.sockets if taking is not None else None,
        )

    async def _gauges(self, core: Core) -> None:
        """Levels for `/metrics`, every few seconds, until cancelled."""
        while True:
            self._metrics.now("tasks", len(asyncio.all_tasks()))
            self._metrics.now("turns_running", len(core.work.all()))
            self._metrics.now("workers", len(core.workers))
            self._metrics.now("delivery_lanes", core.deliveries.lanes)
            self._metrics.now("events_queued", sum(len(one.waiting) for one in core.workers.all().values()))
            if core.memory is not None:
                await core.memory.gauges()
            await asyncio.sleep(5.0)

    def _stages(self, core: Core) -> Sequence[Stage]:
        drain = self._config.limits.drain_seconds
        return (
            Stage(name="intake", run=self._stop_intake(core), seconds=2.0),
            Stage(name="drain", run=lambda: core.workers.close(drain), seconds=drain + 1.0, hurried=0.1),
            Stage(name="park", run=lambda: park(core), seconds=UNWIND + 2.0),
            Stage(name="flush", run=_flush(core), seconds=FLUSH + 1.0, hurried=1.0),
            Stage(name="memory", run=lambda: memory_left(core.memory), seconds=2.0),
            Stage(name="checkpoint", run=core.store.checkpoint, seconds=5.0),
        )

    def _stop_intake(self, core: Core) -> Any:
        async def stop() -> None:
            core.intake.close()
            self._health.intake_running(False)

        return stop


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


def _serving(config: Config) -> str:
    return f"serving {', '.join(config.enabled()) or 'nothing but health'}"


def _version() -> str:
    try:
        return version("tidings")
    except PackageNotFoundError:
        return "unpackaged"
