"""The core of a process: everything between the adapters and the store, put together once.

The daemon and the terminal are made of the same core, over the same store; they differ in the adapters
they run and in the lock (only the daemon takes one).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import structlog

from adapters.errors import AuthFailed
from adapters.limits import Limits
from adapters.ports import PlatformAdapter
from agent_core.memory.book import Book
from agent_core.memory.snapshot import MemoryFiles
from agent_core.models.ports import Model
from agent_core.ports import Recall
from agent_core.tools.factory import default_registry
from agent_core.tools.memory import MemoryTool
from agent_core.tools.registry import Registry
from agent_core.tools.session_search import SessionSearch
from agent_core.tools.settings import TerminalSettings, ToolSettings, WebSettings
from gateway.access import Access, AccessSettings
from gateway.approvals import Approvals
from gateway.arbiter import Arbiter
from gateway.botloop import BotBreaker
from gateway.commands.control import Control
from gateway.commands.handoff import HandoffCommands
from gateway.commands.memory import MemoryCommands
from gateway.commands.pairing import PairingCommands
from gateway.commands.reload import Reload, ReloadCommand
from gateway.commands.sessions import SessionCommands
from gateway.commands.table import Table
from gateway.config_types import Config
from gateway.conversations import Conversations
from gateway.delivery import Deliveries
from gateway.edits import Edits
from gateway.fates import Fates
from gateway.handoff import Handoffs
from gateway.handoff_target import Targets
from gateway.health import Health
from gateway.heard import Heard
from gateway.in_force import InForce, access_settings, chat_settings, owners_on, worker_limits
from gateway.intake import Intake
from gateway.lifecycle import ExitCode
from gateway.memory import Memory, make_memory
from gateway.metrics import Metrics
from gateway.models import Models
from gateway.pairing import Pairing
from gateway.places import Moves
from gateway.recovery import Recovery
from gateway.router import SessionRouter
from gateway.succession.overlap import Overlap
from gateway.turns import Turns
from gateway.work import TurnParts, Work
from gateway.workers import Item, Workers
from state.clock import Clock
from state.ids import SessionKey
from state.records import InboxEvent
from state.store import Store

log = structlog.get_logger("gateway.core")

BACKGROUND = 1000
"""Background tasks that may run at once; more is a defect and is told."""


class Background:
    """The one place that starts short background tasks: named, owned, bounded, their failures told."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in the background. Its failure is logged and touches nothing else."""
        if len(self._tasks) >= BACKGROUND:
            log.error("background.many", count=len(self._tasks), name=name)
        task = self._group.create_task(self._guard(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _guard(work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception:  # the boundary of a background task: told, and nothing else is touched
            log.exception("background.failed", task=name)

    def cancel(self) -> None:
        """Cancel what is left (the process ends)."""
        for task in list(self._tasks):
            task.cancel()


@dataclass(slots=True, kw_only=True, eq=False)
class Core:
    """The assembled parts. Nothing runs yet but what `spawn` has started."""

    in_force: InForce
    store: Store
    models: Models
    access: Access
    adapters: dict[str, PlatformAdapter]
    arbiter: Arbiter
    deliveries: Deliveries
    approvals: Approvals
    work: Work
    workers: Workers
    intake: Intake
    commands: Table
    conversations: Conversations
    fates: Fates
    recovery: Recovery
    overlap: Overlap
    metrics: Metrics
    health: Health
    background: Background
    moves: Moves
    pairing: Pairing
    handoffs: Handoffs
    targets: Targets
    heard: Heard
    breaker: BotBreaker
    memory: Memory | None

    async def release(self) -> None:
        """Let go of what the parts hold outside the process; the tasks of the composition root have been cancelled."""
        self.background.cancel()
        await self.models.close()
        if self.memory is not None:
            await self.memory.manager.shutdown()

    def take(self, config: Config, made: Mapping[str, Model]) -> list[Model]:
        """Go on with other settings, at once and whole: no await, and nothing in it can fail. `made` is from
        `models.prepare`; the models that are returned are not given to new turns any more.

        Who is vouched for by this process (keys, the terminal's person) stays as it was at the start.
        """
        was = self.access.settings
        self.in_force.take(config)
        self.access.settings = access_settings(config, members=was.members, operators=was.operators)
        self.intake.settings = chat_settings(config)
        self.workers.limits = worker_limits(config)
        self.heard.context_messages = config.chat.context_messages
        self.breaker.rounds = config.chat.bot_rounds
        self.pairing.enabled = config.access.pairing
        return self.models.take(config, made)


def targets_of(
    in_force: InForce, store: Store, adapters: dict[str, PlatformAdapter], access: Access, *, elsewhere: bool
) -> Targets:
    """The places that a session can be handed off to; `elsewhere`: the daemon serves them, not this process."""
    return Targets(store, adapters, in_force.platforms, owners_on(access), in_force.shares, elsewhere=elsewhere)


def make_registry(config: Config, files: MemoryFiles, memory: Memory | None) -> Registry:
    """The tools, within the bounds of the configuration."""
    return default_registry(
        ToolSettings(
            terminal=TerminalSettings(seconds=config.tools.terminal_seconds, never=config.tools.never_run),
            web=WebSettings(allow=frozenset(config.tools.web_private)),
        ),
        more=[
            SessionSearch(files.store),
            MemoryTool(files.book, files.clock, None if memory is None else memory.memory_written),
            *(() if memory is None else memory.tools()),
        ],
    )


_Adapters = dict[str, PlatformAdapter]


class _Common(TypedDict):
    """What several parts are given alike."""

    store: Store
    adapters: dict[str, PlatformAdapter]
    metrics: Metrics
    clock: Clock


class _OfMemory(TypedDict):
    """What a turn has of the memory files and of the external memory."""

    registry: Registry
    recall: Sequence[Recall]
    memory_files: MemoryFiles
    memory: Memory | None


def _of_memory(config: Config, files: MemoryFiles, memory: Memory | None) -> _OfMemory:
    recall = () if memory is None else (memory.manager,)
    registry = make_registry(config, files, memory)
    return {"registry": registry, "recall": recall, "memory_files": files, "memory": memory}


def assemble(
    config: Config,
    store: Store,
    *,
    access: AccessSettings,
    group: asyncio.TaskGroup,
    metrics: Metrics,
    health: Health,
    clock: Clock,
    status: Callable[[], list[str]],
    mine: Callable[[InboxEvent], bool],
    on_auth_failed: Callable[[str, AuthFailed], None] | None = None,
    end: Callable[[str, ExitCode], None] | None = None,
    reload: Reload | None = None,
    daemon: Callable[[], bool] | None = None,
) -> Core:
    """Put the core together. Pure wiring: nothing is opened and nothing runs.

    `daemon`, for a process that is none, tells whether one runs beside it.
    """
    background, in_force, moves, adapters = Background(group), InForce(config), Moves(store), _Adapters()
    models, rules, router = Models(config), Access(access, also=moves.now), SessionRouter(store)
    arbiter = Arbiter(store.holds, clock=clock, metrics=metrics, limits=lambda name: _limits(adapters.get(name)))
    common: _Common = {"store": store, "adapters": adapters, "metrics": metrics, "clock": clock}
    deliveries = Deliveries(**common, arbiter=arbiter, on_auth_failed=on_auth_failed)
    approvals = Approvals(store, deliveries, clock=clock, settings=in_force.approvals)
    put_back, memory_files = list[Workers](), MemoryFiles(Book(config.home, rules.owners), store, clock)
    parts = TurnParts(
        **common,
        access=rules,
        router=router,
        heard=Heard(store, config.chat.context_messages),
        deliveries=deliveries,
        fates=Fates(store, adapters, metrics),
        approvals=approvals,
        **_of_memory(config, memory_files, make_memory(config, store, metrics, background.spawn)),
        models=models.of,
        settings=in_force.turns,
        spawn=background.spawn,
        put_back=lambda key, item: _put_back(put_back[0], key, item),
    )
    work = Work(parts)
    workers = Workers(Turns(parts, work).run, worker_limits(config))
    put_back.append(workers)
    control = Control(parts, work, workers, status, in_force.busy, end)
    targets = targets_of(in_force, store, adapters, rules, elsewhere=daemon is not None)
    pairing, handoffs = Pairing(store, rules, enabled=config.access.pairing), Handoffs(store, deliveries, targets)
    moving = HandoffCommands(parts, work, handoffs, targets, daemon)
    families = SessionCommands(parts, work, workers), PairingCommands(pairing), MemoryCommands(memory_files)
    commands = Table(control, moving, ReloadCommand(reload), *families)
    edits, breaker = Edits(parts, work, workers), BotBreaker(clock, config.chat.bot_rounds)
    intake = Intake(parts, work, workers, edits, commands, chat_settings(config), breaker, pairing)
    return Core(
        in_force=in_force,
        store=store,
        models=models,
        access=rules,
        adapters=adapters,
        arbiter=arbiter,
        deliveries=deliveries,
        approvals=approvals,
        work=work,
        workers=workers,
        intake=intake,
        commands=commands,
        conversations=Conversations(store, router),
        fates=parts.fates,
        recovery=Recovery(store, work, workers, intake, parts.fates, mine, parts.overlap),
        overlap=parts.overlap,
        metrics=metrics,
        health=health,
        background=background,
        moves=moves,
        pairing=pairing,
        handoffs=handoffs,
        targets=targets,
        heard=parts.heard,
        breaker=breaker,
        memory=parts.memory,
    )


def _limits(adapter: PlatformAdapter | None) -> Limits | None:
    return None if adapter is None else adapter.renderer.limits


def _put_back(workers: Workers, key: SessionKey, item: Item) -> None:
    workers.put(key, item, front=True)
