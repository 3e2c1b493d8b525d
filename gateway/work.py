"""A turn under its lease: run the loop, and commit its end in one transaction.

Everything that ends a turn from outside goes through `Running.end`; what follows is decided here.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from adapters import registry
from adapters.events import Delivery, DeliveryKind, EventKind, Markdown, MessageEvent
from adapters.ports import MayBeUnattended, PlatformAdapter
from agent_core.loop import Budget, Final, TurnContext, abandon, run_turn
from agent_core.memory.snapshot import MemoryFiles
from agent_core.models.ports import Model
from agent_core.ports import Input, Recall
from agent_core.prompt import PromptSettings
from agent_core.tools.registry import Registry
from gateway.access import Access
from gateway.approvals import Approvals
from gateway.audience import viewer_of
from gateway.delivery import Deliveries
from gateway.fates import Fates
from gateway.heard import Heard
from gateway.inputs import build_input
from gateway.ledger import Ledger
from gateway.memory import Memory
from gateway.metrics import Metrics
from gateway.posting import TurnPost
from gateway.router import SessionRouter
from gateway.running import LEASE_TTL, Running, SteeringQueue, keep_lease
from gateway.streaming import TurnStream
from gateway.succession.overlap import Overlap
from gateway.watch import TurnWatch
from gateway.workers import Item
from state.clock import Clock
from state.errors import LeaseLost, StoreBusy, StoreFull
from state.ids import EventId, SessionKey
from state.records import Fate, NewDelivery, Session, TurnLease, TurnState
from state.store import Store

log = structlog.get_logger("gateway.work")

STOPPED_MARK = "\n\n*(stopped)*"
UNWIND = 10.0
"""Seconds that a cancelled loop has to end its tools."""

FATES = {
    TurnState.ANSWERED: Fate.ANSWERED,
    TurnState.INTERRUPTED: Fate.CANCELLED,
    TurnState.FAILED: Fate.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """`turn_seconds` bounds a turn, `held_seconds` the wait for a session that another process holds;
    an event that has ended the process `crashes` times is given up."""

    home: Path
    root: Path
    budget: Budget
    prompt: PromptSettings
    disabled: frozenset[str] = frozenset()
    turn_seconds: float = 1800.0
    held_seconds: float = 1800.0
    crashes: int = 2


Spawn = Callable[[Coroutine[Any, Any, None], str], None]
"""Starts a bounded background task that the composition root owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnParts:
    """The collaborators, made by the composition root."""

    store: Store
    access: Access
    router: SessionRouter
    heard: Heard
    deliveries: Deliveries
    fates: Fates
    approvals: Approvals
    registry: Registry
    models: Callable[[Session], Sequence[Model]]
    adapters: Mapping[str, PlatformAdapter]
    metrics: Metrics
    clock: Clock
    settings: Callable[[], TurnSettings]
    spawn: Spawn
    put_back: Callable[[SessionKey, Item], None]
    recall: Sequence[Recall] = ()
    memory: Memory | None = None
    memory_files: MemoryFiles | None = None
    overlap: Overlap = field(default_factory=Overlap)


class Work:
    """Runs turns under their leases and knows which run."""

    def __init__(self, parts: TurnParts) -> None:
        self._p = parts
        self._running: dict[SessionKey, Running] = {}

    def running(self, key: SessionKey) -> Running | None:
        """The turn that runs in this chat, where one does."""
        return self._running.get(key)

    def all(self) -> Mapping[SessionKey, Running]:
        """The live table."""
        return self._running

    async def do(
        self, key: SessionKey, session: Session, lease: TurnLease, items: Sequence[Item], *, attempts: int = 0
    ) -> None:
        """Run the turn to its committed end. `attempts` is how often it was begun before (a resume).

        Raises `LeaseLost` where the turn is not ours any more, and other `StateError`s where the end could
        not be committed: then the turn is still RUNNING in the store and will be resumed.
        """
        parts, event = self._p, items[0].event
        steering = SteeringQueue(parts.access, shared=event.address.chat_kind != "private")
        for item in items:
            steering.joins(item)
        running = Running(
            key=key,
            session_id=session.id,
            turn_id=lease.turn_id,
            items=items,
            steering=steering,
            started=parts.clock.monotonic(),
        )
        self._running[key] = running
        self._begun(running, attempts)
        keeper = asyncio.create_task(
            keep_lease(parts.store, lease, running, parts.clock, parts.metrics), name=f"lease:{lease.turn_id}"
        )
        try:
            await self._under_lease(running, session, lease, attempts)
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            del self._running[key]
            running.done.set()
            self._ended(running)
            await asyncio.shield(self._afterwards(running, lease))

    def _begun(self, running: Running, attempts: int) -> None:
        parts, first = self._p, running.items[0]
        now = parts.clock.utc()
        if first.resume is None:
            for item in running.items:
                waited = max(0.0, (now - item.event.received_at).total_seconds())
                parts.metrics.queued(waited)
                began, parent = item.event.received_at, f"event:{item.event_id}"
                parts.metrics.spans.done(
                    "dispatch", began=began, seconds=waited, parent=parent, event=item.event_id, turn=running.turn_id
                )
        parts.metrics.spans.begin(
            "turn",
            f"turn:{running.turn_id}",
            parent=f"event:{first.event_id}",
            event=first.event_id,
            turn=running.turn_id,
            session=running.session_id,
            platform=first.event.address.platform,
            attempts=attempts,
        )

    def _ended(self, running: Running) -> None:
        parts, outcome = self._p, running.outcome or ("lost" if running.lost else "open")
        parts.metrics.turn(parts.clock.monotonic() - running.started, outcome)
        failed = "" if running.outcome == TurnState.ANSWERED.value else outcome
        parts.metrics.spans.end(f"turn:{running.turn_id}", failed=failed, outcome=outcome)

    async def _under_lease(self, running: Running, session: Session, lease: TurnLease, attempts: int) -> None:
        parts, event = self._p, running.items[0].event
        resume = running.items[0].resume is not None
        drafts = await parts.store.outbox.drafts_of(lease.turn_id) if resume else []
        running.post = TurnPost(parts.store, parts.deliveries, lease, event.address, event.message_id or None)
        if resume:
            await running.post.recall()
        stream = TurnStream(
            parts.deliveries,
            parts.adapters.get(event.address.platform),
            address=event.address,
            reply_to=event.message_id,
            lease=lease,
            received_at=event.received_at,
            draft=drafts[0] if drafts else None,
            hidden=running.post.may_become_repeat,
        )
        models = parts.models(session)
        async with stream:
            context = await self._context(running, session, lease, stream, models, resume=resume)
            if resume and attempts >= parts.settings().crashes:
                final: Final | None = dataclasses.replace(
                    await abandon(context, "this message has ended the daemon twice, so I do not try it again"),
                    state=TurnState.FAILED,
                )
            else:
                final = await self._think(running, context, lease)
        if final is None:
            return
        if parts.memory is not None and final.state is TurnState.ANSWERED:
            final = dataclasses.replace(final, text=final.text + parts.memory.notice(session.id))
        delivery = await self._say(running, lease, final, stream)
        await self._commit(running, lease, final, delivery)
        for model in models[:1]:
            parts.spawn(model.turn_ended(), f"turn-ended:{lease.turn_id}")

    async def _context(
        self,
        running: Running,
        session: Session,
        lease: TurnLease,
        stream: TurnStream,
        models: Sequence[Model],
        *,
        resume: bool,
    ) -> TurnContext:
        parts, event, settings = self._p, running.items[0].event, self._p.settings()
        adapter = parts.adapters.get(event.address.platform)
        shared = event.address.chat_kind != "private"
        inputs: tuple[Input, ...] = ()
        aside = await parts.heard.before(running.key, running.items[0].event_id, event)
        running.steering.hears(aside.people)  # of a resumed turn too: what it was shown is in its transcript
        if not resume:
            inputs = (await build_input(running.items, shared=shared, aside=aside.notes),)
        return TurnContext(
            store=parts.store,
            lease=lease,
            key=running.key,
            session=session,
            inputs=inputs,
            resume=resume,
            history=tuple((item.role, item.text) for item in event.history),
            instructions=event.instructions,
            models=models,
            registry=parts.registry,
            emit=stream.emit,
            steering=running.steering,
            ask=parts.approvals.for_turn(
                lease,
                event.address,
                sender_id=event.sender.id,
                reply_to=event.message_id or None,
                attended=not isinstance(adapter, MayBeUnattended) or adapter.attended(event.address, event.message_id),
            ),
            processes=Ledger(parts.store, lease),
            post=running.post,
            viewer=viewer_of(event),
            recall=self._recall(event),
            standing=() if parts.memory is None else (parts.memory.manager,),
            memory=parts.memory_files,
            home=settings.home,
            root=settings.root,
            budget=settings.budget,
            prompt=dataclasses.replace(settings.prompt, hint=hint_for(event.address.platform)),
            disabled=settings.disabled,
            clock=parts.clock,
            watch=TurnWatch(parts.metrics, parts.clock, lease.turn_id),
        )

    def _recall(self, event: MessageEvent) -> Sequence[Recall]:
        """Who is asked for background: nobody for what the gateway itself says."""
        parts = self._p
        if event.kind is EventKind.INTERNAL:
            return ()
        return parts.recall if parts.memory_files is None else (parts.memory_files, *parts.recall)

    async def _think(self, running: Running, context: TurnContext, lease: TurnLease) -> Final | None:
        """Run the loop until it ends or is ended. None: the turn is parked for the next start."""
        task: asyncio.Task[Final] = asyncio.create_task(run_turn(context), name=f"turn:{lease.turn_id}")
        running.task = task
        if running.reason is not None:  # ended before it began
            task.cancel()
        try:
            await asyncio.wait([task], timeout=self._p.settings().turn_seconds)
        except asyncio.CancelledError:  # the process ends: the turn stays open in the store
            task.cancel()
            await asyncio.wait([task], timeout=UNWIND)
            raise
        if not task.done():
            running.end("it took longer than a turn may take")
            await asyncio.wait([task], timeout=UNWIND)
        if not task.done():
            log.error("turn.stuck", turn=lease.turn_id)
        elif not task.cancelled():
            return task.result()
        if running.lost:
            raise LeaseLost
        if running.park:
            await self._p.store.turns.park(lease, running.reason or "")
            return None
        return await abandon(context, running.reason or "it was stopped")

    async def _say(self, running: Running, lease: TurnLease, final: Final, stream: TurnStream) -> NewDelivery | None:
        """What is said at the end. A draft that people have seen is always completed."""
        event, text = running.items[0].event, final.text
        if final.state is TurnState.INTERRUPTED and running.quiet:
            text = stream.text + STOPPED_MARK if stream.draft is not None else ""
        if stream.draft is None and running.post is not None and running.post.repeats(text):
            text = ""  # it was sent with the tool already: one copy is what was meant (B29)
        if not text:
            return None
        delivery = Delivery(
            delivery_id=f"d-{lease.turn_id}",
            address=event.address,
            kind=DeliveryKind.FINAL,
            blocks=(Markdown(text=text),),
            created_at=self._p.clock.utc(),
            reply_to=event.message_id or None,
        )
        return await self._p.deliveries.compose(delivery, adopts=stream.draft)

    async def _commit(self, running: Running, lease: TurnLease, final: Final, delivery: NewDelivery | None) -> None:
        """The final transaction: rows, outbox, fates, the end of the turn and of the lease, together."""
        parts, items = self._p, running.items
        fate = FATES[final.state]
        others = Fate.MERGED if fate is Fate.ANSWERED else fate
        fates: list[tuple[EventId, Fate, str]] = [
            (items[0].event_id, fate, final.detail),
            *((item.event_id, others, f"one message with event {items[0].event_id}") for item in items[1:]),
        ]
        running.committing = True
        viewer, own = viewer_of(items[0].event), items[0].event.kind is EventKind.INTERNAL
        remember = None if parts.memory is None or own else parts.memory.of_turn(lease, viewer, final)
        await self._persist(
            lambda: parts.store.turns.finish(
                lease,
                state=final.state,
                rows=final.rows,
                fates=fates,
                delivery=delivery,
                detail=final.detail,
                remember=remember,
            )
        )
        if parts.memory is not None and remember is not None:
            parts.memory.turn_ended(lease.session_id, "\n".join(item.text for item in items if item.text), viewer)
        await parts.approvals.ended(lease.turn_id)
        if delivery is not None:
            parts.deliveries.wake(delivery.chat)
        running.outcome = final.state.value
        for item, (_, item_fate, detail) in zip(items, fates, strict=True):
            parts.fates.announce(item.event.address, item.event.message_id, item_fate, detail)

    async def _persist(self, write: Callable[[], Awaitable[object]]) -> None:
        """Carry an outcome into the store although it is busy or full at the moment, within the lease."""
        until = self._p.clock.monotonic() + LEASE_TTL
        delay = 0.1
        while True:
            try:
                await write()
            except (StoreBusy, StoreFull) as error:
                if self._p.clock.monotonic() >= until:
                    raise
                log.warning("store.retry", error=str(error))
            else:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, 2.0)

    async def _afterwards(self, running: Running, lease: TurnLease) -> None:
        """Release the lease and put back what wanted to join the turn and did not."""
        store = self._p.store
        await store.leases.release(lease)
        for item in running.steering.leftovers():
            row = await store.inbox.get(item.event_id)
            if row is None:
                continue
            if row.fate is Fate.WAITING:
                item.mode = "queue"
                self._p.put_back(running.key, item)
            else:
                self._p.fates.announce(item.event.address, item.event.message_id, row.fate, row.detail)


def hint_for(platform: str) -> str:
    """One line of the prompt about where the answers are shown."""
    manifest = registry.manifests().get(platform)
    title = manifest.title if manifest is not None and manifest.title else platform
    return f"Your answers are shown on: {title}. Write markdown; it is rendered for that place."
