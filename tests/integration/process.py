"""A process without a daemon around it: the real core and store, the memory platform, a model peer on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.memory.adapter import BareMemoryAdapter, MemoryAdapter
from gateway.access import AccessSettings
from gateway.config import load
from gateway.core import Core, assemble
from gateway.health import Health
from gateway.memory import begin_memory
from gateway.metrics import Metrics
from gateway.supervisor import Supervisor
from state.clock import SYSTEM
from state.ids import Owner
from state.owners import this_process
from state.records import Fate, InboxEvent
from state.store import Store
from tests.counterparts.model_server import ModelServer

ACCESS = AccessSettings(
    owners=frozenset({"memory:ann"}),
    allow={"memory": frozenset({"ben"})},
    guest_tools=frozenset({"clarify"}),
    member_tools=frozenset({"todo"}),
    owner_tools=frozenset({"files", "terminal"}),
)


def dead_owner(role: str = "daemon") -> Owner:
    """A process of this pid that began at another time: to everybody else it is dead."""
    parts = this_process(role).split(":")
    parts[4] = "1"
    return Owner(":".join(parts))


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One process at work."""

    core: Core
    store: Store
    platform: MemoryAdapter
    model: ModelServer

    async def fate(self, message_id: str, seconds: float = 10.0) -> tuple[str, str]:
        """Wait for the end of a message; its fate and detail."""
        await self.platform.room.until(lambda: message_id in self.platform.fates, seconds)
        return self.platform.fates[message_id]

    async def row(self, message_id: str) -> InboxEvent:
        """The newest event of a message."""
        return (await self.store.inbox.find("memory", "bot", message_id))[0]

    def texts(self, chat: str = "chat") -> list[str]:
        """What people see of us in a chat."""
        return self.platform.room.texts(self.platform.address(chat))

    async def says(self, text: str, chat: str = "chat", seconds: float = 10.0) -> None:
        """Wait until one of our messages holds the text."""
        await self.platform.room.until(lambda: any(text in one for one in self.texts(chat)), seconds)

    async def quiet(self) -> None:
        """Wait until nothing is at work."""
        async with asyncio.timeout(10):
            await self.core.workers.idle()
            await self.core.deliveries.flush(10)

    async def check_ledger(self) -> None:
        """Every event has exactly one final fate, and nothing is left behind."""
        await self.quiet()
        counts = await self.store.inbox.counts()
        assert counts[Fate.WAITING] == counts[Fate.RUNNING] == 0, counts
        assert await self.store.inbox.orphans() == []
        assert len(self.core.workers) == 0
        assert self.core.work.all() == {}


def configure(home: Path, model: ModelServer, **changes: Any) -> Path:
    """The configuration file of a process."""
    home.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "home": str(home),
        "model": {
            "provider": "openai",
            "base_url": model.url,
            "api_key": "${KEY}",
            "name": "scripted",
            "context_tokens": 99999,
        },
        "tools": {"root": str(home.parent / "work"), "approvals": "ask"},
        **changes,
    }
    path = home / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    (home.parent / "work").mkdir(exist_ok=True)
    return path


def _kept(tasks: list[asyncio.Task[None]], task: asyncio.Task[None]) -> asyncio.Task[None]:
    tasks.append(task)
    return task


@asynccontextmanager
async def process(
    home: Path,
    model: ModelServer,
    *,
    platform: BareMemoryAdapter | None = None,
    owner: Owner | None = None,
    access: AccessSettings = ACCESS,
    **changes: Any,
) -> AsyncIterator[Process]:
    """Start as the daemon does, serve, and end without ceremony (what is open stays open)."""
    config = load(configure(home, model, **changes), environ={"KEY": "k" * 20})
    adapter = platform or MemoryAdapter()
    assert isinstance(adapter, MemoryAdapter)
    opened = Store.open(home / "tidings.db", owner=owner or this_process("daemon"), clock=SYSTEM)
    async with opened as store, asyncio.TaskGroup() as group:
        core = assemble(
            config,
            store,
            access=access,
            group=group,
            metrics=Metrics(),
            health=Health(["memory"]),
            clock=SYSTEM,
            status=list,
            mine=lambda row: row.platform == "memory",
        )
        core.adapters["memory"] = adapter
        supervisor = Supervisor(
            adapter,
            core.intake,
            core.health,
            core.metrics,
            SYSTEM,
            connected=core.deliveries.resume,
            ended=core.deliveries.pause,
        )
        await core.recovery.start(all_turns=True)
        tasks = [
            group.create_task(core.deliveries.run(), name="deliveries"),
            group.create_task(supervisor.run(), name="platform"),
            group.create_task(core.handoffs.run(core.intake.internal), name="handoffs"),
        ]
        begin_memory(core.memory, lambda work, name: _kept(tasks, group.create_task(work, name=name)))
        await adapter.room.until(lambda: adapter.connected)
        try:
            yield Process(core=core, store=store, platform=adapter, model=model)
        finally:
            core.intake.close()
            await core.workers.close(0.0)
            for running in list(core.work.all().values()):
                running.end("the test is over", park=True)
            await core.workers.cancel_waiting(5.0)
            for task in tasks:
                task.cancel()
            await core.release()
