"""Taking over a changed configuration while everything runs: whole or not at all.

The file is read, checked and prepared for first (new adapters are made, a listener is opened); nothing of that
touches what runs, and any fault ends it there. Then everything is switched between two steps of the event loop,
and only then are the platforms whose own settings have changed ended and begun, each alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from adapters.ports import PlatformAdapter
from agent_core.models.ports import Model
from gateway import log as logs
from gateway.config_faults import ConfigError
from gateway.config_types import Config
from gateway.core import Core
from gateway.httpd import HttpdError, HttpServer
from gateway.platforms import Platforms, routes_of
from gateway.reload_plan import Plan, plan

log = structlog.get_logger("gateway.reload")

RESULT = "reload.json"
LOAD = 30.0
"""Seconds for reading and checking the file."""
NOT_USED = "the daemon goes on with what it had"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What became of a reload. Holds keys and sentences, never values of secrets."""

    pid: int
    began: float
    """Of the machine's monotonic clock: whoever has asked before it knows that it is the answer."""
    faults: tuple[str, ...] = ()
    """Why nothing was taken over."""
    changed: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    """What has changed in the file and needs a restart."""
    restarted: tuple[str, ...] = ()
    """Platforms that were begun anew, begun or ended."""
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The same for people."""
        if self.faults:
            return [f"Nothing was taken over; {NOT_USED}.", *self.faults]
        told = [f"Taken over: {', '.join(self.changed)}." if self.changed else "Nothing was to be taken over."]
        if self.restarted:
            told.append(f"Begun anew: {', '.join(self.restarted)}.")
        if self.later:
            told.append(f"Needs a restart: {', '.join(self.later)}.")
        return told + [f"Warning: {warning}" for warning in self.warnings]


class Reloader:
    """One a daemon. `asked` may be set at any time (a signal); `reload` may be called by anybody (a chat)."""

    def __init__(
        self,
        core: Core,
        platforms: Platforms,
        server: HttpServer,
        load: Callable[[], Config],
        asked: asyncio.Event,
        applied: Callable[[Config], None],
        stopping: Callable[[], bool],
    ) -> None:
        """`load` reads the file (blocking); `applied` is told what is in force from now on; while the process is
        `stopping` nothing is taken over."""
        self._core = core
        self._platforms = platforms
        self._server = server
        self._load = load
        self._asked = asked
        self._applied = applied
        self._stopping = stopping
        self._one = asyncio.Lock()

    async def run(self) -> None:
        """Reload whenever that is asked for, until cancelled. A task of the composition root."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.reload("a signal")

    async def reload(self, why: str) -> Reloaded:
        """Read the file and take it over, or change nothing. Never raises but for its own cancellation."""
        async with self._one:
            began = time.monotonic()
            log.info("config.reload", why=why, file=str(self._core.in_force.config.file))
            result = await self._guarded(began)
            if result.faults:
                log.error("config.not_reloaded", faults=list(result.faults), so=NOT_USED)
            else:
                log.info(
                    "config.reloaded",
                    changed=list(result.changed),
                    needs_restart=list(result.later),
                    platforms=list(result.restarted),
                )
            for warning in result.warnings:
                log.warning("config.warning", warning=warning)
            await asyncio.to_thread(_write, self._core.in_force.config.home / RESULT, result)
            return result

    async def _guarded(self, began: float) -> Reloaded:
        try:
            ready = await self._prepare()
        except ConfigError as error:
            return _refused(began, *error.lines())
        except TimeoutError:
            return _refused(began, f"the configuration could not be read within {LOAD:g} s")
        except (HttpdError, ImportError, ValueError, OSError) as error:
            return _refused(began, logs.redactor().text(str(error)))
        except Exception as error:  # the boundary of a reload: its defect must not end what runs
            log.exception("config.reload_defect")
            return _refused(began, f"a defect of mine ({type(error).__name__}); it is in the log")
        if self._stopping():
            return _refused(began, "the daemon is ending")
        return await self._take(began, *ready)

    async def _prepare(self) -> tuple[Plan, dict[str, Model], dict[str, PlatformAdapter]]:
        async with asyncio.timeout(LOAD):
            new = await asyncio.to_thread(self._load)
        way = plan(self._core.in_force.config, new)
        made = await asyncio.to_thread(self._core.models.prepare, way.config)
        adapters = {name: await self._platforms.make(way.config, name) for name in way.begin}
        staying = [one for name, one in self._core.adapters.items() if name not in way.end]
        public = [route for route in routes_of([*staying, *adapters.values()]) if route.public]
        await self._server.listen_for(public)
        return way, made, adapters

    async def _take(
        self, began: float, way: Plan, made: dict[str, Model], adapters: dict[str, PlatformAdapter]
    ) -> Reloaded:
        core, config = self._core, way.config
        # no await before the table of adapters is whole again: nobody sees the half of it
        gone = core.take(config, made)
        logs.change(level=config.log.level, format=config.log.format, secrets=config.secrets, file=config.log_file())
        for name in way.end:
            core.adapters.pop(name, None)
            core.deliveries.pause(name)
            core.health.gone(name)
        core.adapters.update(adapters)
        for name in adapters:
            core.health.starting(name)
        self._server.publish([route for route in routes_of(list(core.adapters.values())) if route.public])
        self._applied(config)
        if gone:
            core.background.spawn(self._close(gone), "models:close")
        if "" in made:
            core.background.spawn(core.models.warm(), "warm-up")
        self._platforms.wake()
        async with asyncio.TaskGroup() as group:
            for name in dict.fromkeys((*way.end, *way.begin)):
                group.create_task(self._turn_over(config, name, begin=name in adapters), name=f"reload:{name}")
        return Reloaded(
            pid=os.getpid(),
            began=began,
            changed=way.changed,
            later=way.later,
            restarted=tuple(dict.fromkeys((*way.end, *way.begin))),
            warnings=config.warnings,
        )

    async def _turn_over(self, config: Config, name: str, *, begin: bool) -> None:
        await self._platforms.end(name)
        if begin:
            self._platforms.start(config, name)

    async def _close(self, gone: list[Model]) -> None:
        """Close models that nobody new is given, once the turns that have them are over."""
        for running in list(self._core.work.all().values()):
            await running.done.wait()
        await self._core.models.release(gone)


def _refused(began: float, *faults: str) -> Reloaded:
    return Reloaded(pid=os.getpid(), began=began, faults=faults)


def _write(path: Path, result: Reloaded) -> None:
    """For whoever has sent the signal. A disk that is full costs that answer and nothing else."""
    draft = path.with_name(f".{path.name}")
    try:
        draft.write_text(json.dumps(asdict(result), ensure_ascii=False), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        log.warning("config.reload_not_noted", error=str(error))


def read_result(home: Path) -> Reloaded | None:
    """What the daemon of that home has noted last. Blocking; None where there is nothing that can be read."""
    try:
        data = json.loads((home / RESULT).read_text(encoding="utf-8"))
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return Reloaded(**{**data, **lists})
    except (OSError, ValueError, TypeError):
        return None
