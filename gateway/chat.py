"""The composition root of `tidings chat`: the same core as the daemon's, over the same store, with the terminal only.

It is always a process of its own, with its own lease owner, and never takes the daemon's lock. Its line of
conversation has an id of its own, which is also the account of its adapter: two terminals serve each its own.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from adapters.events import ChatAddress, Sender
from adapters.terminal.adapter import PLATFORM, TerminalAdapter
from adapters.terminal.choose import choose_front
from adapters.terminal.person import local_sender
from gateway import lifecycle, locks
from gateway import log as logs
from gateway.app import make_home, park
from gateway.config_types import Config
from gateway.convert import address_from_json, address_to_json
from gateway.core import Core, assemble
from gateway.health import Health
from gateway.in_force import access_settings
from gateway.keys import person_of, session_key
from gateway.lifecycle import ExitCode, Stage, StopRequest
from gateway.memory import begin_memory
from gateway.metrics import Metrics
from gateway.supervisor import Supervisor
from gateway.turns import delivery_of_text
from state.clock import SYSTEM
from state.errors import Conflict, StateError
from state.owners import this_process
from state.records import BindingState, Session, SessionBinding
from state.store import Store

log = structlog.get_logger("gateway.chat")

LEAVE = 5.0
"""Seconds that a turn may still take when the person leaves; then it is put aside, to go on later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What the command line asks for. `prompt` is one question, for scripts."""

    resume: bool = False
    session: str | None = None
    prompt: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The line of conversation of this terminal, and what it is called."""

    id: str
    title: str = ""
    taken_from: tuple[tuple[str, ChatAddress], ...] = ()
    """The places that the conversation was taken back from, each with the name of the notice to it."""


class NoSuchSession(Exception):
    """There is no session of that id or name that this person may go on with."""


def run_chat(config: Config, options: ChatOptions) -> int:
    """Serve the terminal until the person leaves. Blocking; returns the exit code."""
    logs.configure(level="error", format="console", secrets=config.secrets)
    try:
        return asyncio.run(_Chat(config, options).run())
    except (StateError, NoSuchSession) as error:
        sys.stderr.write(f"tidings: {error}\n")
        return ExitCode.FAULT
    finally:
        logs.shutdown()


class _Chat:
    """One run of the terminal."""

    def __init__(self, config: Config, options: ChatOptions) -> None:
        self._config = config
        self._options = options
        self._sender = local_sender()
        self._person = person_of(PLATFORM, self._sender.id)
        self._stop = StopRequest()

    async def run(self) -> int:
        """From the store to the exit code."""
        config = self._config
        await asyncio.to_thread(make_home, config)
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(
                Store.open(config.home / "tidings.db", owner=this_process("terminal"), readers=1, clock=SYSTEM)
            )
            line = await find_line(store, self._person, self._options, piped=not sys.stdin.isatty())
            stack.enter_context(lifecycle.signals(self._stop))
            async with asyncio.TaskGroup() as group:
                return await self._serve(store, line, group)

    async def _serve(self, store: Store, line: Line, group: asyncio.TaskGroup) -> int:
        health = Health([PLATFORM])
        core = assemble(
            self._config,
            store,
            access=access_settings(self._config, operators=frozenset({self._person})),
            group=group,
            metrics=Metrics(),
            health=health,
            clock=SYSTEM,
            status=list,
            mine=lambda row: row.platform == PLATFORM and row.account == line.id,
            daemon=lambda: locks.holder(locks.daemon_lock_path(self._config.home)) is not None,
        )
        adapter = self._adapter(core, line, self._sender)
        core.adapters[PLATFORM] = adapter
        await core.arbiter.load()
        await core.recovery.start(all_turns=False)
        for name, address in line.taken_from:
            notice = delivery_of_text(name, address, "This conversation goes on in the terminal.", SYSTEM.utc())
            await core.deliveries.say(notice)
        supervisor = Supervisor(
            adapter,
            core.intake,
            health,
            core.metrics,
            SYSTEM,
            connected=core.deliveries.resume,
            ended=core.deliveries.pause,
            ends=True,
        )
        served = group.create_task(supervisor.run(), name=f"platform:{PLATFORM}")
        tasks = [
            served,
            group.create_task(core.deliveries.run(), name="deliveries"),
            group.create_task(core.recovery.watch(all_turns=False), name="recovery"),
            group.create_task(core.models.warm(), name="warm-up"),
        ]
        begin_memory(core.memory, lambda work, name: _kept(tasks, group.create_task(work, name=name)))
        asked = group.create_task(self._asked(), name="stop-asked")
        await asyncio.wait([served, asked], return_when=asyncio.FIRST_COMPLETED)
        served.cancel()
        await lifecycle.shut_down(self._stages(core), self._stop)
        for task in [*tasks, asked]:
            task.cancel()
        await core.release()
        return adapter.exit_code if not self._stop.asked.is_set() else int(self._stop.code)

    async def _asked(self) -> None:
        await self._stop.asked.wait()

    def _adapter(self, core: Core, line: Line, sender: Sender) -> TerminalAdapter:
        options = self._options
        return TerminalAdapter(
            choose_front(question=options.prompt, as_json=options.json, history=self._config.home / "history"),
            chat_id=line.id,
            sender=sender,
            conversations=core.conversations,
            title=line.title,
            commands=core.commands.names(),
        )

    def _stages(self, core: Core) -> list[Stage]:
        async def close() -> None:
            core.intake.close()

        return [
            Stage(name="intake", run=close, seconds=1.0),
            Stage(name="drain", run=lambda: core.workers.close(LEAVE), seconds=LEAVE + 1.0, hurried=0.1),
            Stage(name="park", run=lambda: park(core), seconds=12.0),
        ]


def _kept(tasks: list[asyncio.Task[None]], task: asyncio.Task[None]) -> asyncio.Task[None]:
    tasks.append(task)
    return task


async def find_line(store: Store, person: str, options: ChatOptions, *, piped: bool) -> Line:
    """The line to serve: of the named session, of the last conversation, or a new one."""
    if options.session is not None:
        return await _line_of(store, await _session(store, person, options.session))
    if options.resume or (piped and options.prompt is None):
        binding = await store.sessions.last_on(PLATFORM)
        closed = binding is not None and binding.state is BindingState.CLOSED
        # taking a conversation back from where it has gone is asked for by name, never a side effect of a pipe
        if binding is not None and binding.session_id is not None and (options.resume or not closed):
            session = await store.sessions.get(binding.session_id)
            return Line(
                id=address_from_json(binding.address_json).chat_id,
                title=(session.title or "") if session else "",
                taken_from=await _take_back(store, binding) if closed else (),
            )
    return Line(id=_new_line())


async def _take_back(store: Store, binding: SessionBinding) -> tuple[tuple[str, ChatAddress], ...]:
    """The conversation was handed off from here: it comes back. Gives whom to tell, with the name of the notice."""
    assert binding.session_id is not None
    session_id = binding.session_id
    others = [one for one in await store.sessions.bindings_of(session_id) if one.state is BindingState.ACTIVE]
    try:
        await store.sessions.move(session_id, binding.key, binding.address_json, moved_to="the terminal")
    except Conflict as conflict:
        raise NoSuchSession(f"the conversation cannot be taken back now: {conflict}") from conflict
    return tuple((f"back-{one.key}-{one.version}", address_from_json(one.address_json)) for one in others)


def _new_line() -> str:
    return f"tty-{secrets.token_hex(6)}"


async def _session(store: Store, person: str, wanted: str) -> Session:
    """A session by id or by name. Whoever runs the terminal reads the store anyway: no other rule holds here."""
    found = await store.sessions.get(wanted)  # type: ignore[arg-type]
    if found is not None:
        return found
    named = await store.sessions.by_title(person, wanted) or await store.sessions.by_title(None, wanted)
    if not named:
        raise NoSuchSession(f"there is no session {wanted!r}; `tidings sessions list` shows them")
    return named[0]


async def _line_of(store: Store, session: Session) -> Line:
    """The terminal's line that leads to the session, made where there is none."""
    for binding in await store.sessions.bindings_of(session.id):
        address = address_from_json(binding.address_json)
        if address.platform == PLATFORM and binding.state is BindingState.ACTIVE:
            return Line(id=address.chat_id, title=session.title or "")
    line = _new_line()
    address = ChatAddress(platform=PLATFORM, account=line, chat_id=line)
    await store.sessions.rebind(
        session_key(address), session.id, expect_version=None, address_json=address_to_json(address)
    )
    return Line(id=line, title=session.title or "")
