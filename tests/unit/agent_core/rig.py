"""A session with a real store, real tools of its own, and the part of the gateway that ends a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_core.events import AgentEvent
from agent_core.loop import Budget, Final, TurnContext, abandon, run_turn
from agent_core.models.ports import Image, Model, ToolSpec
from agent_core.models.scripted import ScriptedModel, ScriptedStep
from agent_core.models.settings import ModelSettings
from agent_core.ports import Input
from agent_core.prefix import Prefixes
from agent_core.prompt import PromptSettings
from agent_core.tools.ports import Rights, ToolContext, ToolResult
from agent_core.tools.registry import Registry
from state.clock import SteppedClock
from state.ids import EventId, SessionKey, TurnId, new_turn_id
from state.owners import this_process
from state.records import Fate, NewEvent, Session, TranscriptMessage, TurnLease, TurnState
from state.store import Store

KEY = SessionKey("test:one")
OWNER = Rights(role="owner", tools=frozenset({"test", "ask", "files"}))
FATES = {
    TurnState.ANSWERED: Fate.ANSWERED,
    TurnState.INTERRUPTED: Fate.CANCELLED,
    TurnState.FAILED: Fate.FAILED,
}
DOT = Image(
    mime="image/png",
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)


@dataclass
class FakeTool:
    """A tool that does what the test says. `runs` are the arguments of every run."""

    name: str
    work: Callable[[Mapping[str, Any], ToolContext], Any] = lambda arguments, _: ToolResult(
        content=str(dict(arguments))
    )
    parallel: bool = False
    group: str = "test"
    parameters: str = '{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}'
    description: str = "A tool of the tests."
    runs: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def describe(self, arguments: Mapping[str, Any]) -> str:
        return f"{self.name} {dict(arguments)}"

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.runs.append(arguments)
        result = self.work(arguments, context)
        return await result if asyncio.iscoroutine(result) else result


@dataclass
class AskingTool(FakeTool):
    """Asks before it does anything."""

    group: str = "ask"
    asks_first: bool = True
    effects: int = 0

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.runs.append(arguments)
        if not await context.ask.approve(context.call_id, "do it"):
            return ToolResult(content="not allowed", ok=False)
        self.effects += 1
        return ToolResult(content="did it")


@dataclass
class Person:
    """The `Ask` of the tests."""

    allows: bool = True
    asked: list[str] = field(default_factory=list)
    waits: asyncio.Event | None = None

    async def approve(self, call_id: str, what: str) -> bool:
        self.asked.append(call_id)
        if self.waits is not None:
            await self.waits.wait()
        return self.allows

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        return None


class NoLedger:
    async def started(self, call_id: str, pgid: int, start_ticks: int) -> None: ...

    async def ended(self, pgid: int, start_ticks: int) -> None: ...


@dataclass
class Steer:
    """The `Steering` of the tests."""

    now: Rights = OWNER
    waiting: deque[Input] = field(default_factory=deque)

    def take(self) -> Sequence[Input]:
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def rights(self) -> Rights:
        return self.now


def scripted(*steps: ScriptedStep | str, name: str = "one", **settings: Any) -> ScriptedModel:
    return ScriptedModel(ModelSettings(provider="scripted", name=name, **settings), steps)


def calls(*named: tuple[str, str], text: str = "") -> ScriptedStep:
    """A step that asks for these calls; arguments as JSON text. Ids are the model's: c0, c1 … in every step."""
    return ScriptedStep(
        text=text,
        tool_calls=tuple({"id": f"c{n}", "name": name, "arguments": args} for n, (name, args) in enumerate(named)),
    )


@dataclass
class Rig:
    """One session. `tool`s and `models` may be changed between turns."""

    store: Store
    session: Session
    home: Path
    clock: SteppedClock
    models: Sequence[Model]
    tools: Sequence[FakeTool] = ()
    budget: Budget = field(default_factory=lambda: Budget(cancel_seconds=0.05))
    prompt: PromptSettings = field(default_factory=PromptSettings)
    ask: Person = field(default_factory=Person)
    steering: Steer = field(default_factory=Steer)
    prefixes: Prefixes = field(default_factory=Prefixes)
    disabled: frozenset[str] = frozenset()
    events: list[AgentEvent] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    count: int = 0
    key: SessionKey = KEY

    async def event(self, text: str) -> EventId:
        self.count += 1
        row = await self.store.inbox.accept(
            NewEvent(
                dedup_id=f"{self.session.id}:{self.count}:{id(self)}",
                platform="test",
                account="a",
                kind="message",
                key=self.key,
                message_id=str(self.count),
                sender_id="1",
                payload="{}",
                received_at=self.clock.utc(),
            )
        )
        return row.event_id

    async def input(self, text: str, **more: Any) -> Input:
        return Input(event_ids=(await self.event(text),), text=text, **more)

    async def lease(self, turn_id: TurnId | None = None) -> TurnLease:
        return await self.store.leases.acquire(self.session.id, turn_id or new_turn_id())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    def context(self, lease: TurnLease, *inputs: Input, resume: bool = False, **more: Any) -> TurnContext:
        return TurnContext(
            store=self.store,
            lease=lease,
            key=self.key,
            session=self.session,
            inputs=inputs,
            resume=resume,
            models=self.models,
            registry=Registry(self.tools),
            disabled=self.disabled,
            emit=self.events.append,
            steering=self.steering,
            ask=self.ask,
            processes=NoLedger(),
            home=self.home,
            root=self.home,
            budget=self.budget,
            prompt=self.prompt,
            clock=self.clock,
            prefixes=self.prefixes,
            sleep=self.sleep,
            jitter=lambda seconds: seconds,
            **more,
        )

    async def commit(self, lease: TurnLease, final: Final, *inputs: Input) -> Final:
        fates = [(event_id, FATES[final.state], final.detail) for entry in inputs for event_id in entry.event_ids]
        await self.store.turns.finish(
            lease, state=final.state, rows=final.rows, fates=fates, delivery=None, detail=final.detail
        )
        return final

    async def say(self, text: str, **more: Any) -> Final:
        """A whole turn, committed."""
        images = more.pop("images", ())
        entry = await self.input(text, images=images, **{k: more.pop(k) for k in ("note", "author") if k in more})
        lease = await self.lease()
        return await self.commit(lease, await run_turn(self.context(lease, entry, **more)), entry)

    async def start(self, text: str) -> tuple[asyncio.Task[Final], TurnLease, Input, TurnContext]:
        """A turn that runs in a task."""
        entry = await self.input(text)
        lease = await self.lease()
        context = self.context(lease, entry)
        return asyncio.create_task(run_turn(context)), lease, entry, context

    async def stop(self, started: tuple[asyncio.Task[Final], TurnLease, Input, TurnContext], why: str) -> Final:
        """Cancel it and commit its end."""
        task, lease, entry, context = started
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled(), task
        return await self.commit(lease, await abandon(context, why), entry)

    async def resume(self, turn_id: TurnId, **more: Any) -> Final:
        """Take a dead turn up, as another process would, and commit its end."""
        lease = await self.lease(turn_id)
        return await self.commit(lease, await run_turn(self.context(lease, resume=True, **more)))

    async def crash(self, task: asyncio.Task[Any], lease: TurnLease) -> None:
        """The process is gone: nothing more is written, the lease is free."""
        task.cancel()
        await asyncio.wait([task], timeout=5)
        await self.store.leases.release(lease)

    async def rows(self) -> list[TranscriptMessage]:
        return await self.store.transcript.load(self.session.id)

    def seen(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


async def until(true: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until something has become so."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def opened(path: Path, *models: Model, clock: SteppedClock | None = None, **more: Any) -> AsyncIterator[Rig]:
    """A rig with a fresh session over the database at `path`/s.db."""
    clock = clock or SteppedClock()
    async with AsyncExitStack() as stack:
        owner = this_process("test")
        store = await stack.enter_async_context(Store.open(path / "s.db", owner=owner, clock=clock))
        binding = await store.sessions.claim(KEY, owner, "{}")
        _, session = await store.sessions.activate(KEY, binding.version, person="test:1")
        yield Rig(store=store, session=session, home=path, clock=clock, models=models or (scripted(),), **more)


@asynccontextmanager
async def reopened(rig: Rig, **more: Any) -> AsyncIterator[Rig]:
    """The same session seen by another process: its own store, its own memory of prefixes."""
    async with Store.open(rig.store.path, owner=this_process("other"), clock=rig.clock) as store:
        yield replace(rig, store=store, prefixes=Prefixes(), events=[], **more)
