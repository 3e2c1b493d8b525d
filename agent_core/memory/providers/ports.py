"""The port of an external memory. Small and mandatory; whatever else one can do is a Protocol of its own.

A *place* is where something is kept and found: it is made of one audience label (`state.audience`), so that what was
said in private is never found in a room. A provider sees opaque places only. Every method may be slow, wrong or
broken: the manager bounds each call, cuts what comes back, and tells a `ProviderError` by its remedy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NewType, Protocol, runtime_checkable

from state.ids import SessionId

Place = NewType("Place", str)
"""An identifier of letters, digits and hyphens, at most 64 characters."""

TEXTS = 20
"""Pieces of one answer that are used; a provider need not give more."""


def place_of(namespace: str, label: str) -> Place:
    """The place of an audience label. It tells nobody who that is, and is the same in every process and version."""
    return Place(f"{namespace}-{hashlib.sha256(label.encode()).hexdigest()[:32]}")


class ProviderError(Exception):
    """A provider could not do what was asked. The text is for logs: no secrets, nothing that was said."""


class ProviderAway(ProviderError):
    """It cannot be reached, is overloaded, or is broken at the moment: the same thing may work later."""


class ProviderRefused(ProviderError):
    """It does not take this, now or later: the very same thing need not be tried again."""


class ProviderLied(ProviderAway):
    """Its answer is not what its interface promises: too long, of another form, of another type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A turn that was answered. `key` is its identity: the same key twice is the same turn. `again` is true where an
    earlier try of it may have arrived."""

    key: str
    place: Place
    session_id: SessionId
    said: str
    answered: str
    at: datetime
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRecord:
    """One text that was written to the built-in memory, or that is to be kept."""

    key: str
    place: Place
    session_id: SessionId
    text: str
    at: datetime
    again: bool


class MemoryProvider(Protocol):
    """An external memory. Calls of different sessions are concurrent; writes come one at a time, in order."""

    @property
    def name(self) -> str:
        """As in the configuration."""
        ...

    async def is_available(self) -> str:
        """Look whether it can be used: one cheap request. A line about what was found. Raises a ProviderError."""
        ...

    async def prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """What is known about the query in these places, best first, each text by itself; [] for nothing. The places
        are those that whoever hears the answer may see, the nearest first."""
        ...

    async def on_turn_end(self, turn: TurnRecord) -> None:
        """Keep a turn. Called in order, at least once."""
        ...

    async def on_memory_write(self, fact: FactRecord) -> None:
        """Keep a fact. Called in order, at least once."""
        ...

    async def shutdown(self) -> None:
        """Release everything. Called once, last."""
        ...


@runtime_checkable
class HearsTurnStart(Protocol):
    """Wants to know that a turn begins, before it is asked anything."""

    async def on_turn_start(self, session_id: SessionId, places: Sequence[Place]) -> None:
        """A turn begins in these places."""
        ...


@runtime_checkable
class HearsSessions(Protocol):
    """Keeps something by session."""

    async def on_session_start(self, session_id: SessionId, place: Place) -> None:
        """The first turn of a session (in this process) begins."""
        ...

    async def on_session_end(self, session_id: SessionId, place: Place) -> None:
        """The session is over. Called in order after its turns, at least once."""
        ...


@runtime_checkable
class HasStaticBlock(Protocol):
    """Has something for the system prompt, frozen at the start of a session."""

    async def static_block(self, places: Sequence[Place]) -> Sequence[str]:
        """Lasting facts about whoever is in these places."""
        ...


@runtime_checkable
class PrefetchesAhead(Protocol):
    """Has something that takes too long for the start of a turn."""

    async def queue_prefetch(self, query: str, places: Sequence[Place]) -> Sequence[str]:
        """After a turn with this query: what may be of use to the next one. May take half a minute."""
        ...


@runtime_checkable
class HearsCompression(Protocol):
    """Wants to act before the older part of a conversation is summed up."""

    async def on_pre_compress(self, session_id: SessionId, place: Place) -> None:
        """The session is about to be summed up; all its turns have been told before."""
        ...


@runtime_checkable
class HearsDelegation(Protocol):
    """Keeps delegated work in a way of its own; without it the result is kept as a fact."""

    async def on_delegation(self, fact: FactRecord, task: str) -> None:
        """A subagent has ended its task with the result `fact.text`."""
        ...
