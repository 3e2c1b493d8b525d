"""What the tests of the way out share: a real store, the pump, and memory platforms whose faults they choose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adapters.events import ChatAddress, Delivery, DeliveryKind, Markdown, MessageEvent
from adapters.memory.adapter import BareMemoryAdapter, MemoryAdapter
from adapters.ports import Accepted
from gateway.arbiter import Arbiter
from gateway.convert import address_to_json
from gateway.delivery import Deliveries
from gateway.keys import chat_queue, session_key
from gateway.metrics import Metrics
from gateway.sending import DeliverySettings
from state.clock import SteppedClock
from state.ids import Owner, TurnId
from state.records import (
    DeliveryState,
    Fate,
    NewDelivery,
    NewEvent,
    NewMessage,
    StoredDelivery,
    TurnLease,
    TurnState,
)
from state.store import Store

SETTINGS = DeliverySettings(unknown_seconds=0.0)


class NoInbox:
    """Nobody speaks in these tests."""

    async def accept(self, event: MessageEvent) -> Accepted:
        """Never called."""
        raise AssertionError(event)


@dataclass(slots=True, kw_only=True, eq=False)
class Rig:
    """One process: its store, pump and platforms."""

    store: Store
    clock: SteppedClock
    metrics: Metrics
    arbiter: Arbiter
    deliveries: Deliveries
    adapters: dict[str, BareMemoryAdapter]
    refused: list[str]

    async def say(
        self,
        delivery_id: str,
        text: str,
        address: ChatAddress,
        *,
        kind: DeliveryKind = DeliveryKind.FINAL,
        reply_to: str | None = None,
    ) -> bool:
        """Something to be said; returns when it is committed."""
        return await self.deliveries.say(
            Delivery(
                delivery_id=delivery_id,
                address=address,
                kind=kind,
                blocks=(Markdown(text=text),),
                created_at=self.clock.utc(),
                reply_to=reply_to,
            )
        )

    async def quiet(self) -> None:
        """Until the pump can do nothing more."""
        assert await self.deliveries.flush(30.0) == 0

    async def nearly(self, seconds: float) -> None:
        """Let time pass to a moment at which the pump waits for something that is near."""
        self.clock.advance(seconds)
        self.arbiter.nudge()
        self.deliveries.wake()
        await asyncio.sleep(0.02)

    async def later(self, seconds: float) -> None:
        """Let time pass, and the pump do what is due then."""
        self.clock.advance(seconds)
        self.arbiter.nudge()
        self.deliveries.wake()
        await self.quiet()

    async def state(self, delivery_id: str) -> StoredDelivery:
        """The delivery as it stands."""
        found = await self.deliveries.said(delivery_id)  # type: ignore[arg-type]
        assert found is not None
        return found

    async def lease(self, address: ChatAddress, message_id: str = "in-1") -> TurnLease:
        """A running turn that answers a message there."""
        key = session_key(address)
        event = await self.store.inbox.accept(
            NewEvent(
                dedup_id=message_id,
                platform=address.platform,
                account=address.account,
                kind="message",
                key=key,
                message_id=message_id,
                sender_id="ann",
                payload="{}",
                received_at=self.clock.utc(),
            )
        )
        claim = await self.store.sessions.claim(key, self.store.owner, address_to_json(address))
        _, session = await self.store.sessions.activate(key, claim.version, person="memory:ann")
        lease = await self.store.leases.acquire(session.id, TurnId(f"t-{message_id}"))
        await self.store.turns.begin(lease, key, [event.event_id], [NewMessage(role="user", content="hi", wire="{}")])
        return lease

    async def finish(self, lease: TurnLease, delivery: NewDelivery) -> None:
        """The final transaction of a turn."""
        events = await self.store.inbox.of_turn(lease.turn_id)
        await self.store.turns.finish(
            lease,
            state=TurnState.ANSWERED,
            rows=[NewMessage(role="assistant", content="done", wire="{}")],
            fates=[(event.id, Fate.ANSWERED, "") for event in events],
            delivery=delivery,
        )
        self.deliveries.wake(delivery.chat)


@asynccontextmanager
async def connect(*adapters: BareMemoryAdapter) -> AsyncIterator[None]:
    """Platforms that serve; they live longer than a process of ours."""
    tasks = []
    for adapter in adapters:
        ready = asyncio.Event()
        tasks.append(asyncio.create_task(adapter.run(NoInbox(), ready.set), name="adapter"))
        await ready.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def process(
    path: Path,
    *adapters: BareMemoryAdapter,
    clock: SteppedClock | None = None,
    name: str = "one",
    settings: DeliverySettings = SETTINGS,
    resume: bool = True,
    pump: bool = True,
) -> AsyncIterator[Rig]:
    """A process of ours over the store at `path`. Earlier processes, by another name, are dead for it."""
    clock = clock or SteppedClock()
    owner = Owner(f"daemon:host:1:{name}")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(path, owner=owner, clock=clock))
        metrics, refused = Metrics(), []
        table = {adapter.platform: adapter for adapter in adapters}
        arbiter = Arbiter(store.holds, clock, metrics, lambda platform: table[platform].renderer.limits)
        deliveries = Deliveries(
            store=store,
            adapters=table,
            arbiter=arbiter,
            metrics=metrics,
            clock=clock,
            settings=settings,
            owner_alive=lambda one: one == owner,
            on_auth_failed=lambda platform, error: refused.append(platform),
        )
        rig = Rig(
            store=store,
            clock=clock,
            metrics=metrics,
            arbiter=arbiter,
            deliveries=deliveries,
            adapters=table,
            refused=refused,
        )
        task = asyncio.create_task(deliveries.run(), name="deliveries") if pump else None
        while pump and not deliveries._running:
            await asyncio.sleep(0.001)
        if resume:
            for adapter in adapters:
                deliveries.resume(adapter.platform)
        try:
            yield rig
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert deliveries.lanes == 0


def room(chat: str = "c", thread: str | None = None, platform: str = "memory") -> ChatAddress:
    """An address there."""
    return ChatAddress(platform=platform, account="bot", chat_id=chat, thread_id=thread)


def queue(chat: str = "c") -> str:
    """The arbiter's name for it."""
    return chat_queue(room(chat))


__all__ = ["DeliveryState", "MemoryAdapter", "Rig", "connect", "process", "queue", "room"]
