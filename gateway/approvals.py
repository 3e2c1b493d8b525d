"""Questions of a running turn to a person: durable, answered once, by the one who may.

An approval is given by an owner's press on its own button, or by `/approve ID`, and is good for one run of
exactly what was shown. No other word approves anything: a plain "yes" is a message like any other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from adapters.events import Block, Button, Buttons, ChatAddress, Delivery, DeliveryKind, Markdown
from adapters.ports import CanEdit
from agent_core.tools.patterns import first_match
from agent_core.tools.ports import Ask, RightsRole
from gateway.convert import address_from_dict, address_to_dict
from gateway.delivery import Deliveries
from gateway.keys import person_of
from state.clock import Clock
from state.errors import Conflict, StateError
from state.ids import ApprovalId, DeliveryId, TurnId
from state.records import Approval, ApprovalState, TurnLease
from state.store import Store

log = structlog.get_logger("gateway.approvals")

APPROVE, DENY = "approve", "deny"
LOOK_EVERY = 2.0
"""Seconds between two looks at the row: another process may have taken the press."""

ENDED = {
    ApprovalState.APPROVED: "That was answered already.",
    ApprovalState.USED: "That was allowed already, and the one run has been made.",
    ApprovalState.DENIED: "That was denied already.",
    ApprovalState.EXPIRED: "Too late: the time for an answer is over. Nothing was run.",
    ApprovalState.CANCELLED: "Too late: the turn that asked has ended. Nothing was run.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """`mode` "never" allows everything at once (the owner's risk) but what matches a pattern of `always`; `ttl` is how
    long a question stays open, in seconds."""

    mode: Literal["ask", "never"] = "ask"
    ttl: float = 300.0
    always: tuple[str, ...] = ()


SHOWN = ("Allowed,", "Denied.", "Answered:")
"""Beginnings of what is said to a press whose outcome takes the place of the question, where that can be edited."""


class Approvals:
    """Asks and takes the answers. One a process; the rows are shared with other processes."""

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        *,
        clock: Clock,
        settings: ApprovalSettings | Callable[[], ApprovalSettings],
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._clock = clock
        self._settings: Callable[[], ApprovalSettings] = settings if callable(settings) else lambda: settings
        self._waiting: dict[ApprovalId, asyncio.Event] = {}

    def for_turn(
        self,
        lease: TurnLease,
        address: ChatAddress,
        *,
        sender_id: str,
        reply_to: str | None = None,
        attended: bool = True,
    ) -> Ask:
        """How this turn asks: at `address` (its own thread), `sender_id` being the person of the turn.
        Where nobody is there to answer (`attended` false) nothing is asked, and the answer is no at once."""
        return _TurnAsk(self, lease, address, person_of(address.platform, sender_id), reply_to, attended=attended)

    async def press(self, approval_id: str, value: str, person: str, role: RightsRole | None) -> str:
        """Take an answer: a button press, `/approve ID`, `/deny ID`. Returns the sentence to show.

        `person` is `platform:id`, `role` what that person is at this moment. `value` is "approve" or "deny"
        for an approval, the number of the option for a clarify question. Never answers twice.
        """
        row = await self._store.approvals.get(ApprovalId(approval_id.strip()))
        if row is None:
            return "I do not know that question. The id is in the message that asks."
        if row.kind == "approval":
            if role != "owner":
                log.warning("approval.not_owner", approval=row.id, person=person)
                return "Only an owner may answer that."
            if value not in (APPROVE, DENY):
                return f"The answer is {APPROVE} or {DENY}."
            return await self._answer(row, approve=value == APPROVE, answer=value, by=person)
        if person != row.asked:
            return "That question is for somebody else."
        options = json.loads(row.question).get("options", [])
        if not (value.isascii() and value.isdecimal() and int(value) < len(options)):
            return "That is not one of the choices."
        return await self._answer(row, approve=True, answer=options[int(value)], by=person)

    async def answer_text(self, turn_id: TurnId, person: str, text: str) -> bool:
        """Give `text` as the answer to the clarify question that this turn waits with, if it asked `person`.

        False, and nothing done, where there is no such question: then `text` is a message like any other.
        An approval is never answered by this."""
        if not self._waiting or not text.strip():
            return False
        for row in await self._store.approvals.open_of(turn_id):
            if row.kind != "clarify" or row.asked != person:
                continue
            try:
                answered = await self._store.approvals.answer(row.id, approve=True, answer=text, by=person)
            except Conflict:
                continue
            self._wake(row.id)
            return answered.state is ApprovalState.APPROVED
        return False

    async def ended(self, turn_id: TurnId) -> None:
        """The turn has ended (not: was parked): what it still asks is void."""
        await self._store.approvals.cancel_turn(turn_id)

    async def _answer(self, row: Approval, *, approve: bool, answer: str, by: str) -> str:
        try:
            now = await self._store.approvals.answer(row.id, approve=approve, answer=answer, by=by)
        except Conflict:
            fresh = await self._store.approvals.get(row.id)
            return ENDED.get((fresh or row).state, "That was answered already.")
        self._wake(row.id)
        if now.state is ApprovalState.EXPIRED:
            return ENDED[now.state]
        log.info("approval.answered", approval=row.id, state=now.state.value, by=by)
        if row.kind == "clarify":
            told = f"Answered: {answer}"
        else:
            told = "Allowed, for this one run." if approve else "Denied. Nothing is run."
        await self._close(row, f"{told} ({by})")
        return told

    def _wake(self, approval_id: ApprovalId) -> None:
        event = self._waiting.get(approval_id)
        if event is not None:
            event.set()

    # asking --------------------------------------------------------------------------------------

    async def approve(self, asker: _TurnAsk, call_id: str, what: str) -> bool:
        """See `Ask.approve`."""
        settings = self._settings()
        if settings.mode == "never" and first_match(settings.always, what) is None:
            log.warning("approval.not_asked", turn=asker.lease.turn_id, call=call_id)
            return True
        if not asker.attended:
            log.warning("approval.nobody_there", turn=asker.lease.turn_id, call=call_id)
            return False
        row = await self._row("approval", asker, call_id, {"what": what}, settings.ttl)
        if row.state is ApprovalState.PENDING:
            blocks = (
                Markdown(text=f"May I run this, once?\n\n{fenced(what)}\n\nOr write `/approve {row.id}`."),
                Buttons(
                    buttons=(
                        Button(id=row.id, label="Approve", value=APPROVE),
                        Button(id=row.id, label="Deny", value=DENY),
                    )
                ),
            )
            row = await self._wait(row, asker, blocks)
        elif row.state is ApprovalState.APPROVED and self._is_old(row):
            # it was allowed, but the daemon was down until long after: that consent is not for now
            await self._close(row, "The approval is too old by now. Nothing was run.", late=True)
            return False
        return row.state is ApprovalState.APPROVED and await self._store.approvals.use(row.id)

    async def clarify(self, asker: _TurnAsk, call_id: str, question: str, options: Sequence[str]) -> str | None:
        """See `Ask.clarify`."""
        if not asker.attended:
            return None
        about = {"what": question, "options": list(options)}
        row = await self._row("clarify", asker, call_id, about, self._settings().ttl)
        if row.state is ApprovalState.PENDING:
            blocks: tuple[Block, ...] = (Markdown(text=question),)
            if options:
                buttons = [Button(id=row.id, label=option, value=str(n)) for n, option in enumerate(options)]
                blocks = (*blocks, Buttons(buttons=tuple(buttons)))
            row = await self._wait(row, asker, blocks)
        return row.answer if row.state in (ApprovalState.APPROVED, ApprovalState.USED) else None

    async def _row(
        self, kind: Literal["approval", "clarify"], asker: _TurnAsk, call_id: str, about: dict[str, Any], ttl: float
    ) -> Approval:
        """The durable question of this call: made now, or the one that an earlier try has made."""
        question = {**about, "address": address_to_dict(asker.address)}
        return await self._store.approvals.create(
            kind,
            asker.lease.session_id,
            asker.lease.turn_id,
            call_id,
            asker.person,
            json.dumps(question, ensure_ascii=False),
            ttl,
        )

    async def _wait(self, row: Approval, asker: _TurnAsk, blocks: tuple[Block, ...]) -> Approval:
        """Ask in the chat (once, also after a restart) and wait for the end of the question, bounded by it."""
        event = self._waiting.setdefault(row.id, asyncio.Event())
        try:
            await self._deliveries.say(
                Delivery(
                    delivery_id=_asks(row),
                    address=asker.address,
                    kind=DeliveryKind.APPROVAL,
                    blocks=blocks,
                    created_at=self._clock.utc(),
                    reply_to=asker.reply_to,
                ),
                session_id=row.session_id,
                turn_id=row.turn_id,
            )
            while row.state is ApprovalState.PENDING:
                if self._is_old(row):
                    return await self._expire(row)
                event.clear()
                try:
                    async with asyncio.timeout(min(LOOK_EVERY, max(0.01, row.expires_at - self._clock.boot()))):
                        await event.wait()
                except TimeoutError:
                    pass
                row = await self._store.approvals.get(row.id) or row
        finally:
            self._waiting.pop(row.id, None)
        return row

    def nudge(self) -> None:
        """Have every waiting question look at its row and at the clock (tests that step the clock)."""
        for event in self._waiting.values():
            event.set()

    def _is_old(self, row: Approval) -> bool:
        return row.boot_id != self._clock.boot_id() or row.expires_at <= self._clock.boot()

    async def _expire(self, row: Approval) -> Approval:
        await self._store.approvals.expire()
        fresh = await self._store.approvals.get(row.id) or row
        if fresh.state is ApprovalState.EXPIRED:
            log.info("approval.expired", approval=row.id)
            told = "Nobody answered in time."
            await self._close(row, told if row.kind == "clarify" else f"{told} Nothing was run.", late=True)
        return fresh

    async def _close(self, row: Approval, outcome: str, *, late: bool = False) -> None:
        """Put the outcome in the place of the question, so that no dead button stays.

        Where messages cannot be edited it is said anew only if it is `late`: whoever pressed was told."""
        about = json.loads(row.question)
        platform = about["address"]["platform"]
        if not late and not isinstance(self._deliveries.reach.known(platform), CanEdit):
            return
        what = about["what"] if row.kind == "clarify" else fenced(about["what"])
        try:
            asked = await self._store.outbox.get(DeliveryId(_asks(row)))
            ids = [one for chunk in asked.chunks for one in chunk.message_ids] if asked is not None else []
            await self._deliveries.say(
                Delivery(
                    delivery_id=f"answered-{row.id}",
                    address=address_from_dict(about["address"]),
                    kind=DeliveryKind.NOTICE,
                    blocks=(Markdown(text=f"{what}\n\n{outcome}"),),
                    created_at=self._clock.utc(),
                    edits=ids[-1] if ids else None,
                ),
                session_id=row.session_id,
                turn_id=row.turn_id,
            )
        except StateError as error:
            # the answer itself is committed; only its display is missing
            log.warning("approval.not_shown", approval=row.id, error=str(error))


class _TurnAsk:
    """The asking side of one turn. Implements `agent_core.tools.ports.Ask`."""

    def __init__(
        self,
        approvals: Approvals,
        lease: TurnLease,
        address: ChatAddress,
        person: str,
        reply_to: str | None,
        *,
        attended: bool,
    ) -> None:
        self._approvals = approvals
        self.lease = lease
        self.address = address
        self.person = person
        self.reply_to = reply_to
        self.attended = attended

    async def approve(self, call_id: str, what: str) -> bool:
        """Ask an owner to allow exactly `what`, once."""
        return await self._approvals.approve(self, call_id, what)

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        """Ask the person of the turn."""
        return await self._approvals.clarify(self, call_id, question, options)


def fenced(text: str) -> str:
    """`text` as a code block that nothing in it can end."""
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _backticks(text: str) -> list[str]:
    return "".join(ch if ch == "`" else " " for ch in text).split()


def _asks(row: Approval) -> str:
    return f"ask-{row.id}"
