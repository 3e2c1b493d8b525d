"""Short words for what the tests of the store do again and again."""

from __future__ import annotations

from datetime import UTC, datetime

from state.ids import DeliveryId, EventId, SessionId, SessionKey, TurnId, new_turn_id
from state.records import NewChunk, NewDelivery, NewEvent, NewMessage, Session, ToolCall, ToolStatus, TurnLease
from state.store import Store

KEY = SessionKey("p:a:~:c:~:~")
ADDRESS = '{"platform":"p","account":"a","chat_id":"c"}'


def event(number: int, *, key: SessionKey = KEY, text: str = "hello") -> NewEvent:
    """An event of a person."""
    return NewEvent(
        dedup_id=f"d{number}",
        platform="p",
        account="a",
        kind="message",
        key=key,
        message_id=f"m{number}",
        sender_id="u",
        payload=text,
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def said(text: str, *, role: str = "user", **more: object) -> NewMessage:
    """A row of the transcript."""
    return NewMessage(role=role, content=text, wire=f'{{"role":"{role}","content":"{text}"}}', **more)  # type: ignore[arg-type]


def asks(*names: str) -> list[NewMessage]:
    """An assistant row with calls, and the rows of the calls."""
    calls = tuple(ToolCall(id=f"c{n}", name=name, arguments="{}") for n, name in enumerate(names))
    rows = [NewMessage(role="assistant", content="", wire='{"role":"assistant"}', tool_calls=calls)]
    rows += [
        NewMessage(role="tool", content="", tool_call_id=call.id, tool_name=call.name, tool_status=ToolStatus.PLANNED)
        for call in calls
    ]
    return rows


def delivery(
    name: str, *texts: str, adopts: str | None = None, kind: str = "final", chat: str = "p:a:c"
) -> NewDelivery:
    """Something to be said in as many chunks as texts."""
    return NewDelivery(
        id=DeliveryId(name),
        platform="p",
        account="a",
        chat=chat,
        address_json=ADDRESS,
        kind=kind,
        blocks="[]",
        chunks=tuple(NewChunk(payload=text, plain=text) for text in texts),
        adopts=None if adopts is None else DeliveryId(adopts),
    )


class Rig:
    """A store with the steps of a turn."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = 0

    async def session(self, key: SessionKey = KEY, person: str = "p:u") -> Session:
        """The session of a key, made where there is none."""
        binding = await self.store.sessions.claim(key, self.store.owner, ADDRESS)
        if binding.session_id is None:
            _, session = await self.store.sessions.activate(key, binding.version, person=person)
            return session
        found = await self.store.sessions.get(binding.session_id)
        assert found is not None
        return found

    async def event(self, key: SessionKey = KEY) -> EventId:
        """A new event."""
        self.count += 1
        return (await self.store.inbox.accept(event(self.count, key=key))).event_id

    async def lease(self, session: Session | None = None) -> TurnLease:
        """A lease for a new turn."""
        session = session or await self.session()
        return await self.store.leases.acquire(session.id, new_turn_id())

    async def begin(self, text: str = "hello", session: Session | None = None) -> tuple[TurnLease, EventId]:
        """A turn that has begun."""
        event_id, lease = await self.event(), await self.lease(session)
        await self.store.turns.begin(lease, KEY, [event_id], [said(text)])
        return lease, event_id

    async def turn(self, text: str, answer: str = "yes", session: Session | None = None) -> TurnId:
        """A turn from its begin to its end."""
        from state.records import Fate, TurnState

        lease, event_id = await self.begin(text, session)
        await self.store.turns.finish(
            lease,
            state=TurnState.ANSWERED,
            rows=[said(answer, role="assistant")],
            fates=[(event_id, Fate.ANSWERED, "")],
            delivery=delivery(f"d-{lease.turn_id}", answer),
        )
        return lease.turn_id

    async def texts(self, session_id: SessionId) -> list[str]:
        """What is replayed."""
        return [row.content for row in await self.store.transcript.load(session_id)]
