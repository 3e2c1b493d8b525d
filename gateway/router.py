"""`SessionRouter`: from the key of a conversation line to the session that it is bound to now.

The binding is read from the store at every turn and never cached: another process may have moved it (B61).
A missing one is claimed as PENDING in one transaction before anything else happens, so that two events
that arrive together make one session.
"""

from __future__ import annotations

import asyncio

import structlog

from adapters.events import ChatAddress, MessageEvent
from gateway.convert import address_to_json
from gateway.inputs import one_line
from gateway.keys import person_of
from state.errors import Conflict, StoreBusy
from state.ids import SessionKey
from state.records import BindingState, Session, SessionBinding
from state.store import Store

log = structlog.get_logger("gateway.router")

CORRECTION = "edited after its answer; it counts from the next message on, /retry runs it again"
NOTED = "noted; the next answer here may take it into account"
"""The detail of reactions and of people who come and go."""
TITLE = 50
"""A session is called by its first words until somebody names it."""
CLAIM_TTL = 30.0
CLAIM_WAIT = 0.05


class SessionRouter:
    """Resolves keys. Stateless: everything is in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def resolve(self, key: SessionKey, event: MessageEvent) -> tuple[SessionBinding, Session | None]:
        """The binding of `key`, made if there is none, and its session; None where it has moved away.

        Raises `StoreBusy` where another process holds the claim for longer than its life.
        """
        address = address_to_json(event.address)
        for _ in range(int(CLAIM_TTL * 2 / CLAIM_WAIT)):
            binding = await self._store.sessions.claim(key, self._store.owner, address, ttl=CLAIM_TTL)
            if binding.state is BindingState.CLOSED:
                return binding, None
            if binding.state is BindingState.ACTIVE:
                assert binding.session_id is not None
                session = await self._store.sessions.get(binding.session_id)
                if session is not None:
                    if binding.address_json != address:
                        await self._store.sessions.update_address(key, address)
                    return binding, session
            elif binding.claim_owner == self._store.owner:
                try:
                    return await self._store.sessions.activate(
                        key,
                        binding.version,
                        person=self.person(event.address, event.sender.id),
                        model=event.model,
                        title=one_line(event.text, TITLE) or None,
                    )
                except Conflict:
                    log.warning("binding.conflict", key=key)
            await asyncio.sleep(CLAIM_WAIT)
        raise StoreBusy(f"another process makes the session of {key} and does not end")

    @staticmethod
    def person(address: ChatAddress, sender_id: str) -> str:
        """Whose session it is: that of the person who began it."""
        return person_of(address.platform, sender_id)
