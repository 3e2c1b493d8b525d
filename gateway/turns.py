"""From the items of a worker to a turn under a lease: binding, lease, and what happens where one is missing.

Nothing is lost by any error: an event that is not settled stays open in the inbox, the worker tries again,
and after a crash the next start takes it up.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import structlog

from adapters.events import Button, Buttons, ChatAddress, Delivery, DeliveryKind, EventKind, Markdown, MessageEvent
from gateway.convert import event_from_row
from gateway.fetching import fetch_files
from gateway.running import LEASE_TTL
from gateway.work import TurnParts, Work
from gateway.workers import Item
from state.errors import LeaseHeld, LeaseLost, StateError, StoreFull
from state.ids import EventId, SessionKey, TurnId, new_turn_id
from state.owners import describe
from state.records import Fate, Session, SessionBinding, TurnLease, TurnState

log = structlog.get_logger("gateway.turns")

HELD_POLL = 0.5
DEFECTS = 3
"""So often is a turn tried whose handling ends with a defect; a resumed one is counted by its attempts."""
DEFECT = "Something is wrong with me: I could not answer this. It is in the log; please tell my owner."
UNSAVED = (
    "The disk of this machine is full: what you wrote is kept, but I cannot work on it before there is room. "
    "It is answered then."
)


AWAY = "the conversation has moved away"


def part_of(event_id: EventId) -> str:
    """The end of the detail of an event that was one message with another and ended with it."""
    return f" (one message with event {event_id})"


def delivery_of(
    name: str,
    address: ChatAddress,
    text: str,
    reply_to: str | None,
    parts: TurnParts,
    kind: DeliveryKind = DeliveryKind.NOTICE,
) -> Delivery:
    """A delivery of one text. `name` is its id: the same name is never said twice."""
    return Delivery(
        delivery_id=name,
        address=address,
        kind=kind,
        blocks=(Markdown(text=text),),
        created_at=parts.clock.utc(),
        reply_to=reply_to,
    )


def delivery_of_text(name: str, address: ChatAddress, text: str, when: datetime) -> Delivery:
    """A notice that answers no message."""
    return Delivery(
        delivery_id=name, address=address, kind=DeliveryKind.NOTICE, blocks=(Markdown(text=text),), created_at=when
    )


class Turns:
    """Runs turns: one at a time a key (the worker sees to it) and a session (the lease sees to it)."""

    def __init__(self, parts: TurnParts, work: Work) -> None:
        self._p = parts
        self._work = work

    async def run(self, key: SessionKey, items: Sequence[Item]) -> None:
        """Answer the items. Called by the worker of the key; returns when every one of them is settled,
        or is another process's affair, or is parked for the next start."""
        delay, defects = 0.5, 0
        left: Sequence[Item] = items
        while left:
            try:
                await self._attempt(key, left)
            except LeaseLost:
                log.exception("turn.fenced", key=key)
            except StoreFull as error:
                log.exception("store.full", key=key, error=str(error))
                await self._p.deliveries.say_unsaved(left[0].event.address, UNSAVED, left[0].event.message_id or None)
            except StateError as error:
                log.exception("store.unavailable", key=key, error=str(error))
            except Exception:  # the boundary of a turn: a defect is tried again, then told, and never repeated for ever
                log.exception("turn.defect", key=key)
                defects += 1
                if defects >= DEFECTS and left[0].resume is None:
                    await self.end_all(left, Fate.FAILED, "a defect of mine", DEFECT)
                    return
            else:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, 30.0)
            left = await self._refresh(left)

    async def _refresh(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items as the store knows them now: settled ones fall away, begun ones are resumed."""
        fresh: list[Item] = []
        try:
            for item in items:
                row = await self._p.store.inbox.get(item.event_id)
                if row is not None and row.fate is Fate.WAITING:
                    fresh.append(item)
                elif row is not None and row.fate is Fate.RUNNING and row.turn_id is not None:
                    return [Item(event_id=row.id, event=item.event, text=item.text, resume=row.turn_id)]
        except StateError:
            return items
        return fresh

    async def _attempt(self, key: SessionKey, items: Sequence[Item]) -> None:
        if items[0].resume is not None:
            await self._resume(key, items[0], items[0].resume)
            return
        if self._p.overlap.shared:
            items = await self._after_elders(key, items)
            if not items:
                return
            if items[0].resume is not None:
                await self._resume(key, items[0], items[0].resume)
                return
        await fetch_files(self._p.store, self._p.adapters, items, self._shelf)
        binding, session = await self._p.router.resolve(key, items[0].event)
        if session is None:
            await self._moved(binding, items)
            return
        lease = await self._lease(session, new_turn_id(), items)
        if lease is not None:
            await self._work.do(key, session, lease, items)

    async def _after_elders(self, key: SessionKey, items: Sequence[Item]) -> Sequence[Item]:
        """What came before in this conversation comes first, although another daemon had it: that one ends it, or has
        died, and then its turn is taken up here. What is left of the items afterwards."""
        await self._p.overlap.my_turn(self._p.store, key, items)
        for row in await self._p.store.inbox.elders(key, min(item.event_id for item in items)):
            if row.fate is Fate.RUNNING and row.turn_id is not None:
                elder = Item(event_id=row.id, event=event_from_row(row), text="", resume=row.turn_id)
                await self._resume(key, elder, row.turn_id)
        return await self._refresh(items)

    def _shelf(self, event: MessageEvent) -> Path | None:
        """The working folder, for those who may use files where they have written."""
        role = self._p.access.role(event.address.platform, event.sender.id)
        shared = event.address.chat_kind != "private"
        may = role is not None and "files" in self._p.access.rights(role, shared=shared).tools
        return self._p.settings().root if may else None

    async def _resume(self, key: SessionKey, item: Item, turn_id: TurnId) -> None:
        """Take up a turn whose process has died. Another process may have been quicker: then it is theirs."""
        turn = await self._p.store.turns.get(turn_id)
        session = None if turn is None else await self._p.store.sessions.get(turn.session_id)
        if turn is None or session is None or turn.state is not TurnState.RUNNING:
            return
        lease = await self._lease(session, turn_id, [item])
        if lease is None:
            return
        turn = await self._p.store.turns.get(turn_id)
        rows = await self._p.store.inbox.of_turn(turn_id)
        if turn is None or turn.state is not TurnState.RUNNING or not rows:
            await self._p.store.leases.release(lease)
            return
        items = [
            Item(event_id=row.id, event=event_from_row(row), text="", resume=turn_id)
            for row in rows
            if row.fate is Fate.RUNNING
        ]
        await self._work.do(key, session, lease, items or [item], attempts=turn.attempts)

    async def _moved(self, binding: SessionBinding, items: Sequence[Item]) -> None:
        """The conversation was handed off: the message is kept, and the person chooses what becomes of it."""
        first = items[0]
        if first.event.kind is EventKind.INTERNAL:  # a hello that came too late; nobody has said anything
            for item in items:
                await self._p.fates.conclude(item.event_id, item.event, Fate.SILENT, AWAY)
            return
        where = binding.moved_to or "another place"
        told = f"This conversation has moved to {where}. Shall I take it back, or start a new one here?"
        choices = Buttons(
            buttons=(
                Button(id=f"moved-{first.event_id}", label="Take it back", value="back"),
                Button(id=f"moved-{first.event_id}", label="Start a new one", value="new"),
            )
        )
        delivery = delivery_of(
            f"d-e{first.event_id}", first.event.address, told, first.event.message_id or None, self._p
        )
        asked = dataclasses.replace(delivery, blocks=(*delivery.blocks, choices))
        await self._end_with(items, Fate.SILENT, AWAY, asked)

    async def end_all(self, items: Sequence[Item], fate: Fate, detail: str, told: str) -> None:
        """End items without a turn, and say why, in one transaction with the first of them."""
        first = items[0]
        delivery = delivery_of(
            f"d-e{first.event_id}", first.event.address, told, first.event.message_id or None, self._p
        )
        await self._end_with(items, fate, detail, delivery)

    async def _end_with(self, items: Sequence[Item], fate: Fate, detail: str, delivery: Delivery) -> None:
        notice = await self._p.deliveries.compose(delivery)
        first = items[0]
        for item in items:
            why, said = (detail, notice) if item is first else (f"{detail}{part_of(first.event_id)}", None)
            await self._p.fates.conclude(item.event_id, item.event, fate, why, delivery=said)
        self._p.deliveries.wake(notice.chat)

    async def _lease(self, session: Session, turn_id: TurnId, items: Sequence[Item]) -> TurnLease | None:
        """Take the lease; where another process holds the session, say so once and wait for it.

        None where the items were settled meanwhile. A wait over the bound ends them as failed, told.
        """
        event, began, told = items[0].event, self._p.clock.monotonic(), False
        while True:
            try:
                return await self._p.store.leases.acquire(session.id, turn_id, ttl=LEASE_TTL)
            except LeaseHeld as held:
                holder = describe(held.owner)  # type: ignore[arg-type]
            if not told:
                told = True
                log.info("lease.held", session=session.id, by=holder)
                text = f"This conversation is at work elsewhere just now ({holder}). I answer as soon as it is free."
                await self._p.deliveries.say(
                    delivery_of(f"d-held-{items[0].event_id}", event.address, text, event.message_id or None, self._p)
                )
            if self._p.clock.monotonic() - began >= self._p.settings().held_seconds:
                why = f"another place held this conversation for too long ({holder})"
                await self.end_all(items, Fate.FAILED, why, f"I could not answer: {why}. Please ask again.")
                return None
            await asyncio.sleep(HELD_POLL)
            if not await self._refresh(items):
                return None
