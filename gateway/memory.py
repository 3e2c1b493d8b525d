"""The external memory of a process: made from the configuration, heard at the start of a turn, told at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agent_core.memory.providers.factory import make_provider
from agent_core.memory.providers.manager import MemoryManager, Spawn
from agent_core.memory.providers.ports import HearsSessions
from agent_core.memory.providers.tools import KeepMemory, RecallMemory, own_label
from agent_core.memory.providers.writeback import WriteBack
from agent_core.tools.ports import Tool
from agent_core.turn import Final
from gateway.config_types import Config
from gateway.metrics import Metrics
from state.audience import Viewer
from state.ids import SessionId, TurnId
from state.memory_outbox import NewMemoryWrite, WriteKind
from state.records import TurnLease, TurnState
from state.store import Store


class Memory:
    """The manager and the worker of the active provider."""

    def __init__(
        self, manager: MemoryManager, store: Store, metrics: Metrics, *, writeback: WriteBack | None = None
    ) -> None:
        self.manager = manager
        self.writeback = writeback or WriteBack(store, manager, counted=metrics.memory_write)
        self._store = store
        self._metrics = metrics

    def tools(self) -> Sequence[Tool]:
        """What the model may use itself."""
        if self.manager.settings.mode == "context":
            return ()
        return RecallMemory(self.manager), KeepMemory(self.manager, self.writeback.add)

    # -- turns

    def of_turn(self, lease: TurnLease, viewer: Viewer, final: Final) -> NewMemoryWrite | None:
        """What the memory is to be told of this turn, committed with its end; None for nothing: a turn that was not
        answered leaves nothing behind."""
        label = own_label(viewer)
        if final.state is not TurnState.ANSWERED or label is None:
            return None
        return NewMemoryWrite(
            provider=self.manager.name,
            key=f"turn:{lease.turn_id}",
            kind=WriteKind.TURN,
            session_id=lease.session_id,
            turn_id=lease.turn_id,
            label=label,
        )

    def turn_ended(self, session_id: SessionId, said: str, viewer: Viewer) -> None:
        """Its end is committed. Never blocks."""
        self.writeback.wake()
        self.manager.turn_ended(session_id, said, viewer)

    def notice(self, session_id: SessionId) -> str:
        """What the person is told with this answer, once an outage."""
        told = self.manager.notice(session_id)
        return f"\n\n[Note: {told}.]" if told else ""

    # -- what others tell it

    async def memory_written(
        self, session_id: SessionId, turn_id: TurnId | None, viewer: Viewer, key: str, text: str
    ) -> bool:
        """The built-in memory was written to (mirror). `key` is the identity of that write. False: told already."""
        label = own_label(viewer)
        if label is None or not text.strip():
            return False
        return await self.writeback.add(
            NewMemoryWrite(
                provider=self.manager.name,
                key=f"memory:{key}",
                kind=WriteKind.MEMORY,
                session_id=session_id,
                turn_id=turn_id,
                label=label,
                payload={"text": text},
            )
        )

    async def delegated(
        self, session_id: SessionId, turn_id: TurnId, viewer: Viewer, key: str, task: str, result: str
    ) -> bool:
        """A subagent has ended its task. False: that is told already."""
        label = own_label(viewer)
        if label is None:
            return False
        return await self.writeback.add(
            NewMemoryWrite(
                provider=self.manager.name,
                key=f"delegation:{key}",
                kind=WriteKind.DELEGATION,
                session_id=session_id,
                turn_id=turn_id,
                label=label,
                payload={"task": task, "text": f"Delegated: {task}\nResult: {result}"},
            )
        )

    async def session_ended(self, session_id: SessionId, viewer: Viewer) -> bool:
        """A session is over: told after all its turns. False: that is told already, or the provider does not care."""
        label = own_label(viewer)
        self.manager.forget(session_id)
        if label is None or not isinstance(self.manager.provider, HearsSessions):
            return False
        return await self.writeback.add(
            NewMemoryWrite(
                provider=self.manager.name,
                key=f"end:{session_id}:{label}",
                kind=WriteKind.SESSION_END,
                session_id=session_id,
                label=label,
            )
        )

    async def forget_session(self, session_id: SessionId) -> int:
        """What is still to be told of a session, and what is held of it in this database, is forgotten; how many rows
        that were. What a service was told already it keeps."""
        self.manager.forget(session_id)
        dropped = await self._store.memory_outbox.drop_session(session_id)
        return dropped + await self._store.local_memories.forget_session(session_id)

    # -- the life

    async def gauges(self) -> None:
        """Levels for `/metrics`."""
        waiting, refused = await self._store.memory_outbox.counts(self.manager.name)
        self._metrics.now("memory_writes_waiting", waiting)
        self._metrics.now("memory_writes_refused", refused)
        self._metrics.now("memory_away", 0 if self.manager.circuit.state.value == "fine" else 1)


def make_memory(config: Config, store: Store, metrics: Metrics, spawn: Spawn) -> Memory | None:
    """The memory that the configuration names; None for none."""
    settings = config.memory.active()
    if settings is None:
        return None
    provider = make_provider(settings, store=store, home=config.home)
    return Memory(MemoryManager(provider, settings, spawn=spawn), store, metrics)


def begin_memory(memory: Memory | None, start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]) -> None:
    """Start the long-lived tasks of the memory, by name, in the composition root."""
    if memory is not None:
        start(memory.writeback.run(), "memory-writes")
        start(memory.manager.watch(), "memory-watch")


async def memory_left(memory: Memory | None) -> list[str]:
    """What the memory has still to be told at the end of the process."""
    return [] if memory is None else await memory.writeback.left()
