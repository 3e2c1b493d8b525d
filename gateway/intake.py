"""The inbox of the process: commit an event, then bring it to where it belongs.

`accept` returns after the commit. Dispatching keeps the order within a key: a plain message to an idle chat
goes straight to its worker; whatever needs a look at the store (a command, an edit, a busy chat) goes through
a lane of the key, and then so does all that follows it. Lanes never wait for turns, so `/stop` overtakes
what waits in the worker.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from adapters.errors import NotReady
from adapters.events import ChatAddress, EventKind, MessageEvent
from adapters.limits import length_in
from adapters.ports import Accepted
from gateway.access import NOT_ADDRESSED, Role, Verdict
from gateway.botloop import BotBreaker
from gateway.chat_names import ChatNames
from gateway.commands.base import Call, Forward, Reply, parse
from gateway.convert import event_from_row, event_to_new
from gateway.edits import Edits
from gateway.fetching import has_unfetched
from gateway.inputs import build_input, scrub
from gateway.keys import Share, line_key, person_of, session_key
from gateway.pairing import Pairing
from gateway.router import NOTED
from gateway.turns import delivery_of
from gateway.work import TurnParts, Work
from gateway.workers import Busy, Full, Item, Workers, same_message
from state.errors import StateError
from state.ids import EventId, SessionKey
from state.records import Fate, InboxEvent, NewEvent

log = structlog.get_logger("gateway.intake")

ALBUM_HOLD = 1.0
"""Seconds that a picture waits for the next one of its album."""
LANE = 200
"""Events that may wait in one lane. More are not dispatched now; the reconciler finds them in the inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneChat:
    """Settings of one chat; None is as everywhere."""

    busy: Busy | None = None
    sessions: Share | None = None


NOTHING_SET = OneChat()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """How chats share sessions, and what happens to a message that comes while a turn runs."""

    busy: Busy = "queue"
    groups: Share = "person"
    threads: Share = "shared"
    collect_hold: float = 2.0
    """Seconds that a message waits for a further one in the mode `collect`."""
    part_hold: float = 2.5
    """Seconds that a message as long as the platform allows waits for its next part; short ones never wait."""
    longest: int = 200_000
    """Characters of one message; a longer one is refused, told."""
    chats: Mapping[str, OneChat] = field(default_factory=dict)
    """Settings of single chats, by "platform:chat id"."""

    def of(self, address: ChatAddress) -> OneChat:
        """What is set for this chat alone."""
        return self.chats.get(f"{address.platform}:{address.chat_id}", NOTHING_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An event that is committed and open."""

    event_id: EventId
    key: SessionKey
    event: MessageEvent


class CommandTable(Protocol):
    """The slash commands."""

    def knows(self, name: str) -> bool:
        """True where `name` is a command."""
        ...

    async def run(self, call: Call) -> Reply | Forward:
        """Carry it out. Errors of the store fly."""
        ...

    async def press(self, call: Call) -> Reply | Forward:
        """Carry out a button press."""
        ...


class Intake:
    """Implements `adapters.ports.Inbox`."""

    def __init__(
        self,
        parts: TurnParts,
        work: Work,
        workers: Workers,
        edits: Edits,
        commands: CommandTable,
        settings: ChatSettings,
        breaker: BotBreaker,
        pairing: Pairing,
    ) -> None:
        self._p = parts
        self._work = work
        self._workers = workers
        self._edits = edits
        self._commands = commands
        self.settings = settings
        self._breaker = breaker
        self._pairing = pairing
        self._names = ChatNames(parts)
        self.lanes: dict[SessionKey, deque[Arrival]] = {}
        """The live table of what is on its way to the workers."""
        self._open = True
        self.refused: set[str] = set()
        """Platforms that another process takes over just now: it will be told again what is not taken here."""

    async def accept(self, event: MessageEvent) -> Accepted:
        """See `adapters.ports.Inbox.accept`."""
        if not self._open:
            raise NotReady("the daemon is ending; intake is closed")
        if event.address.platform in self.refused:
            raise NotReady("another process takes this platform over")
        if event.kind is EventKind.INTERNAL:
            raise ValueError("an adapter must not make internal events")
        event = dataclasses.replace(event, text=scrub(event.text))
        share = self.settings.of(event.address).sessions or self.settings.groups
        key = line_key(event.address, event.sender.id, groups=share, threads=self.settings.threads)
        began, started = self._p.clock.utc(), self._p.clock.monotonic()
        try:
            row = await self._p.store.inbox.accept(event_to_new(event, key))
        except StateError as error:
            log.exception("inbox.unavailable", platform=event.address.platform, error=str(error))
            raise NotReady(f"the store cannot take the event: {error}", told=str(error)) from error
        platform = event.address.platform
        self._p.metrics.accepted(platform, is_new=row.is_new)
        if row.is_new:
            self._p.metrics.spans.done(
                "accept",
                began=began,
                seconds=self._p.clock.monotonic() - started,
                me=f"event:{row.event_id}",
                event=row.event_id,
                platform=platform,
                kind=event.kind.value,
            )
            log.info("event.accepted", event_id=row.event_id, platform=platform, kind=event.kind.value, key=key)
            self._names.note(event)
            self.dispatch(Arrival(event_id=row.event_id, key=key, event=event))
        return Accepted(event_id=row.event_id, is_new=row.is_new)

    async def unreadable(self, platform: str, account: str, dedup_id: str, raw: str, reason: str) -> Accepted:
        """See `adapters.ports.Inbox.unreadable`."""
        if not self._open or platform in self.refused:
            raise NotReady("the daemon is ending; intake is closed")
        address = ChatAddress(platform=platform, account=account, chat_id="")
        new = NewEvent(
            dedup_id=dedup_id,
            platform=platform,
            account=account,
            kind="unreadable",
            key=session_key(address),
            message_id=dedup_id,
            sender_id="",
            payload=scrub(raw),
            received_at=self._p.clock.utc(),
        )
        try:
            row = await self._p.store.inbox.accept_failed(new, f"unreadable: {reason}")
        except StateError as error:
            raise NotReady(f"the store cannot take the event: {error}") from error
        if row.is_new:
            log.error("event.unreadable", event_id=row.event_id, platform=platform, reason=reason)
        return Accepted(event_id=row.event_id, is_new=row.is_new)

    async def internal(self, event: MessageEvent, key: SessionKey) -> None:
        """Commit an event of the gateway's own to a line, or recognise it. Raises a `StateError`."""
        row = await self._p.store.inbox.accept(event_to_new(event, key))
        if row.is_new:
            log.info("event.internal", event_id=row.event_id, key=key)
            self.dispatch(Arrival(event_id=row.event_id, key=key, event=event))

    def holds(self, key: SessionKey, event_id: EventId) -> bool:
        """True where a lane or a worker of this process has the event."""
        if any(arrival.event_id == event_id for arrival in self.lanes.get(key, ())):
            return True
        worker = self._workers.get(key)
        held = () if worker is None else (*worker.waiting, *worker.current)
        running = self._work.running(key)
        return any(item.event_id == event_id for item in held) or (
            running is not None and running.steering.holds(event_id)
        )

    def close(self) -> None:
        """Take nothing new."""
        self._open = False

    def again(self, row: InboxEvent) -> None:
        """Dispatch an open event of the store (a start, or the reconciler)."""
        event = event_from_row(row)
        self.dispatch(Arrival(event_id=row.id, key=row.key, event=event))

    def dispatch(self, arrival: Arrival) -> None:
        """Bring it on its way. Never blocks and never fails."""
        if arrival.key not in self.lanes and self._is_plain(arrival):
            self._put(arrival, arrival.event.text, "queue")
            return
        lane = self.lanes.get(arrival.key)
        if lane is None:
            lane = self.lanes[arrival.key] = deque()
            self._p.spawn(self._serve(arrival.key, lane), f"lane:{arrival.key}")
        if len(lane) >= LANE:
            log.error("lane.full", key=arrival.key, event_id=arrival.event_id)
            return
        lane.append(arrival)

    def _is_plain(self, arrival: Arrival) -> bool:
        event = arrival.event
        return (
            event.kind is EventKind.MESSAGE
            and not is_empty(event)
            and not event.sender.is_bot
            and not event.text.startswith("/")
            and len(event.text) <= self.settings.longest
            and self._workers.get(arrival.key) is None
            and self._p.access.judge(event).fate == "go"
        )

    async def _serve(self, key: SessionKey, lane: deque[Arrival]) -> None:
        while lane and self._open:
            arrival = lane[0]
            try:
                await self._handle(arrival)
            except StateError as error:
                log.exception("dispatch.failed", event_id=arrival.event_id, error=str(error))
                await asyncio.sleep(1.0)
                continue  # the event is still open: the same again
            except Exception:  # the boundary of a command: one defect never stops the chat
                log.exception("dispatch.defect", event_id=arrival.event_id)
                await self._defect(arrival)
            lane.popleft()
        del self.lanes[key]  # no await since "empty"

    async def _defect(self, arrival: Arrival) -> None:
        try:
            await self._end(
                arrival, Fate.FAILED, "a defect of mine", "Something went wrong with that; it is in the log."
            )
        except StateError as error:
            log.exception("dispatch.unsettled", event_id=arrival.event_id, error=str(error))

    async def _handle(self, arrival: Arrival) -> None:
        event = arrival.event
        if event.kind is EventKind.INTERNAL:
            self._put_item(arrival, self._item(arrival, event.text, "queue"))
            return
        if event.kind is EventKind.DELETE:
            await self._edits.deleted(arrival, partial(withdraw, self.lanes))
            return
        verdict = self._p.access.judge(event)
        if verdict.reason == NOT_ADDRESSED and await self._belongs(arrival):
            verdict = Verdict(role=verdict.role, fate="go")
        if verdict.fate == "go" and event.sender.is_bot and event.kind in (EventKind.MESSAGE, EventKind.COMMAND):
            admitted, told = self._breaker.admit(event)
            if not admitted:
                verdict = Verdict(role=verdict.role, fate="silent", reason="a loop of bots is broken off", told=told)
        if verdict.role is None and verdict.fate == "refused":
            verdict = await self._pairing.stranger(event, verdict)
        if verdict.fate != "go":
            await self._turn_away(arrival, verdict)
            return
        if event.kind in (EventKind.REACTION, EventKind.MEMBERSHIP):
            await self._end(arrival, Fate.SILENT, NOTED, None)
            return
        if is_empty(event):
            await self._end(arrival, Fate.SILENT, "an empty message", None)
            return
        assert verdict.role is not None
        if event.kind is EventKind.EDIT:
            await self._edits.edited(arrival)
        elif event.kind is EventKind.ACTION:
            await self._outcome(arrival, await self._commands.press(call_of(arrival, verdict.role)))
        else:
            await self._message(arrival, verdict.role)

    async def _belongs(self, arrival: Arrival) -> bool:
        """Whether a message that does not address us is a part of one that does: the rest of a long paste, or
        a picture of an album whose caption is on another one."""
        event, worker = arrival.event, self._workers.get(arrival.key)
        if worker is not None and worker.waiting:
            last = worker.waiting[-1]
            if same_message(last, self._item(arrival, event.text, last.mode)):
                return True
        if event.group_id is None:
            return False
        await asyncio.sleep(ALBUM_HOLD / 2)  # the others of the album are on their way
        lane = self.lanes.get(arrival.key, ())
        return any(
            other.event.group_id == event.group_id
            and other.event.sender.id == event.sender.id
            and self._p.access.judge(other.event).fate == "go"
            for other in lane
        )

    async def _message(self, arrival: Arrival, role: Role) -> None:
        event = arrival.event
        if len(event.text) > self.settings.longest:
            told = f"That message is too long: {len(event.text)} characters, and I take {self.settings.longest}."
            await self._end(arrival, Fate.REFUSED, "the message is too long", told)
            return
        command = parse(event.text) if event.forwarded_from is None else None
        if command is not None and (event.kind is EventKind.COMMAND or self._commands.knows(command[0])):
            await self._outcome(arrival, await self._commands.run(call_of(arrival, role, *command)))
            return
        await self._join(arrival, event.text, await self._mode(arrival))

    async def _outcome(self, arrival: Arrival, outcome: Reply | Forward) -> None:
        if isinstance(outcome, Reply):
            await self._reply(arrival, outcome)
            return
        if outcome.event is not None:
            arrival = dataclasses.replace(arrival, event=outcome.event)
        await self._join(arrival, outcome.text, outcome.mode or await self._mode(arrival))

    async def _mode(self, arrival: Arrival) -> Busy:
        """The busy mode of the chat: as /busy has set it, or as it is configured."""
        configured = self._configured(arrival.event.address)
        if self._workers.get(arrival.key) is None:
            return "collect" if configured == "collect" else "queue"
        binding = await self._p.store.sessions.binding(arrival.key)
        return busy_of(binding.settings_json if binding is not None else "{}", configured)

    def _configured(self, address: ChatAddress) -> Busy:
        return self.settings.of(address).busy or self.settings.busy

    async def _join(self, arrival: Arrival, text: str, mode: Busy) -> None:
        running = self._work.running(arrival.key)
        item = self._item(arrival, text, mode)
        if running is not None and running.reason is None:
            person = person_of(arrival.event.address.platform, arrival.event.sender.id)
            if text and await self._p.approvals.answer_text(running.turn_id, person, text):
                await self._end(arrival, Fate.STEERED, "it answered a question of the running turn", None)
                return
            if mode == "steer" and not has_unfetched(item.event) and running.steering.may_join(item):
                shared = arrival.event.address.chat_kind != "private"
                running.steering.offer(item, await build_input([item], shared=shared))
                if running.done.is_set():  # it ended while we looked: nobody takes it any more
                    for left in running.steering.leftovers():
                        self._put_item(arrival, left)
                return
            if mode == "interrupt":
                running.end("a new message took its place", quiet=True)
        self._put_item(arrival, item)

    def _put(self, arrival: Arrival, text: str, mode: Busy) -> None:
        self._put_item(
            arrival,
            self._item(arrival, text, "collect" if self._configured(arrival.event.address) == "collect" else mode),
        )

    def _item(self, arrival: Arrival, text: str, mode: Busy) -> Item:
        return Item(
            event_id=arrival.event_id,
            event=arrival.event,
            text=text,
            mode=mode,
            ready_at=self._hold(arrival.event, mode),
        )

    def _hold(self, event: MessageEvent, mode: Busy) -> float:
        """Until when the message waits for its next part; 0 for a message that is complete."""
        now = asyncio.get_running_loop().time()
        if event.group_id is not None:
            return now + ALBUM_HOLD
        adapter = self._p.adapters.get(event.address.platform)
        limits = None if adapter is None else adapter.renderer.limits
        # clients cut a long paste at the platform's limit, at the last blank before it
        if limits is not None and limits.text and length_in(limits.unit)(event.text) >= limits.text * 0.9:
            return now + self.settings.part_hold
        return now + self.settings.collect_hold if mode == "collect" else 0.0

    def _put_item(self, arrival: Arrival, item: Item) -> None:
        try:
            self._workers.put(arrival.key, item)
        except Full:
            log.warning("worker.full", key=arrival.key)
            told = "Too much is waiting in this chat already; I did not take this message. Please send it again later."
            self._p.spawn(self._end(arrival, Fate.REFUSED, "the queue of this chat is full", told), "queue-full")

    async def _turn_away(self, arrival: Arrival, verdict: Verdict) -> None:
        fate = Fate.SILENT if verdict.fate == "silent" else Fate.REFUSED
        await self._end(arrival, fate, verdict.reason, verdict.told)

    async def _end(self, arrival: Arrival, fate: Fate, detail: str, told: str | None) -> None:
        await self._reply(arrival, Reply(text=told or "", fate=fate, detail=detail))

    async def _reply(self, arrival: Arrival, reply: Reply) -> None:
        """End an event with what is said about it, in one transaction; said once even after a crash."""
        event, notice = arrival.event, None
        if reply.text:
            delivery = delivery_of(f"d-e{arrival.event_id}", event.address, reply.text, event.message_id, self._p)
            notice = await self._p.deliveries.compose(delivery)
        await self._p.fates.conclude(
            arrival.event_id, event, reply.fate, reply.detail, delivery=notice, undo=reply.undo
        )
        if notice is not None:
            self._p.deliveries.wake(notice.chat)


def withdraw(lanes: Mapping[SessionKey, deque[Arrival]], key: SessionKey, event_id: EventId) -> bool:
    """Take a message out of its lane, where it is in one and nothing was done about it yet."""
    lane = lanes.get(key, deque())
    found = [arrival for arrival in list(lane)[1:] if arrival.event_id == event_id]  # the first is at work
    for arrival in found:
        lane.remove(arrival)
    return bool(found)


def give_up(lanes: Mapping[SessionKey, deque[Arrival]], platform: str) -> tuple[list[EventId], bool]:
    """Take what waits of a platform out of the lanes; the ids, and whether something of it is at work in one."""
    ids: list[EventId] = []
    at_work = False
    for lane in lanes.values():
        ours = [arrival for arrival in lane if arrival.event.address.platform == platform]
        at_work = at_work or bool(ours and lane[0] is ours[0])
        for arrival in ours:
            if arrival is not lane[0]:
                lane.remove(arrival)
                ids.append(arrival.event_id)
    return ids, at_work


def call_of(arrival: Arrival, role: Role, name: str = "", args: str = "") -> Call:
    """The event as a command is given it."""
    return Call(event_id=arrival.event_id, key=arrival.key, event=arrival.event, role=role, name=name, args=args)


def is_empty(event: MessageEvent) -> bool:
    """A message with nothing in it (a platform without the right to read, a service message): never a turn."""
    return event.kind is EventKind.MESSAGE and not (event.text.strip() or event.attachments or event.facts)


def busy_of(settings_json: str, default: Busy) -> Busy:
    """The busy mode in the settings of a chat."""
    chosen = json.loads(settings_json or "{}").get("busy", default)
    return chosen if chosen in ("queue", "steer", "interrupt", "collect") else default
