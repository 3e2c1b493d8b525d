"""Commands about what goes on: /stop /status /why /queue /steer /busy /whoami /approve /deny, and presses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterable

from adapters.events import Action
from adapters.ports import CanEdit
from agent_core.prompt import info
from gateway.approvals import SHOWN
from gateway.commands.base import Call, Command, Forward, Reply
from gateway.commands.sessions import ago
from gateway.convert import event_from_row
from gateway.inputs import one_line
from gateway.keys import person_of
from gateway.lifecycle import ExitCode
from gateway.restart import leave_mark
from gateway.work import TurnParts, Work
from gateway.workers import Workers
from state.owners import describe
from state.records import BindingState, DeliveryState, Fate, InboxEvent, TurnState

RESTART_AFTER = 0.3
MODES = ("queue", "steer", "interrupt", "collect")

FATE_WORDS = {
    Fate.WAITING: "it waits for its turn",
    Fate.RUNNING: "I am working on it",
    Fate.ANSWERED: "it was answered",
    Fate.MERGED: "it was answered together with another message",
    Fate.STEERED: "it joined the turn that ran then",
    Fate.COMMAND: "it was a command, and was carried out",
    Fate.SUPERSEDED: "an edit took its place",
    Fate.CANCELLED: "it was cancelled",
    Fate.SILENT: "by rule it gets no answer",
    Fate.REFUSED: "it was refused",
    Fate.FAILED: "it could not be answered",
}


class Control:
    """What a person can see and steer of the running work."""

    def __init__(
        self,
        parts: TurnParts,
        work: Work,
        workers: Workers,
        status: Callable[[], list[str]],
        default_busy: Callable[[], str],
        end: Callable[[str, ExitCode], None] | None = None,
    ) -> None:
        """`end` ends the process (a daemon) for a reason, with that code."""
        self._p = parts
        self._work = work
        self._workers = workers
        self._status_lines = status
        self._default_busy = default_busy
        self._ask_end = end

    def commands(self) -> Iterable[Command]:
        """The commands of this family."""
        yield Command(name="stop", help="end what is running and waiting here", handler=self._stop)
        yield Command(name="status", help="how things stand", handler=self._status)
        yield Command(
            name="why",
            usage="[MESSAGE ID]",
            help="what became of a message (reply to it, or the last)",
            handler=self._why,
        )
        yield Command(name="queue", usage="TEXT", help="answer TEXT after the running turn", handler=self._queue)
        yield Command(name="steer", usage="TEXT", help="give TEXT to the running turn", handler=self._steer)
        yield Command(
            name="busy",
            usage="[queue|steer|interrupt|collect]",
            help="what a message does while a turn runs",
            handler=self._busy,
            needs="member",
        )
        yield Command(name="whoami", help="your id and your role here", handler=self._whoami)
        yield Command(name="approve", usage="ID", help="allow what an approval asks for", handler=self._approve)
        if self._ask_end is not None:
            yield Command(name="restart", help="start the daemon anew", handler=self._restart, needs="owner")
            yield Command(name="drain", help="end the daemon after what runs", handler=self._drain, needs="owner")
        yield Command(name="deny", usage="ID", help="refuse it", handler=self._deny)

    async def _stop(self, call: Call) -> Reply:
        ended = 0
        worker = self._workers.get(call.key)
        for item in [] if worker is None else list(worker.waiting):
            if item.resume is None and item.event_id < call.event_id:
                assert worker is not None
                worker.waiting.remove(item)
                ended += await self._p.fates.conclude(item.event_id, item.event, Fate.CANCELLED, "/stop")
        running = self._work.running(call.key)
        if running is not None:
            running.end("/stop", quiet=True)
            waiting = f" {ended} waiting messages are cancelled too." if ended else ""
            return Reply(text=f"Stopped.{waiting}", detail="/stop")
        text = f"{ended} waiting messages are cancelled." if ended else "Nothing is running here."
        return Reply(text=text, detail="/stop")

    async def _status(self, call: Call) -> Reply:
        binding = await self._p.store.sessions.binding(call.key)
        lines = []
        running, worker = self._work.running(call.key), self._workers.get(call.key)
        if running is not None:
            seconds = int(self._p.clock.monotonic() - running.started)
            lines.append(f"Here: a turn runs since {seconds} s; {0 if worker is None else len(worker.waiting)} wait.")
        else:
            lines.append("Here: nothing runs.")
        if binding is not None and binding.state is BindingState.ACTIVE and binding.session_id is not None:
            session = await self._p.store.sessions.get(binding.session_id)
            if session is not None:
                model = self._p.models(session)[0].name
                lines.append(f"Conversation: {session.title or session.id}, model {model}")
                lines += _prompt_lines(session.prompt)
            if running is None and (holder := await self._p.store.leases.holder(binding.session_id)) is not None:
                lines.append(f"It is at work elsewhere: {describe(holder.owner)}.")
        lines.append(f"A message while I work: {self._mode(None if binding is None else binding.settings_json)}.")
        lines += self._status_lines()
        return Reply(text="\n".join(f"- {line}" for line in lines), detail="/status")

    async def _why(self, call: Call) -> Reply:
        event = call.event
        message_id = call.args or (event.reply_to.message_id if event.reply_to is not None else "")
        row = await self._row(call, message_id)
        if row is None:
            return Reply(text="I know of no such message in this chat.", detail="/why")
        received = ago(row.received_at, self._p.clock.utc())
        lines = [f"Event {row.id}, received {received}: {FATE_WORDS[row.fate]}."]
        if row.detail:
            lines.append(f"Detail: {row.detail}.")
        if came := event_from_row(row).came:
            lines.append(f"It did not come live: {came}.")
        if row.turn_id is not None:
            lines += await self._turn_lines(row)
        return Reply(text="\n".join(lines), detail="/why")

    async def _row(self, call: Call, message_id: str) -> InboxEvent | None:
        address = call.event.address
        if not message_id:
            recent = await self._p.store.inbox.recent(call.key, 5)
            return next((row for row in recent if row.id != call.event_id), None)
        rows = await self._p.store.inbox.find(address.platform, address.account, message_id, key=call.key)
        if rows:
            return rows[-1]
        delivered = await self._p.store.outbox.by_message(address.platform, address.account, message_id)
        if delivered is None or delivered.turn_id is None:
            return None
        of_turn = await self._p.store.inbox.of_turn(delivered.turn_id)
        return next((row for row in of_turn if row.key == call.key), None)

    async def _turn_lines(self, row: InboxEvent) -> list[str]:
        assert row.turn_id is not None
        turn = await self._p.store.turns.get(row.turn_id)
        lines = []
        if turn is not None and turn.state is TurnState.RUNNING:
            running = self._work.running(row.key)
            live = running is not None and running.turn_id == turn.id
            lines.append("Its turn is at work now." if live else "Its turn waits to be taken up again.")
        if turn is not None and turn.attempts > 1:
            lines.append(f"The turn was begun {turn.attempts} times (a restart came between).")
        for delivery in await self._p.store.outbox.of_turn(row.turn_id):
            if delivery.state is DeliveryState.SENT:
                lines.append(f"The answer was delivered in {len(delivery.chunks)} message(s).")
            elif delivery.state in (DeliveryState.FAILED, DeliveryState.PARKED):
                errors = {chunk.error for chunk in delivery.chunks if chunk.error}
                lines.append(f"The answer could not be delivered: {'; '.join(sorted(errors)) or delivery.state.value}.")
            elif delivery.state is DeliveryState.READY:
                held = " The platform has asked us to wait." if delivery.not_before is not None else ""
                lines.append(f"The answer waits to be delivered.{held}")
        return lines

    async def _queue(self, call: Call) -> Reply | Forward:
        if not call.args:
            return Reply(text="What shall I answer after this turn? `/queue TEXT`", detail="/queue: no text")
        return Forward(text=call.args, mode="queue")

    async def _steer(self, call: Call) -> Reply | Forward:
        if not call.args:
            return Reply(text="What shall the running turn know? `/steer TEXT`", detail="/steer: no text")
        return Forward(text=call.args, mode="steer")

    def _mode(self, settings_json: str | None) -> str:
        chosen = json.loads(settings_json or "{}").get("busy")
        return str(chosen or self._default_busy())

    async def _busy(self, call: Call) -> Reply:
        binding = await self._p.store.sessions.binding(call.key)
        if not call.args:
            return Reply(
                text=f"A message while I work: {self._mode(None if binding is None else binding.settings_json)}.",
                detail="/busy",
            )
        if call.args not in MODES:
            return Reply(text=f"There are {', '.join(MODES)}.", detail="/busy: unknown mode")
        if binding is None:
            binding, _ = await self._p.router.resolve(call.key, call.event)
        settings = json.loads(binding.settings_json or "{}")
        settings["busy"] = call.args
        await self._p.store.sessions.set_settings(call.key, json.dumps(settings))
        return Reply(text=f"A message while I work: {call.args}.", detail="/busy")

    async def _whoami(self, call: Call) -> Reply:
        person = person_of(call.event.address.platform, call.event.sender.id)
        shared = call.event.address.chat_kind != "private"
        tools = sorted(self._p.access.rights(call.role, shared=shared).tools & self._p.registry.groups().keys())
        name = one_line(call.event.sender.name, 60)
        return Reply(
            text=f"{name or person}: `{person}`, {call.role}. Tools here: {', '.join(tools) or 'none'}.",
            detail="/whoami",
        )

    async def press(self, call: Call) -> Reply:
        """A button press: the id says which question, the presser's role is looked up now."""
        action = call.event.action
        if action is None:
            return Reply(text="", fate=Fate.SILENT, detail="a press without a button")
        reply = await self._answer(call, action)
        if reply.text.startswith(SHOWN) and isinstance(self._p.adapters.get(call.event.address.platform), CanEdit):
            return dataclasses.replace(reply, text="")  # the question itself shows it
        return reply

    async def _answer(self, call: Call, action: Action) -> Reply:
        person = person_of(call.event.address.platform, call.event.sender.id)
        told = await self._p.approvals.press(action.button_id, action.value, person, call.role)
        return Reply(text=told, detail=f"a press on {action.button_id}")

    async def _approve(self, call: Call) -> Reply:
        return await self._answer(call, Action(button_id=call.args, value="approve"))

    async def _restart(self, call: Call) -> Reply:
        """The turn that runs elsewhere ends or is parked; this command is no turn and holds nothing up."""
        await leave_mark(self._p.settings().home, call)
        self._leave(f"/restart of event {call.event_id}", ExitCode.RESTART)
        return Reply(text="I restart now. What runs goes on after it.", detail="/restart")

    async def _drain(self, call: Call) -> Reply:
        """As `tidings stop` does it."""
        self._leave(f"/drain of event {call.event_id}", ExitCode.OK)
        return Reply(
            text="I take nothing new, finish what runs, and end. Only somebody at the machine can start me again; "
            "what you write until then waits.",
            detail="/drain",
        )

    def _leave(self, why: str, code: ExitCode) -> None:
        assert self._ask_end is not None
        ask = self._ask_end

        async def soon() -> None:
            await asyncio.sleep(RESTART_AFTER)  # the answer of this command goes out first
            ask(why, code)

        self._p.spawn(soon(), "leave")

    async def _deny(self, call: Call) -> Reply:
        return await self._answer(call, Action(button_id=call.args, value="deny"))


def _prompt_lines(prompt: str | None) -> list[str]:
    """What the frozen prompt of the conversation leaves out, where there is one."""
    about = info(prompt)
    if about is None:
        return []
    lines = [] if about.tools else ["This model calls no tools: files, commands and the web are not available here."]
    return [*lines, about.left_out] if about.left_out else lines
