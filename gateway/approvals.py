"""Durable questions to people: approvals (an owner answers) and clarify questions (the person asked does).

A question is a row before it is shown, and shown once: after a crash the call waits on the same row again. It
is answered by its id, never by "yes" in passing; an approval is good for one run, and ends with its turn.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from adapters.events import Button, Buttons, ChatAddress, Delivery, DeliveryKind, Markdown
from gateway.access import Role
from gateway.delivery import Deliveries
from gateway.keys import person_of
from state.clock import Clock
from state.errors import Conflict, NotFound
from state.ids import ApprovalId, TurnId
from state.records import Approval, ApprovalState, TurnLease
from state.store import Store

log = structlog.get_logger("gateway.approvals")

LOOK_EVERY = 2.0
"""Seconds between looks at the row: another process may have taken the press."""
APPROVE, DENY = "approve", "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """`never` asks nobody (the owner's risk). `ttl` is how long a question stays open, in seconds."""

    mode: Literal["ask", "never"] = "ask"
    ttl: float = 3600.0


def fenced(text: str) -> str:
    """`text` exactly as it is, as a code block that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


class Approvals:
    """The service. One a process; presses of any process count."""

    def __init__(self, store: Store, deliveries: Deliveries, *, clock: Clock, settings: ApprovalSettings) -> None:
        self.store = store
        self.deliveries = deliveries
        self.clock = clock
        self.settings = settings
        self._waiting: dict[ApprovalId, asyncio.Event] = {}

    def for_turn(
        self, lease: TurnLease, address: ChatAddress, *, sender_id: str, reply_to: str, can_answer: bool = True
    ) -> TurnAsk:
        """How the tools of one turn ask. `can_answer` is false where nobody is there to press anything."""
        return TurnAsk(self, lease, address, sender_id, reply_to, can_answer=can_answer)

    async def press(self, approval_id: str, value: str, person: str, role: Role) -> str:
        """Answer a question, if `person` may, and say what came of it. One press, one run."""
        found = await self.store.approvals.get(ApprovalId(approval_id.strip()))
        if found is None:
            return "I know no such question."
        if found.kind == "approval" and role != "owner":
            return "Only an owner may answer this."
        if found.kind == "clarify" and person != found.asked:
            return "This question is for somebody else."
        if found.kind == "approval" and value not in (APPROVE, DENY):
            return "Say whether to approve or to deny."
        return await self._answer(found, value, person)

    async def _answer(self, found: Approval, value: str, person: str) -> str:
        approve = value != DENY or found.kind == "clarify"
        try:
            ended = await self.store.approvals.answer(found.id, approve=approve, answer=value, by=person)
        except Conflict:
            now = await self.store.approvals.get(found.id)
            return f"This was answered before ({now.state.value if now else 'gone'}); nothing is changed."
        except NotFound:
            return "I know no such question."
        log.info("approval.answered", id=found.id, state=ended.state.value, by=person)
        if waiting := self._waiting.get(found.id):
            waiting.set()
        if ended.state is ApprovalState.EXPIRED:
            return "Too late: this question has expired, and nothing was run. Ask me again if it is still wanted."
        if found.kind == "clarify":
            return f"Noted: {value}"
        return "Approved, for this one run." if approve else "Denied. It is not run."

    async def take_text(self, turn_id: TurnId, person: str, text: str) -> bool:
        """Let plain words answer the open clarify question of a turn, where `person` is the one asked.

        Never an approval: those take an explicit press or command. False where there is none.
        """
        for found in await self.store.approvals.open_of(turn_id):
            if found.kind == "clarify" and found.asked == person:
                await self._answer(found, text, person)
                return True
        return False

    async def wait(self, approval: Approval) -> Approval:
        """Wait for the end of a question, at most until it expires."""
        event = self._waiting.setdefault(approval.id, asyncio.Event())
        try:
            while approval.state is ApprovalState.PENDING:
                event.clear()
                try:
                    async with asyncio.timeout(LOOK_EVERY):
                        await event.wait()
                except TimeoutError:
                    await self.store.approvals.expire()
                found = await self.store.approvals.get(approval.id)
                if found is None:
                    return approval
                approval = found
            return approval
        finally:
            self._waiting.pop(approval.id, None)


class TurnAsk:
    """Implements `agent_core.tools.ports.Ask` for one turn."""

    def __init__(
        self,
        service: Approvals,
        lease: TurnLease,
        address: ChatAddress,
        sender_id: str,
        reply_to: str,
        *,
        can_answer: bool,
    ) -> None:
        self._service = service
        self._lease = lease
        self._address = address
        self._asked = person_of(address.platform, sender_id)
        self._reply_to = reply_to
        self._can_answer = can_answer

    async def approve(self, call_id: str, what: str) -> bool:
        """See the port."""
        if self._service.settings.mode == "never":
            return True
        if not self._can_answer:
            log.warning("approval.nobody", turn=self._lease.turn_id)
            return False
        question: dict[str, object] = {"what": what}
        text = f"May I run this?\n\n{fenced(what)}\n\nAn owner can answer"
        ended = await self._ask("approval", call_id, question, text, [("Approve", APPROVE), ("Deny", DENY)])
        return ended.state is ApprovalState.APPROVED and await self._service.store.approvals.use(ended.id)

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        """See the port."""
        if not self._can_answer:
            return None
        ended = await self._ask(
            "clarify",
            call_id,
            {"question": question, "options": list(options)},
            question,
            [(one, one) for one in options],
        )
        return ended.answer if ended.state is ApprovalState.APPROVED else None

    async def _ask(
        self,
        kind: Literal["approval", "clarify"],
        call_id: str,
        question: dict[str, object],
        text: str,
        choices: Sequence[tuple[str, str]],
    ) -> Approval:
        service = self._service
        row = await service.store.approvals.create(
            kind,
            self._lease.session_id,
            self._lease.turn_id,
            call_id,
            self._asked,
            json.dumps(question, ensure_ascii=False),
            service.settings.ttl,
        )
        if row.state is ApprovalState.PENDING:
            if kind == "approval":
                text += f" here, or with `/approve {row.id}` or `/deny {row.id}`."
            blocks: list[Markdown | Buttons] = [Markdown(text=text)]
            if choices:
                buttons = tuple(Button(id=row.id, label=label, value=value) for label, value in choices)
                blocks.append(Buttons(buttons=buttons))
            await service.deliveries.say(
                Delivery(
                    delivery_id=f"d-{row.id}",  # the same after a crash: a question is shown once
                    address=self._address,
                    kind=DeliveryKind.APPROVAL,
                    blocks=tuple(blocks),
                    created_at=service.clock.utc(),
                    reply_to=self._reply_to,
                ),
                session_id=self._lease.session_id,
                turn_id=self._lease.turn_id,
            )
        return await service.wait(row)
