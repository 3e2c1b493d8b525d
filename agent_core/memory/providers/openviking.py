"""OpenViking: a file system of memories, by peer (extra `openviking`: the project's own small SDK).

A place is a peer of the account's user. Memories of the user itself, which every place would share, are switched off,
and whatever else comes back is left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agent_core.memory.providers import bounded
from agent_core.memory.providers.bounded import fault_of_status, field, texts
from agent_core.memory.providers.ports import FactRecord, Place, ProviderAway, ProviderLied, TurnRecord
from agent_core.memory.providers.remote import Remote, each_of
from state.ids import SessionId

if TYPE_CHECKING:
    from openviking_sdk import AsyncHTTPClient

T = TypeVar("T")

SERVER = "http://127.0.0.1:1933"
FOUND = 10
POLICY = {"self": {"enabled": False}, "peer": {"enabled": True}}
COMMITS = {"message_count_threshold": 20, "idle_timeout_seconds": 300}
"""When it commits a session by itself: after so many messages, or so many seconds of quiet (its shortest)."""
_REFUSED = {"INVALID_ARGUMENT": 422, "INVALID_URI": 422, "FAILED_PRECONDITION": 422}


class OpenVikingMemory(Remote["AsyncHTTPClient"]):
    """See `MemoryProvider`, `HearsSessions` and `HearsCompression`."""

    module = "openviking_sdk"

    async def _make(self) -> AsyncHTTPClient:
        from openviking_sdk import AsyncHTTPClient  # noqa: PLC0415 - an extra

        settings = self.settings
        client = AsyncHTTPClient(
            url=settings.base_url or SERVER,
            api_key=settings.api_key or None,
            account=settings.account or None,
            timeout=bounded.READ,
            extra_headers=dict(bounded.PLAIN),
            event_hooks={"response": [bounded.cut_async]},
        )
        await client.initialize()
        return client

    async def _release(self, client: AsyncHTTPClient) -> None:
        await client.close()

    async def _as(self, place: Place | None, what: str, work: Callable[[AsyncHTTPClient], Awaitable[T]]) -> T:
        """Run `work` as the peer of a place."""

        async def there(client: AsyncHTTPClient) -> T:
            from openviking_sdk import OpenVikingError, use_actor_peer  # noqa: PLC0415 - an extra

            with use_actor_peer(place):
                try:
                    return await work(client)
                except OpenVikingError as error:
                    raise fault_of_status(_REFUSED.get(error.code), f"{what} ({error.code})") from error

        return await self._with(what, there)

    async def is_available(self) -> str:
        """See `MemoryProvider`."""
        if not await self._as(None, "health", lambda client: client.health()):
            raise ProviderAway("health: not ok")
        return "it is healthy"

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """See `MemoryProvider`."""

        async def one(place: Place) -> Sequence[str]:
            found = await self._as(
                place, "find", lambda client: client.find(query, limit=FOUND, options={"context_type": "memory"})
            )
            rows = field(found, "memories", what="find")
            if not isinstance(rows, list):
                raise ProviderLied("find: no list of memories")
            own = f"/peers/{place}/memories/"
            mine = [row for row in rows if own in str(field(row, "uri", what="find"))]
            return texts([row.get("overview") or row.get("abstract") or "" for row in mine], "find")

        return await each_of(places, one)

    @staticmethod
    def _session(session_id: SessionId, place: Place) -> str:
        return f"{session_id}-{place[-8:]}"

    async def on_session_start(self, session_id: SessionId, place: Place) -> None:
        """See `HearsSessions`: a session that keeps its memories by peer."""
        name = self._session(session_id, place)
        options: Any = {"memory_policy": dict(POLICY), "auto_commit_policy": dict(COMMITS)}
        made = await self._as(place, "session", lambda client: client.create_session(name, options=options))
        field(made, "session_id", what="session")

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """See `MemoryProvider`. An earlier try is looked for in the session before the turn is told again."""
        await self._tell(turn, turn.said, turn.answered)

    async def on_memory_write(self, fact: FactRecord) -> None:
        """See `MemoryProvider`: a message that says what is to be remembered, and a commit."""
        await self._tell(fact, f"Remember this: {fact.text}", None)
        await self._commit(fact.session_id, fact.place)

    async def _tell(self, what: TurnRecord | FactRecord, said: str, answered: str | None) -> None:
        name, place = self._session(what.session_id, what.place), what.place
        await self.on_session_start(what.session_id, place)  # here too: the policy must stand before the first message
        common: dict[str, Any] = {"peer_id": place, "turn_id": what.key, "created_at": what.at.isoformat()}
        messages = [{"role": "user", "content": said, **common}]
        if answered is not None:
            messages.append({"role": "assistant", "content": answered, **common})

        async def tell(client: AsyncHTTPClient) -> None:
            if what.again and what.key in str(await client.get_session_context(name)):
                return
            told = await client.batch_add_messages(name, messages)
            if field(told, "added", what="messages") != len(messages):  # the SDK takes any answer below 400 for a yes
                raise ProviderLied("messages: not all were added")

        await self._as(place, "messages", tell)

    async def on_session_end(self, session_id: SessionId, place: Place) -> None:
        """See `HearsSessions`: OpenViking draws its memories from a session when that is committed."""
        await self._commit(session_id, place)

    async def on_pre_compress(self, session_id: SessionId, place: Place) -> None:
        """See `HearsCompression`: the same, before the older part is summed up."""
        await self._commit(session_id, place)

    async def _commit(self, session_id: SessionId, place: Place) -> None:
        name = self._session(session_id, place)
        done = await self._as(place, "commit", lambda client: client.commit_session(name))
        field(done, "status", what="commit")
