"""The one worker that tells the external memory what the outbox holds: in order, at least once, with back-off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from agent_core.memory.providers.circuit import State
from agent_core.memory.providers.manager import MemoryManager
from agent_core.memory.providers.ports import (
    FactRecord,
    HearsDelegation,
    HearsSessions,
    ProviderError,
    ProviderRefused,
    TurnRecord,
)
from state.errors import StateError
from state.memory_outbox import MOST, MemoryWrite, NewMemoryWrite, WriteKind
from state.store import Store

log = structlog.get_logger("agent_core.memory")

BOUND = 60.0
"""Seconds for one try; less than a claim lasts."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds between two tries of the same row: the first, doubled each time, and the longest."""
STUCK = 12
"""Tries after which a row that a reachable provider still does not take is set aside."""
LOOK = 15.0
"""Seconds after which the outbox is looked at without being woken: other processes write to it too."""
TEXT_CHARS = 20_000
"""Of what one side said in a turn; what is longer is cut before it is sent."""

Counted = Callable[[str], None]


def part(text: str, most: int = TEXT_CHARS) -> str:
    """The text, cut where it is longer than a memory needs."""
    return text if len(text) <= most else f"{text[:most]}\n[cut: {len(text) - most:,} more characters]"


class WriteBack:
    """Sends rows of the outbox to the provider. `counted` is told the outcome of each: sent, gone, again, refused."""

    def __init__(
        self,
        store: Store,
        manager: MemoryManager,
        *,
        counted: Counted = lambda outcome: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        bound: float = BOUND,
    ) -> None:
        self._store = store
        self._manager = manager
        self._counted = counted
        self._sleep = sleep
        self._bound = bound
        self._wake = asyncio.Event()
        self._tries = 0

    def wake(self) -> None:
        """There is a new row. Never blocks."""
        self._wake.set()

    async def add(self, new: NewMemoryWrite) -> bool:
        """Add a row that belongs to no transaction; False where it is there already, or too many wait."""
        added = await self._store.memory_outbox.add(new)
        self.wake()
        return added

    async def run(self) -> None:
        """Send until cancelled. The one worker of a process; several processes keep the order among them."""
        while True:
            self._wake.clear()
            try:
                more = await self.step()
            except StateError as error:
                log.warning("memory.store_failed", error=str(error))
                self._tries, more = self._tries + 1, False
            except Exception:  # the boundary of the worker: a defect here costs the memory a while, never the daemon
                log.exception("memory.defect")
                self._tries, more = self._tries + 1, False
            if more:
                continue
            pause = self._pause()
            if self._tries:
                await self._sleep(pause)
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _pause(self) -> float:
        if not self._tries:
            return LOOK
        return min(FIRST * 2.0 ** min(self._tries - 1, 16), LONGEST) * random.uniform(0.75, 1.0)

    async def step(self) -> bool:
        """Try the oldest row. True where the next one may follow at once."""
        outbox, name = self._store.memory_outbox, self._manager.name
        if self._manager.circuit.state is not State.FINE:
            self._tries = max(self._tries, 3)
            return False
        write = await outbox.claim(name)
        if write is None:
            self._tries = 0
            return False
        try:
            sent = await self._send(write)
        except ProviderRefused as error:
            await self._refuse(write, str(error))
        except ProviderError as error:
            if write.attempts + 1 >= STUCK and await self._is_there():
                await self._refuse(write, f"not taken in {write.attempts + 1} tries: {error}")
            else:
                await outbox.put_back(write, str(error))
                self._counted("again")
                self._tries += 1
                return False
        except asyncio.CancelledError:
            await asyncio.shield(outbox.put_back(write, "the process ended"))
            raise
        else:
            await outbox.done(write)
            self._counted("sent" if sent else "gone")
        self._tries = 0
        return True

    async def _refuse(self, write: MemoryWrite, why: str) -> None:
        log.error("memory.refused", provider=write.provider, kind=write.kind, row=write.id, error=why)
        await self._store.memory_outbox.refuse(write, why)
        self._counted("refused")

    async def _is_there(self) -> bool:
        try:
            await self._manager.circuit.call(self._manager.provider.is_available, "look", self._bound)
        except ProviderError:
            return False
        return True

    async def _send(self, write: MemoryWrite) -> bool:
        """Tell the provider; False where there is nothing to be told any more."""
        work = await self._work(write)
        if work is None:
            log.info("memory.gone", provider=write.provider, kind=write.kind, row=write.id)
            return False
        await self._manager.circuit.call(work, f"write {write.kind}", self._bound, counts=False)
        return True

    async def _work(self, write: MemoryWrite) -> Callable[[], Awaitable[None]] | None:
        provider, place = self._manager.provider, self._manager.place(write.label)
        again = write.attempts > 0
        if write.kind is WriteKind.TURN:
            assert write.turn_id is not None
            words = await self._store.memory_outbox.exchange(write.session_id, write.turn_id, write.label)
            if words is None:
                return None
            turn = TurnRecord(
                key=write.key,
                place=place,
                session_id=write.session_id,
                said=part(words.said),
                answered=part(words.answered),
                at=write.created_at,
                again=again,
            )
            return lambda: provider.on_turn_end(turn)
        if write.kind is WriteKind.SESSION_END:
            hears = provider
            if not isinstance(hears, HearsSessions):
                return None
            return lambda: hears.on_session_end(write.session_id, place)
        fact = FactRecord(
            key=write.key,
            place=place,
            session_id=write.session_id,
            text=part(write.payload.get("text", "")),
            at=write.created_at,
            again=again,
        )
        if write.kind is WriteKind.DELEGATION:
            delegates, task = provider, part(write.payload.get("task", ""), 2_000)
            if isinstance(delegates, HearsDelegation):
                return lambda: delegates.on_delegation(fact, task)
        return lambda: provider.on_memory_write(fact)

    async def left(self) -> list[str]:
        """What is still to be told, in words: for the end of the process."""
        waiting, refused = await self._store.memory_outbox.counts(self._manager.name)
        name = self._manager.name
        told = [f"{waiting} writes to the memory {name}, which go on after the next start"] if waiting else []
        if waiting >= MOST:
            told.append(f"no more than {MOST:,} can wait: newer ones were not taken")
        return told + ([f"{refused} writes that {self._manager.name} has refused"] if refused else [])
