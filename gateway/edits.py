"""Edits and deletions as control of turns, the same on every platform.

An edit before its turn replaces the text; during the turn it joins it; after it, it counts from the next
message on. A deletion cancels exactly what the message started, if that still waits or runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from adapters.events import EventKind
from gateway.convert import event_from_row, event_to_json
from gateway.inputs import build_input
from gateway.router import CORRECTION
from gateway.work import TurnParts, Work
from gateway.workers import Item, Workers
from state.ids import EventId, SessionKey
from state.records import Fate, InboxEvent

if TYPE_CHECKING:
    from gateway.intake import Arrival


class Edits:
    """Handles EDIT and DELETE events."""

    def __init__(self, parts: TurnParts, work: Work, workers: Workers) -> None:
        self._p = parts
        self._work = work
        self._workers = workers

    async def _original(self, arrival: Arrival) -> InboxEvent | None:
        address, about = arrival.event.address, arrival.event.message_id
        inbox = self._p.store.inbox
        rows = await inbox.find(address.platform, address.account, about, key=arrival.key)
        if not arrival.event.sender.id:  # a platform that does not tell who has deleted it: any line of the chat
            found = await inbox.find(address.platform, address.account, about)
            rows = [row for row in found if event_from_row(row).address.chat_id == address.chat_id]
        for row in rows:
            if row.kind in (EventKind.MESSAGE, EventKind.COMMAND) and row.id < arrival.event_id:
                return row
        return None

    async def edited(self, arrival: Arrival) -> None:
        """An edit of a message of that chat."""
        event, row = arrival.event, await self._original(arrival)
        end = self._p.fates.conclude
        if row is None:
            await end(arrival.event_id, event, Fate.SILENT, "an edit of a message that I do not know")
            return
        original = event_from_row(row)
        if original.sender.id != event.sender.id:
            await end(arrival.event_id, event, Fate.SILENT, "an edit by somebody else than the author")
        elif original.text == event.text or await self._seen(arrival, event.text):
            await end(arrival.event_id, event, Fate.SILENT, "an edit that changes no text")
        elif row.fate is Fate.WAITING and await self._replace(arrival, row):
            await end(arrival.event_id, event, Fate.MERGED, f"the new text of event {row.id}")
        elif await self._steer(arrival, row):
            return
        else:
            await end(arrival.event_id, event, Fate.SILENT, CORRECTION)

    async def _seen(self, arrival: Arrival, text: str) -> bool:
        """True where the newest earlier edit of the message had this text already."""
        address = arrival.event.address
        rows = await self._p.store.inbox.find(
            address.platform, address.account, arrival.event.message_id, key=arrival.key
        )
        edits = [row for row in rows if row.kind == EventKind.EDIT and row.id < arrival.event_id]
        return bool(edits) and event_from_row(edits[0]).text == text

    async def _replace(self, arrival: Arrival, row: InboxEvent) -> bool:
        """Change the text where the message still waits."""
        original = event_from_row(row)
        changed = dataclasses.replace(original, text=arrival.event.text)
        worker = self._workers.get(arrival.key)
        waiting = [] if worker is None else [item for item in worker.waiting if item.event_id == row.id]
        if not waiting or not await self._p.store.inbox.replace_payload(row.id, event_to_json(changed)):
            return False
        if worker is None or waiting[0] not in worker.waiting:
            return False  # its turn began meanwhile
        waiting[0].text, waiting[0].event = changed.text, changed
        return True

    async def _steer(self, arrival: Arrival, row: InboxEvent) -> bool:
        """Let the correction join the turn that the message started, where that still runs."""
        running = self._work.running(arrival.key)
        if running is None or running.reason is not None:
            return False
        if row.id not in {item.event_id for item in running.items}:
            return False
        text = f"(I have edited my message. It now reads:) {arrival.event.text}"
        item = Item(event_id=arrival.event_id, event=arrival.event, text=text, mode="steer")
        shared = arrival.event.address.chat_kind != "private"
        running.steering.offer(item, await build_input([item], shared=shared))
        return True

    async def deleted(self, arrival: Arrival, withdraw: Callable[[SessionKey, EventId], bool]) -> None:
        """A deletion: cancels exactly the turn that the message started, if it has not ended. `withdraw` takes a
        message out of its lane: where a platform does not say who deletes, a deletion has a lane of its own and may
        overtake its message."""
        event, row = arrival.event, await self._original(arrival)
        detail = "a deletion; nothing of it was open"
        if row is not None and row.fate is Fate.WAITING:
            for item in self._workers.withdraw(row.key, event.message_id):
                await self._p.fates.conclude(item.event_id, item.event, Fate.CANCELLED, "deleted by its author")
                detail = f"cancelled event {row.id}"
            if withdraw(row.key, row.id):
                await self._p.fates.conclude(row.id, event_from_row(row), Fate.CANCELLED, "deleted by its author")
                detail = f"cancelled event {row.id}"
        elif row is not None and row.fate is Fate.RUNNING:
            running = self._work.running(row.key)
            if running is not None and running.items[0].event_id == row.id:
                running.end("deleted by its author", quiet=True)
                detail = f"stopped the turn of event {row.id}"
        await self._p.fates.conclude(arrival.event_id, event, Fate.SILENT, detail)
