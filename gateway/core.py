"""The core of a process: everything between the adapters and the store, put together once.

The daemon and the terminal are made of the same core, over the same store; they differ in the adapters
they run and in the lock (only the daemon takes one).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import structlog

from adapters.errors import AuthFailed
from adapters.events import ChatAddress
from adapters.limits import Limits
from adapters.ports import PlatformAdapter
from agent_core.errors import ModelError
from agent_core.loop import Budget
from agent_core.models.factory import make_model
from agent_core.models.ports import Model, Warmable
from agent_core.prompt import PromptSettings
from agent_core.tools.factory import default_registry
from agent_core.tools.registry import Registry
from agent_core.tools.settings import TerminalSettings, ToolSettings, WebSettings
from gateway.access import Access, AccessSettings
from gateway.approvals import Approvals, ApprovalSettings
from gateway.arbiter import Arbiter
from gateway.botloop import BotBreaker
from gateway.commands.control import Control
from gateway.commands.handoff import HandoffCommands
from gateway.commands.pairing import PairingCommands
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
from gateway.intake import ChatSettings, Intake, OneChat
from gateway.keys import Share
from gateway.metrics import Metrics
from gateway.pairing import Pairing
from gateway.places import Moves
from gateway.recovery import Recovery
from gateway.router import SessionRouter
from gateway.turns import Turns
from gateway.work import TurnParts, TurnSettings, Work
from gateway.workers import Item, WorkerLimits, Workers
from state.clock import Clock
from state.ids import SessionKey
from state.records import InboxEvent, Session
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


class Models:
    """The configured models, each made when it is first needed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, Model] = {}

    def names(self) -> list[str]:
        """The names that a client may ask for; the first is the default."""
        return [self._config.model.name, *(n for n in self._config.models if n != self._config.model.name)]

    def _get(self, name: str | None) -> Model:
        key = name if name is not None and name in self._config.models else ""
        model = self._made.get(key)
        if model is None:
            settings = self._config.models[key] if key else self._config.model
            model = self._made[key] = make_model(settings, home=self._config.home)
        return model

    def of(self, session: Session) -> Sequence[Model]:
        """The session's model first, then its fall-backs."""
        return [self._get(session.model), *(self._get(name) for name in self._config.fallbacks)]

    async def warm(self) -> None:
        """Make the default model ready beside the first messages, so that the first turn need not wait for
        an import or a server. Its failure is no fault: the turn will meet it and tell it."""
        model = self._get(None)
        if not isinstance(model, Warmable):
            return
        try:
            await model.warm()
        except ModelError as error:
            log.warning("model.not_ready", model=self._config.model.name, error=str(error))

    async def close(self) -> None:
        """Release what they hold."""
        for model in self._made.values():
            await model.close()


@dataclass(slots=True, kw_only=True, eq=False)
class Core:
    """The assembled parts. Nothing runs yet but what `spawn` has started."""

    config: Config
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
    metrics: Metrics
    health: Health
    background: Background
    moves: Moves
    pairing: Pairing
    handoffs: Handoffs
    targets: Targets


def access_settings(
    config: Config, *, members: frozenset[str] = frozenset(), operators: frozenset[str] = frozenset()
) -> AccessSettings:
    """The access rules of the configuration. `members` and `operators` are persons that an adapter of this
    process vouches for."""
    tools = config.tools
    return AccessSettings(
        owners=frozenset(config.access.owners),
        allow={name: frozenset(getattr(settings, "allow", ())) for name, settings in config.platforms.items()},
        members=members,
        operators=operators,
        guest_tools=frozenset(tools.guests),
        member_tools=frozenset(tools.members),
        owner_tools=frozenset(tools.owners),
        group_tools=frozenset(tools.groups),
        disabled_tools=frozenset(tools.disabled),
        group_answers="all" if config.chat.group_answers == "all" else "addressed",
        free_chats=frozenset(name for name, chat in config.chat.chats.items() if chat.answers == "all"),
        addressed_chats=frozenset(name for name, chat in config.chat.chats.items() if chat.answers == "addressed"),
        names=config.chat.names,
        bots=frozenset(config.chat.allow_bots),
    )


def turn_settings(config: Config) -> TurnSettings:
    """The bounds of turns as configured."""
    limits = config.limits
    return TurnSettings(
        home=config.home,
        root=config.root,
        budget=Budget(iterations=limits.iterations, retry_seconds=limits.retry_seconds),
        prompt=PromptSettings(),
        disabled=frozenset(config.tools.disabled),
        turn_seconds=limits.turn_seconds,
    )


def chat_settings(config: Config) -> ChatSettings:
    """How chats behave, as configured."""
    chat = config.chat
    return ChatSettings(
        busy=chat.busy,
        groups=chat.group_sessions,
        threads=chat.thread_sessions,
        collect_hold=chat.collect_seconds,
        part_hold=chat.paste_seconds,
        longest=config.limits.message_chars,
        chats={name: OneChat(busy=one.busy, sessions=one.sessions) for name, one in chat.chats.items()},
    )


def owners_on(access: Access) -> Callable[[str], list[str]]:
    """The ids of the owners on a platform, by the lists as they are now."""

    def owners(platform: str) -> list[str]:
        people = (person.partition(":") for person in sorted(access.settings.owners))
        return [sender for name, _, sender in people if name == platform]

    return owners


def shares_of(config: Config) -> Callable[[ChatAddress], tuple[Share, Share]]:
    """How lines are shared at an address (groups, threads), as `intake` does it."""
    chat = chat_settings(config)
    return lambda address: (chat.of(address).sessions or chat.groups, chat.threads)


def targets_of(
    config: Config, store: Store, adapters: dict[str, PlatformAdapter], access: Access, *, elsewhere: bool
) -> Targets:
    """The places that a session can be handed off to; `elsewhere`: the daemon serves them, not this process."""
    return Targets(store, adapters, config.platforms, owners_on(access), shares_of(config), elsewhere=elsewhere)


def worker_limits(config: Config) -> WorkerLimits:
    """How much may wait and run, as configured."""
    return WorkerLimits(queue=config.limits.queue_per_chat, turns=config.limits.concurrent_turns)


def make_registry(config: Config) -> Registry:
    """The tools, within the bounds of the configuration."""
    return default_registry(
        ToolSettings(
            terminal=TerminalSettings(seconds=config.tools.terminal_seconds),
            web=WebSettings(allow=frozenset(config.tools.web_private)),
        )
    )


class _Common(TypedDict):
    """What several parts are given alike."""

    store: Store
    adapters: dict[str, PlatformAdapter]
    metrics: Metrics
    clock: Clock


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
    restart: Callable[[str], None] | None = None,
    daemon: Callable[[], bool] | None = None,
) -> Core:
    """Put the core together. Pure wiring: nothing is opened and nothing runs.

    `daemon`, for a process that is none, tells whether one runs beside it.
    """
    background = Background(group)
    adapters: dict[str, PlatformAdapter] = {}
    moves = Moves(store)
    models, rules, router = Models(config), Access(access, also=moves.now), SessionRouter(store)
    arbiter = Arbiter(store.holds, clock=clock, metrics=metrics, limits=lambda name: _limits(adapters.get(name)))
    common: _Common = {"store": store, "adapters": adapters, "metrics": metrics, "clock": clock}
    deliveries = Deliveries(**common, arbiter=arbiter, on_auth_failed=on_auth_failed)
    asking = ApprovalSettings(mode=config.tools.approvals, ttl=config.limits.approval_seconds)
    approvals = Approvals(store, deliveries, clock=clock, settings=asking)
    settings = turn_settings(config)
    put_back: list[Workers] = []
    parts = TurnParts(
        **common,
        access=rules,
        router=router,
        heard=Heard(store, config.chat.context_messages),
        deliveries=deliveries,
        fates=Fates(store, adapters, metrics),
        approvals=approvals,
        registry=make_registry(config),
        models=models.of,
        settings=lambda: settings,
        spawn=background.spawn,
        put_back=lambda key, item: _put_back(put_back[0], key, item),
    )
    work = Work(parts)
    workers = Workers(Turns(parts, work).run, worker_limits(config))
    put_back.append(workers)
    control = Control(parts, work, workers, status, lambda: config.chat.busy, restart)
    pairing = Pairing(store, rules, enabled=config.access.pairing)
    targets = targets_of(config, store, adapters, rules, elsewhere=daemon is not None)
    handoffs = Handoffs(store, deliveries, targets)
    moving = HandoffCommands(parts, work, handoffs, targets, daemon)
    commands = Table(control, moving, SessionCommands(parts, work, workers), PairingCommands(pairing))
    edits, breaker = Edits(parts, work, workers), BotBreaker(clock, config.chat.bot_rounds)
    intake = Intake(parts, work, workers, edits, commands, chat_settings(config), breaker, pairing)
    return Core(
        config=config,
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
        recovery=Recovery(store, work, workers, intake, parts.fates, mine),
        metrics=metrics,
        health=health,
        background=background,
        moves=moves,
        pairing=pairing,
        handoffs=handoffs,
        targets=targets,
    )


def _limits(adapter: PlatformAdapter | None) -> Limits | None:
    return None if adapter is None else adapter.renderer.limits


def _put_back(workers: Workers, key: SessionKey, item: Item) -> None:
    workers.put(key, item, front=True)
