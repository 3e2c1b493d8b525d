"""Honcho: what it concludes about a person from what that person says (extra `honcho`).

A place is a peer that Honcho forms a picture of; the agent is a peer that it forms none of. A conversation at a place
is a session of its own there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agent_core.memory.providers import bounded
from agent_core.memory.providers.bounded import texts
from agent_core.memory.providers.lane import Lane
from agent_core.memory.providers.ports import FactRecord, Place, TurnRecord
from agent_core.memory.providers.remote import Remote, each_of
from state.ids import SessionId

if TYPE_CHECKING:
    from honcho import Honcho

T = TypeVar("T")

CONCLUSIONS = 12
MARK = "tidings"
"""The field of a message's metadata that holds its identity here."""


class HonchoMemory(Remote["Honcho"]):
    """See `MemoryProvider`, `HasStaticBlock` and `PrefetchesAhead`."""

    async def _make(self) -> Honcho:
        return await Lane.blocking(self._connect)

    def _connect(self) -> Honcho:
        from honcho import Honcho  # noqa: PLC0415 - an extra

        settings = self.settings
        return Honcho(
            api_key=settings.api_key or "none",
            base_url=settings.base_url or None,
            environment=None if settings.base_url else "production",
            workspace_id=settings.account or settings.namespace,
            timeout=bounded.READ,
            max_retries=0,
            http_client=bounded.client(),
        )

    async def _release(self, client: Honcho) -> None:
        await Lane.blocking(client._http._client.close)  # noqa: SLF001 - it closes only a client of its own

    async def _call(self, what: str, work: Callable[[Honcho], T]) -> T:
        return await self._with(what, lambda client: Lane.blocking(lambda: work(client)))

    async def is_available(self) -> str:
        """See `MemoryProvider`."""
        await self._call("workspace", lambda client: client.peer(self._agent, metadata={"agent": True}))
        return f"workspace {self.settings.account or self.settings.namespace}"

    @property
    def _agent(self) -> str:
        return f"{self.settings.namespace}-agent"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""

        async def one(place: Place) -> Sequence[str]:
            def ask(client: Honcho) -> Any:
                peer = client.peer(place)
                return peer.representation(search_query=query, search_top_k=CONCLUSIONS, max_conclusions=CONCLUSIONS)

            return _lines(await self._call("representation", ask))

        return await each_of(places, one)

    async def queue_prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `PrefetchesAhead`: what Honcho says when it is asked, which takes it long."""

        def ask(client: Honcho) -> Any:
            question = f"What should an assistant know about this person for the next message? The last was: {query}"
            return client.peer(places[0]).chat(question, reasoning_level="minimal")

        return _lines(await self._call("chat", ask) or "")

    async def static_block(self, places: Sequence[Place]) -> Sequence[str]:
        """See `HasStaticBlock`: the peers' cards."""

        async def one(place: Place) -> Sequence[str]:
            card = await self._call("card", lambda client: client.peer(place).get_card())
            return texts(card or [], "card")

        return await each_of(places, one)

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`. An earlier try is looked for before the turn is told again."""

        def tell(client: Honcho) -> None:
            session = self._session(client, turn.session_id, turn.place)
            if turn.again and session.messages(filters={"metadata": {MARK: turn.key}}, size=1).items:
                return
            person, agent, mark = client.peer(turn.place), client.peer(self._agent), {MARK: turn.key}
            session.add_messages(
                [
                    person.message(turn.said, metadata=mark, created_at=turn.at),
                    agent.message(turn.answered, metadata=mark, created_at=turn.at),
                ]
            )

        await self._call("messages", tell)

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`: a conclusion about the peer."""

        def tell(client: Honcho) -> None:
            view = client.peer(fact.place).conclusions
            if fact.again and any(one.content == fact.text for one in view.query(fact.text, top_k=5)):
                return
            view.create([{"content": fact.text}])

        await self._call("conclusion", tell)

    def _session(self, client: Honcho, session_id: SessionId, place: Place) -> Any:
        from honcho.api_types import SessionPeerConfig  # noqa: PLC0415 - an extra

        return client.session(
            f"{session_id}-{place[-8:]}",
            peers=[
                (place, SessionPeerConfig(observe_me=True, observe_others=False)),
                (self._agent, SessionPeerConfig(observe_me=False, observe_others=False)),
            ],
        )


def _lines(told: Any) -> list[str]:
    """A text as its lines, without headings."""
    (whole,) = texts([told], "representation") or [""]
    return texts([line.lstrip("-*• ") for line in whole.splitlines() if not line.lstrip().startswith("#")], "lines")
