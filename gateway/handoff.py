"""The hand-off (P7): a session moves with its whole transcript, or stays exactly where it was.

A request is a row; whoever claims it (one process, by compare-and-set) waits for the end of the giver's
turn, has a thread made at the target, and then moves everything in one transaction: target bound, giver
closed, row done. Every other end is `failed` with a reason, and has moved nothing. A claim that its
process did not survive expires and is swept to `failed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from adapters.errors import AdapterError
from adapters.events import ChatAddress, EventKind, MessageEvent, Sender
from adapters.ports import CanFindPlaces, CanOpenThreads
from gateway.convert import address_from_dict, address_from_json, address_to_dict, address_to_json
from gateway.delivery import Deliveries
from gateway.handoff_target import Target, TargetFault, Targets
from gateway.inputs import one_line
from gateway.settled import whole
from gateway.turns import delivery_of_text
from state.errors import Conflict, NotFound, StateError
from state.ids import HandoffId, SessionId, SessionKey
from state.records import BindingState, Handoff, HandoffState
from state.store import Store

log = structlog.get_logger("gateway.handoff")

CLAIM = 60.0
POLL = 1.0
SWEEP = 5.0
TURN_SECONDS = 1800.0
"""How long the giver's (or the target's) turn is waited for."""
CALL_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""How long the closing of a thread may take that nobody needs; a stop waits for it."""
AT_ONCE = 8
GREET_WITHIN = timedelta(days=1)
"""The inbox recognises a hello that was committed for longer than that."""
HELLO = (
    "[This conversation was moved here just now, from {source} to {target}. Greet the person in a sentence or two: "
    "say that you go on from where you were, and what was last spoken of. Do no work yet.]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a row's `target` holds: the place as it was found when the hand-off was asked for.

    `exact`: the session goes into that very line, no thread is made (somebody takes it back).
    """

    target: Target
    exact: bool = False

    def to_json(self) -> str:
        """As it is stored; equal plans have equal texts."""
        return json.dumps(
            {"address": address_to_dict(self.target.address), "name": self.target.name, "exact": self.exact},
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The reverse."""
        data = json.loads(text)
        target = Target(address=address_from_dict(data["address"]), name=data["name"])
        return cls(target=target, exact=data["exact"])


class Failed(Exception):
    """The hand-off ends without having moved anything. The message is the reason, for people."""


Accept = Callable[[MessageEvent, SessionKey], Coroutine[Any, Any, None]]


class Handoffs:
    """Claims and carries out. Everything is for the event loop's thread."""

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        targets: Targets,
        *,
        poll: float = POLL,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._targets = targets
        self._poll = poll
        self._turn_seconds = turn_seconds
        self._wake = asyncio.Event()
        self._tasks: dict[HandoffId, asyncio.Task[None]] = {}
        self._swept: set[asyncio.Task[None]] = set()
        self._owes_hellos = True

    def wake(self) -> None:
        """A row was written: look at once."""
        self._wake.set()

    async def request(self, session_id: SessionId, source: SessionKey, plan: Plan, *, asked_by: str) -> Handoff:
        """Ask for a move. Raises `Conflict` where one of the session is open, and other `StateError`s."""
        made = await self._store.handoffs.request(session_id, source, plan.to_json(), asked_by)
        log.info("handoff.requested", handoff=made.id, session=session_id, to=plan.target.name)
        self.wake()
        return made

    async def run(self, accept: Accept) -> None:
        """Claim what is asked for and sweep what has died, until cancelled; then what runs is let go: its
        claim is given back as failed where nothing has moved yet.

        `accept` commits an internal event to a key, or recognises it, and starts its work.
        """
        swept = 0.0
        try:
            while True:
                self._wake.clear()
                try:
                    if self._owes_hellos:
                        await self._greet_all(accept)
                    now = self._store.clock.monotonic()
                    if now >= swept:
                        swept = now + SWEEP
                        await self._sweep()
                    await self._claim_all(accept)
                except StateError as error:
                    log.warning("handoff.postponed", error=str(error))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await self._wake.wait()
        finally:
            await whole(self._let_go(), "handoffs:end")

    async def _let_go(self) -> None:
        tasks = [*self._tasks.values(), *self._swept]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS + 1.0)

    async def _claim_all(self, accept: Accept) -> None:
        for row in await self._store.handoffs.pending():
            if row.id in self._tasks or len(self._tasks) >= AT_ONCE:
                continue
            try:
                token = await self._store.handoffs.claim(row.id, self._store.owner, ttl=CLAIM)
            except Conflict:
                continue  # another process was quicker
            task = asyncio.create_task(self._one(row, token, accept), name=f"handoff:{row.id}")
            self._tasks[row.id] = task
            task.add_done_callback(lambda _task, name=row.id: self._tasks.pop(name, None))  # type: ignore[misc]

    async def _sweep(self) -> None:
        for row in await self._store.handoffs.sweep():
            log.warning("handoff.swept", handoff=row.id, reason=row.reason)
            task = asyncio.create_task(self._stayed(row, str(row.reason)), name=f"handoff-swept:{row.id}")
            self._swept.add(task)  # a slow platform does not keep the others waiting (B89)
            task.add_done_callback(self._swept.discard)

    # one hand-off --------------------------------------------------------------------------------

    async def _one(self, row: Handoff, token: str, accept: Accept) -> None:
        keeper = asyncio.create_task(self._keep(row, token), name=f"handoff-claim:{row.id}")
        try:
            await self._move_and_greet(row, token, accept)
        except (Failed, TargetFault, AdapterError, StateError) as error:
            told = error.told if isinstance(error, AdapterError) else str(error)
            await self._fail(row, token, told.rstrip("."))
        except asyncio.CancelledError:
            await whole(self._fail(row, token, "the daemon was stopped"), f"handoff-fail:{row.id}")
            raise
        except Exception as error:  # the boundary of a hand-off: a defect fails it and touches nothing else
            log.exception("handoff.defect", handoff=row.id)
            await self._fail(row, token, f"a defect of mine ({type(error).__name__})")
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _move_and_greet(self, row: Handoff, token: str, accept: Accept) -> None:
        address, key = await self._move(row, token, Plan.from_json(row.target))
        try:
            await self._greet(row, address, key, accept)
        except StateError as error:  # it has moved: the hello is owed from now on
            log.warning("handoff.greeting_postponed", handoff=row.id, error=str(error))
            self._owes_hellos = True

    async def _keep(self, row: Handoff, token: str) -> None:
        while True:
            await asyncio.sleep(CLAIM / 3)
            try:
                await self._store.handoffs.renew(row.id, token, ttl=CLAIM)
            except StateError as error:
                log.warning("handoff.claim_not_renewed", handoff=row.id, error=str(error))

    async def _move(self, row: Handoff, token: str, plan: Plan) -> tuple[ChatAddress, SessionKey]:
        """Move the session; its new place."""
        await self._turn_ended(row.session_id)
        address = plan.target.address if plan.exact else await self._place(row, token, plan)
        await self._found(address)
        key = self._targets.key(address, row.asked_by)
        name = plan.target.name
        until = self._store.clock.monotonic() + self._turn_seconds
        while True:
            await self._target_free(key, row.session_id)
            try:
                await self._store.handoffs.rebind_done(
                    row.id, token, key, address_to_json(address), moved_to=f"{address.platform}: {name}"
                )
                break
            except Conflict as conflict:
                if "runs on session" not in str(conflict) or self._store.clock.monotonic() > until:
                    raise Failed(str(conflict)) from conflict
            await self._turn_ended(row.session_id)  # the giver wrote on: its turn ends first
        log.info("handoff.done", handoff=row.id, session=row.session_id, key=key)
        await self._tell(row, _goes_on(address.platform, name))
        return address, key

    async def _turn_ended(self, session_id: SessionId) -> None:
        """Wait for the end of the session's turn. Raises `Failed` after the bound."""
        until = self._store.clock.monotonic() + self._turn_seconds
        while await self._store.leases.holder(session_id) is not None:
            if self._store.clock.monotonic() > until:
                raise Failed("its turn did not end in time")
            await asyncio.sleep(min(self._poll, 0.5))

    async def _target_free(self, key: SessionKey, moving: SessionId) -> None:
        """A turn that runs at the target belongs to another session: it ends first."""
        binding = await self._store.sessions.binding(key)
        if binding is None or binding.session_id is None or binding.session_id == moving:
            return
        if binding.state is BindingState.ACTIVE:
            try:
                await self._turn_ended(binding.session_id)
            except Failed:
                raise Failed("another turn is at work there and did not end in time") from None

    async def _place(self, row: Handoff, token: str, plan: Plan) -> ChatAddress:
        """The address at the target: a thread where the platform makes one, else the chat itself."""
        chat = plan.target.address
        adapter = self._deliveries.reach.adapter(chat.platform, chat.account)
        if adapter is None:
            raise Failed(f"{chat.platform} is not connected")
        if chat.thread_id is not None or not isinstance(adapter, CanOpenThreads):
            return chat
        kept = await self._store.handoffs.thread_of_failed(row.session_id, row.target)
        if kept is not None:
            await self._store.handoffs.set_thread(row.id, token, kept)
            return address_from_json(kept)
        session = await self._store.sessions.get(row.session_id)
        title = one_line((session.title if session else None) or "Our conversation", 90)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                thread = await adapter.open_thread(chat, title)
        except TimeoutError:
            raise Failed(f"{chat.platform} did not answer in time; a thread may have been made there") from None
        if thread is None:
            return chat
        await self._store.handoffs.set_thread(row.id, token, address_to_json(thread))
        return thread

    async def _found(self, address: ChatAddress) -> None:
        """Find out that the place is not there before anything moves, where the platform can tell. Raises `Failed`."""
        adapter = self._deliveries.reach.adapter(address.platform, address.account)
        if isinstance(adapter, CanFindPlaces):
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await adapter.find_place(address)
            except TimeoutError:
                raise Failed(f"{address.platform} did not answer in time") from None

    async def _fail(self, row: Handoff, token: str, reason: str) -> None:
        try:
            await self._store.handoffs.fail(row.id, token, reason)
        except (Conflict, NotFound) as error:
            log.warning("handoff.ended_otherwise", handoff=row.id, error=str(error))
            return
        except StateError as error:  # the sweep will end it
            log.exception("handoff.not_ended", handoff=row.id, error=str(error))
            return
        log.warning("handoff.failed", handoff=row.id, reason=reason)
        await self._stayed(row, reason)

    async def _stayed(self, row: Handoff, reason: str) -> None:
        """It has failed: clear away what was made for it, and tell the giver."""
        left, name = "", row.target
        try:
            name = Plan.from_json(row.target).target.name
            left = await self._abandon(row)
        except Exception:  # the boundary of a clearing up: the giver is told in any case
            log.exception("handoff.not_cleared", handoff=row.id)
        await self._tell(row, f"The hand-off to {name} failed: {reason}. Nothing has moved.{left}")

    async def _abandon(self, row: Handoff) -> str:
        """Close the thread that was made, so that no retry uses it; where that cannot be, what is to be said.

        Raises a `StateError`.
        """
        fresh = await self._store.handoffs.get(row.id)
        if fresh is None or fresh.thread_id is None:
            return ""
        address = address_from_json(fresh.thread_id)
        adapter = self._deliveries.reach.adapter(address.platform, address.account)
        if not isinstance(adapter, CanOpenThreads):
            return " The thread that was made there waits for the next try."
        await self._store.handoffs.forget_thread(row.id)  # first: a closed or deleted one takes no messages
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await adapter.close_thread(address)
        except (AdapterError, TimeoutError) as error:
            log.warning("handoff.thread_left", thread=address.thread_id, error=str(error))
            return " An empty thread is left there; it can be deleted."
        return ""

    # what is said --------------------------------------------------------------------------------

    async def _tell(self, row: Handoff, text: str) -> None:
        """Tell the giver, where it is a chat that the daemon serves (a terminal looks at the row itself)."""
        try:
            binding = await self._store.sessions.binding(row.source_key)
            if binding is None:
                return
            address = address_from_json(binding.address_json)
            if self._deliveries.reach.known(address.platform) is None:
                return
            await self._deliveries.say(
                delivery_of_text(f"handoff-{row.id}", address, text, self._store.clock.utc()),
                session_id=row.session_id,
            )
        except StateError as error:
            log.warning("handoff.not_told", handoff=row.id, error=str(error))

    async def _greet_all(self, accept: Accept) -> None:
        """What ended when the process died before the hello, or what the giver is told, was committed; what was is
        recognised. Only where the move still holds: the conversation may have gone on from there.
        """
        self._owes_hellos = False
        try:
            since = self._store.clock.utc() - GREET_WITHIN
            for row in await self._store.handoffs.recent_ended():
                if row.ended_at is None or row.ended_at < since:
                    continue
                if row.state is HandoffState.FAILED:
                    await self._stayed(row, str(row.reason))
                    continue
                made = row.thread_id
                address = Plan.from_json(row.target).target.address if made is None else address_from_json(made)
                try:
                    key = self._targets.key(address, row.asked_by)
                except TargetFault:
                    continue
                binding = await self._store.sessions.binding(key)
                if binding is None or binding.state is not BindingState.ACTIVE or binding.session_id != row.session_id:
                    continue
                await self._tell(row, _goes_on(address.platform, Plan.from_json(row.target).target.name))
                if self._deliveries.reach.known(address.platform) is not None:
                    await self._greet(row, address, key, accept)
        except StateError as error:
            self._owes_hellos = True
            log.warning("handoff.greetings_postponed", error=str(error))

    async def _greet(self, row: Handoff, address: ChatAddress, key: SessionKey, accept: Accept) -> None:
        source, plan = await self._store.sessions.binding(row.source_key), Plan.from_json(row.target)
        came = address_from_json(source.address_json).platform if source is not None else "elsewhere"
        now = self._store.clock.utc()
        event = MessageEvent(
            dedup_id=f"handoff:{row.id}",
            kind=EventKind.INTERNAL,
            message_id="",
            address=address,
            sender=Sender(id="handoff", name="hand-off"),
            received_at=now,
            text=HELLO.format(source=came, target=f"{address.platform} ({one_line(plan.target.name, 60)})"),
        )
        await accept(event, key)


def _goes_on(platform: str, name: str) -> str:
    return f"This conversation goes on at {platform}: {name}."
