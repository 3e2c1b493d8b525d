"""The read side for adapters whose clients ask: what became of a message, which sessions there are.

Implements `adapters.ports.Conversations`. Whatever belongs to another person is None, like what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from adapters.events import ChatAddress
from adapters.ports import Answer, SessionInfo, SpokenMessage
from gateway.convert import (
    address_from_json,
    address_to_json,
    blocks_from_json,
    blocks_text,
    event_from_row,
)
from gateway.keys import person_of, session_key
from gateway.router import SessionRouter
from state.errors import Conflict
from state.ids import DeliveryId
from state.records import BindingState, InboxEvent, Session
from state.store import Store


class Conversations:
    """Reads only, except for `fork`. Every call is bound to a person."""

    def __init__(self, store: Store, router: SessionRouter) -> None:
        self._store = store
        self._router = router

    async def answer(self, address: ChatAddress, message_id: str) -> Answer | None:
        """See the port."""
        rows = await self._store.inbox.find(address.platform, address.account, message_id, key=session_key(address))
        return None if not rows else await self._answer_of(rows[-1])

    async def find_answer(self, platform: str, account: str, person: str, message_id: str) -> Answer | None:
        """See the port."""
        rows = await self._store.inbox.find(platform, account, message_id)
        own = [row for row in rows if person_of(row.platform, row.sender_id) == person]
        return None if not own else await self._answer_of(own[-1])

    async def _answer_of(self, row: InboxEvent) -> Answer:
        text, session_id, finish, tokens_in, tokens_out = "", None, None, 0, 0
        if row.turn_id is not None:
            turn = await self._store.turns.get(row.turn_id)
            session_id = None if turn is None else turn.session_id
            for delivery in await self._store.outbox.of_turn(row.turn_id):
                if delivery.kind == "final":
                    text = blocks_text(blocks_from_json(delivery.blocks))
            for message in await self._store.transcript.rows_of(row.turn_id, include_inactive=True):
                if message.role == "assistant" and message.finish_reason is not None:
                    finish = message.finish_reason
            total = await self._store.usage.of_turn(row.turn_id)
            tokens_in, tokens_out = total.input_tokens, total.output_tokens
        else:
            delivery_row = await self._store.outbox.get(DeliveryId(f"d-e{row.id}"))
            text = "" if delivery_row is None else blocks_text(blocks_from_json(delivery_row.blocks))
        event = event_from_row(row)
        return Answer(
            event_id=row.id,
            message_id=row.message_id,
            address=event.address,
            fate=row.fate.value,
            detail=row.detail,
            text=text,
            session_id=session_id,
            turn_id=row.turn_id,
            received_at=row.received_at,
            finish_reason=finish,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            platform_data=event.platform_data,
        )

    async def sessions(self, person: str, limit: int = 50) -> Sequence[SessionInfo]:
        """See the port."""
        infos = []
        for session in await self._store.sessions.list_for(person, limit=limit):
            bindings = await self._store.sessions.bindings_of(session.id)
            address = address_from_json(bindings[0].address_json) if bindings else None
            infos.append(
                SessionInfo(session_id=session.id, title=session.title, created_at=session.created_at, address=address)
            )
        return infos

    async def _readable(self, person: str, session_id: str) -> Session | None:
        session = await self._store.sessions.get(session_id)  # type: ignore[arg-type]
        return session if session is not None and session.person == person else None

    async def messages(self, person: str, session_id: str) -> Sequence[SpokenMessage] | None:
        """See the port."""
        session = await self._readable(person, session_id)
        if session is None:
            return None
        return [
            SpokenMessage(role=row.role, text=row.content, created_at=row.created_at)
            for row in await self._store.transcript.load(session.id)
            if row.role in ("user", "assistant") and row.content
        ]

    async def fork(self, source: ChatAddress, message_id: str, target: ChatAddress) -> bool:
        """See the port."""
        rows = await self._store.inbox.find(source.platform, source.account, message_id, key=session_key(source))
        row = rows[-1] if rows else None
        if row is None or row.turn_id is None:
            return False
        turn = await self._store.turns.get(row.turn_id)
        if turn is None:
            return False
        messages = await self._store.transcript.rows_of(turn.id)
        if not messages:
            return False
        person = person_of(row.platform, row.sender_id)
        child = await self._store.sessions.fork(turn.session_id, messages[-1].id, person=person, reason="fork")
        key = session_key(target)
        binding = await self._store.sessions.binding(key)
        if binding is not None and binding.state is not BindingState.PENDING:
            return False
        try:
            await self._store.sessions.rebind(
                key,
                child.id,
                expect_version=None if binding is None else binding.version,
                address_json=address_to_json(target),
            )
        except Conflict:
            return False
        return True
