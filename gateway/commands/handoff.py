"""/handoff, /sethome, and the two choices of a chat whose conversation has moved away."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

from adapters.events import ChatAddress, MessageEvent
from gateway.chat_names import chat_of
from gateway.commands.base import Call, Command, Forward, Reply, again
from gateway.convert import address_to_json, event_from_row, event_to_json
from gateway.handoff import Handoffs, Plan
from gateway.handoff_follow import end_of, follow
from gateway.handoff_target import TERMINAL, Target, TargetFault, Targets
from gateway.keys import person_of, session_key
from gateway.turns import delivery_of_text, part_of
from gateway.work import TurnParts, Work
from state.errors import Conflict
from state.ids import EventId, SessionId
from state.records import BindingState, Fate, Handoff, InboxEvent

NO_DAEMON = "No daemon runs, and it is the daemon that writes to chats: start it with `tidings run`."
USAGE = "PLATFORM [CHAT] [confirm]"
MOVED = "moved-"
"""The ids of the buttons below "this conversation has moved": the event that waits for the choice follows."""
PATIENCE = 10.0
"""Seconds that taking back waits for a turn at the other place; the hello there is one."""
PARTS = 100
"""Events among which the parts of one message are looked for."""
BACK, NEW = "back", "new"


def is_moved_button(button_id: str) -> bool:
    """Whether a press is one of the two choices."""
    return button_id.startswith(MOVED)


def warning(target: Target) -> str:
    """What must be confirmed before a session goes where others read. A name can be anybody's: the id is told too."""
    chat = target.address.chat_id
    place = target.name if chat in target.name else f"{target.name} ({target.address.platform}:{chat})"
    return f"Whoever reads {place} will be able to ask about everything that was said here. If that is meant:"


class HandoffCommands:
    """For owners: a hand-off shows the whole conversation at another place."""

    def __init__(
        self,
        parts: TurnParts,
        work: Work,
        handoffs: Handoffs,
        targets: Targets,
        daemon: Callable[[], bool] | None = None,
    ) -> None:
        """`daemon` tells whether one runs, where this process is none itself (blocking file work)."""
        self._daemon = daemon
        self._p = parts
        self._work = work
        self._handoffs = handoffs
        self._targets = targets

    def commands(self) -> Iterable[Command]:
        """The commands of this family."""
        yield Command(
            name="handoff", usage=USAGE, help="go on with this conversation elsewhere", handler=self._handoff,
            needs="owner",
        )  # fmt: skip
        yield Command(
            name="sethome", help="make this chat the home of its platform", handler=self._sethome, needs="owner"
        )

    async def _handoff(self, call: Call) -> Reply:
        words = call.args.split()
        confirmed = bool(words) and words[-1].lower() == "confirm"
        text = " ".join(words[:-1] if confirmed else words)
        binding = await self._p.store.sessions.binding(call.key)
        if binding is None or binding.session_id is None or binding.state is not BindingState.ACTIVE:
            return Reply(text="There is no conversation here that could be handed off.", detail="/handoff: nothing")
        if text.lower() == TERMINAL:
            return await self._to_terminal(call, binding.session_id)
        try:
            target = await self._target(call, text)
            person = person_of(call.event.address.platform, call.event.sender.id)
            if not confirmed and await self._targets.others_read(target, person):
                return Reply(text=f"{warning(target)} `/handoff {text} confirm`", detail="/handoff: to be confirmed")
            return await self._request(call, binding.session_id, target)
        except TargetFault as fault:
            return Reply(text=f"That cannot be done: {fault}.", detail="/handoff: no such target")

    async def _target(self, call: Call, text: str) -> Target:
        target = await self._targets.find(text)
        if target.address == call.event.address:
            raise TargetFault("we are there already")
        self._targets.key(target.address, person_of(call.event.address.platform, call.event.sender.id))
        return target

    async def _request(self, call: Call, session_id: SessionId, target: Target) -> Reply:
        if self._daemon is not None and not await asyncio.to_thread(self._daemon):
            return Reply(text=NO_DAEMON, detail="/handoff: no daemon")
        person = person_of(call.event.address.platform, call.event.sender.id)
        try:
            made = await self._handoffs.request(session_id, call.key, Plan(target=target), asked_by=person)
        except Conflict:
            return Reply(text="This conversation is being handed off already.", detail="/handoff: open already")
        if self._daemon is not None:
            self._p.spawn(self._follow(made, call.event.address), f"follow:{made.id}")
        waits = " as soon as this turn has ended" if self._work.running(call.key) is not None else ""
        return Reply(text=f"I hand this conversation off to {target.name}{waits}.", detail="/handoff")

    async def _follow(self, made: Handoff, address: ChatAddress) -> None:
        """Tell the end here: the daemon does not serve this place."""
        ended = await follow(self._p.store, made.id)
        notice = delivery_of_text(f"handoff-{made.id}", address, end_of(ended), self._p.clock.utc())
        await self._p.deliveries.say(notice, session_id=made.session_id)

    async def _to_terminal(self, call: Call, session_id: SessionId) -> Reply:
        """The terminal is no chat that could be written to: the session waits there for `tidings chat --continue`."""
        if call.event.address.platform == TERMINAL:
            return Reply(text="We are in the terminal already.", detail="/handoff: the same place")
        if self._work.running(call.key) is not None:
            return Reply(text="A turn is running here. Wait for its end, or /stop it.", detail="/handoff: busy")
        line = f"tty-{secrets.token_hex(6)}"
        address = ChatAddress(platform=TERMINAL, account=line, chat_id=line)
        try:
            await self._p.store.sessions.move(
                session_id, session_key(address), address_to_json(address), moved_to="the terminal"
            )
        except Conflict as conflict:
            return Reply(text=f"That cannot be done now: {conflict}.", detail="/handoff: busy")
        return Reply(
            text="This conversation is in the terminal now: `tidings chat --continue` goes on with it.",
            detail="/handoff terminal",
        )

    async def _sethome(self, call: Call) -> Reply:
        address = chat_of(call.event.address)
        person = person_of(address.platform, call.event.sender.id)
        await self._p.store.directory.set_home(address.platform, address_to_json(address), person)
        return Reply(text="This is my home here now: conversations are handed off to this place.", detail="/sethome")

    async def press(self, call: Call) -> Reply | Forward:
        """One of the two choices: *take back* or *start new*. The message that waited is answered then."""
        assert call.event.action is not None
        kept = await self._p.store.inbox.get(EventId(int(call.event.action.button_id.removeprefix(MOVED))))
        if kept is None or kept.key != call.key or event_from_row(kept).sender.id != call.event.sender.id:
            return Reply(text="That choice is for somebody else.", fate=Fate.REFUSED, detail="not their choice")
        binding = await self._p.store.sessions.binding(call.key)
        if binding is None or binding.state is not BindingState.CLOSED or binding.session_id is None:
            return Reply(
                text="That is settled already. Please write it again if it has not been answered.",
                detail="the choice was made already",
            )
        event = again(call, parts := await self._parts(kept), "\n\n".join(one.text for one in parts if one.text))
        # before the move: a crash leaves a message that is answered here, or asks for the choice again
        await self._p.store.inbox.replace_payload(call.event_id, event_to_json(event))
        person = person_of(call.event.address.platform, call.event.sender.id)
        if call.event.action.value == NEW:
            await self._p.store.sessions.rotate(
                call.key, person=person, reason="a new conversation where one has moved away"
            )
            return Forward(text=event.text, event=event)
        session = await self._p.store.sessions.get(binding.session_id)
        if session is None or (call.role != "owner" and session.person != person):
            return Reply(text="That conversation is not yours.", fate=Fate.REFUSED, detail="no right to take it back")
        try:
            await self._take_back(call, session.id)
        except Conflict as conflict:
            return Reply(text=f"It cannot be taken back now ({conflict}). Try again soon.", detail="taking back failed")
        return Forward(text=event.text, event=event)

    async def _parts(self, kept: InboxEvent) -> list[MessageEvent]:
        """What waits for the choice: the message with its other parts (an album, a long paste)."""
        rows = await self._p.store.inbox.recent(kept.key, PARTS)
        mark = part_of(kept.id)
        return [event_from_row(row) for row in (kept, *(row for row in rows[::-1] if row.detail.endswith(mark)))]

    async def _take_back(self, call: Call, session_id: SessionId) -> None:
        """Raises `Conflict` where the turn that runs at the other place does not end within the patience."""
        until = self._p.clock.monotonic() + PATIENCE
        address = address_to_json(call.event.address)
        while True:
            try:
                await self._p.store.sessions.move(
                    session_id, call.key, address, moved_to=f"back to {call.event.address.platform}"
                )
            except Conflict:
                if self._p.clock.monotonic() > until:
                    raise
            else:
                return
            await asyncio.sleep(0.2)
