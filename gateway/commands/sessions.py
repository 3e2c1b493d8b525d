"""Commands about the conversation: /new /undo /retry /title /sessions /resume /usage."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from agent_core.prefix import PREFIXES
from gateway.audience import viewer_of
from gateway.commands.base import Call, Command, Forward, Reply, again
from gateway.convert import address_to_json, event_from_row, event_to_json
from gateway.inputs import one_line
from gateway.keys import person_of
from gateway.retract import retract
from gateway.work import TurnParts, Work
from gateway.workers import Workers
from state.errors import Conflict
from state.records import BindingState, Fate, Session, SessionBinding, Turn

LISTED = 10
TITLE = 80


class SessionCommands:
    """Every one acts on the sender's own line, and on sessions that are the sender's own (B83)."""

    def __init__(self, parts: TurnParts, work: Work, workers: Workers) -> None:
        self._p = parts
        self._work = work
        self._workers = workers

    def commands(self) -> Iterable[Command]:
        """The commands of this family."""
        yield Command(name="new", help="start a new conversation; the old one can be resumed", handler=self._new)
        yield Command(name="undo", help="take the last turn out of the conversation", handler=self._undo)
        yield Command(name="retry", help="answer the last message again", handler=self._retry)
        yield Command(
            name="title", usage="[TEXT]", help="name this conversation, or show its name", handler=self._title
        )
        yield Command(name="sessions", help="list your conversations", handler=self._list)
        yield Command(name="resume", usage="NUMBER|NAME|ID", help="go on with one of them here", handler=self._resume)
        yield Command(name="usage", help="tokens and calls of this conversation", handler=self._usage)
        yield Command(name="cache", help="what the model's cache could use, and what broke it", handler=self._cache)

    @staticmethod
    def _person(call: Call) -> str:
        return person_of(call.event.address.platform, call.event.sender.id)

    async def _bound(self, call: Call) -> tuple[SessionBinding, Session] | None:
        binding = await self._p.store.sessions.binding(call.key)
        if binding is None or binding.session_id is None or binding.state is not BindingState.ACTIVE:
            return None
        session = await self._p.store.sessions.get(binding.session_id)
        return None if session is None else (binding, session)

    async def _end_all(self, call: Call, reason: str) -> int:
        """End the running turn and what waits in this chat. Returns how many events were open."""
        ended = 0
        worker = self._workers.get(call.key)
        for item in [] if worker is None else list(worker.waiting):
            if item.resume is None and item.event_id < call.event_id:
                assert worker is not None
                worker.waiting.remove(item)
                ended += await self._p.fates.conclude(item.event_id, item.event, Fate.CANCELLED, reason)
        running = self._work.running(call.key)
        if running is not None and running.end(reason, quiet=True):
            ended += 1
        return ended

    async def _new(self, call: Call) -> Reply:
        await self._p.store.sessions.claim(call.key, self._p.store.owner, address_to_json(call.event.address))
        before = await self._bound(call)
        await self._p.store.sessions.rotate(call.key, person=self._person(call), reason="/new")
        ended = await self._end_all(call, "/new")
        if self._p.memory is not None and before is not None:
            await self._p.memory.session_ended(before[1].id, viewer_of(call.event))
        more = f" What was open here ({ended}) is cancelled." if ended else ""
        return Reply(text=f"A new conversation begins here.{more} /sessions lists the earlier ones.", detail="/new")

    async def _last_turn(self, call: Call) -> tuple[Session, Turn] | str:
        """The newest turn that is still in the context and has ended, or why there is none."""
        if self._work.running(call.key) is not None:
            return "A turn is running. /stop ends it."
        bound = await self._bound(call)
        if bound is None:
            return "Nothing has been said here yet."
        _, session = bound
        if await self._p.store.leases.holder(session.id) is not None:
            return "This conversation is at work elsewhere; try again when that has ended."
        for turn_id in await self._p.store.transcript.last_turn_ids(session.id, 1):
            turn = await self._p.store.turns.get(turn_id)
            if turn is not None:
                return session, turn
        return "There is nothing to take back."

    async def _undo(self, call: Call) -> Reply:
        found = await self._last_turn(call)
        if isinstance(found, str):
            return Reply(text=found, detail="/undo: nothing done")
        session, turn = found
        rows = await self._p.store.inbox.of_turn(turn.id)
        said = one_line(event_from_row(rows[0]).text, 60) if rows else "your last message"
        PREFIXES.declare(session.id, "undo")
        self._retract(turn)
        return Reply(
            text=f'The turn of "{said}" is out of the conversation. What its tools have done stays done.',
            detail="/undo",
            undo=(session.id, turn.id),
        )

    def _retract(self, turn: Turn) -> None:
        """Our messages go in the background: a platform may make us wait for it."""

        async def work() -> None:
            await retract(self._p.deliveries, turn.id)

        self._p.spawn(work(), f"retract:{turn.id}")

    async def _retry(self, call: Call) -> Reply | Forward:
        found = await self._last_turn(call)
        if isinstance(found, str):
            return Reply(text=found, detail="/retry: nothing done")
        session, turn = found
        rows = await self._p.store.inbox.of_turn(turn.id)
        asked = [row for row in rows if row.fate not in (Fate.STEERED,)]
        said = [event_from_row(row) for row in asked]
        if any(one.sender.id != call.event.sender.id for one in said):  # never the words of one with another's rights
            return Reply(
                text="The last message is somebody else's: only who wrote it can have it answered again.",
                fate=Fate.REFUSED,
                detail="/retry: not their message",
            )
        corrections = await self._p.heard.corrections(call.key, call.event_id, call.event.sender.id)
        texts = [text for text in corrections[-1:] or [one.text for one in said] if text]
        if not texts and not any(one.attachments for one in said):
            return Reply(text="The last turn has no text that I could answer again.", detail="/retry: nothing done")
        event = again(call, said, "\n\n".join(texts))
        await self._p.store.inbox.replace_payload(call.event_id, event_to_json(event))
        try:
            await self._p.store.transcript.deactivate_turn(session.id, turn.id)
            PREFIXES.declare(session.id, "retry")
        except Conflict:
            return Reply(text="This conversation is at work elsewhere.", detail="/retry: leased")
        self._retract(turn)
        return Forward(text=event.text, mode="queue", event=event)

    async def _title(self, call: Call) -> Reply:
        bound = await self._bound(call)
        if bound is None:
            return Reply(text="There is no conversation here yet.", detail="/title: nothing done")
        _, session = bound
        if not call.args:
            return Reply(text=f"This conversation is called: {session.title or '(no name)'}", detail="/title")
        title = one_line(call.args, TITLE)
        await self._p.store.sessions.set_title(session.id, title)
        return Reply(text=f"This conversation is now called: {title}", detail="/title")

    async def _own(self, call: Call) -> list[Session]:
        return await self._p.store.sessions.list_for(self._person(call), limit=50)

    async def _list(self, call: Call) -> Reply:
        sessions = (await self._own(call))[:LISTED]
        if not sessions:
            return Reply(text="You have no conversations yet.", detail="/sessions")
        bound = await self._bound(call)
        here = None if bound is None else bound[1].id
        lines = [
            f"{number}. {session.title or '(no name)'}, {ago(session.updated_at, self._p.clock.utc())}"
            f"{' (this one)' if session.id == here else ''} `{session.id}`"
            for number, session in enumerate(sessions, 1)
        ]
        return Reply(text="\n".join(lines) + "\n\n`/resume NUMBER` goes on with one of them here.", detail="/sessions")

    async def _resume(self, call: Call) -> Reply:
        if not call.args:
            return Reply(text="Which one? `/sessions` lists them; then `/resume NUMBER`.", detail="/resume: none named")
        sessions = await self._own(call)
        session = _pick(sessions, call.args)
        if session is None:
            return Reply(text="You have no such conversation. `/sessions` lists yours.", detail="/resume: not found")
        if self._work.running(call.key) is not None:
            return Reply(text="A turn is running here. Wait for its end, or /stop it.", detail="/resume: busy")
        binding = await self._p.store.sessions.binding(call.key)
        await self._p.store.sessions.rebind(
            call.key,
            session.id,
            expect_version=None if binding is None else binding.version,
            address_json=address_to_json(call.event.address),
        )
        return Reply(text=f"We go on with: {session.title or session.id}", detail="/resume")

    async def _cache(self, call: Call) -> Reply:
        bound = await self._bound(call)
        if bound is None:
            return Reply(text="There is no conversation here yet.", detail="/cache")
        store = self._p.store
        total, breaks = await store.usage.of_session(bound[1].id), await store.usage.breaks(bound[1].id)
        lines = [
            f"Same bytes as the request before: {_share(total.prefix_bytes, total.request_bytes)} of "
            f"{total.request_bytes:,} bytes in {total.calls} calls",
            f"Read from the provider's cache, as it says: {total.cached_tokens:,} of {total.input_tokens:,} tokens",
        ]
        lines += [
            f"- {one.created_at:%Y-%m-%d %H:%M} broken: {one.reason} "
            f"({_share(one.prefix_bytes, one.request_bytes)} the same)"
            for one in breaks
        ]
        return Reply(text="\n".join(lines), detail="/cache")

    async def _usage(self, call: Call) -> Reply:
        bound = await self._bound(call)
        if bound is None:
            return Reply(text="There is no conversation here yet.", detail="/usage")
        total = await self._p.store.usage.of_session(bound[1].id)
        cached = f"{total.cached_tokens / total.input_tokens:.0%}" if total.input_tokens else "no figure"
        prefix = f"{total.prefix_bytes / total.request_bytes:.0%}" if total.request_bytes else "no figure"
        return Reply(
            text=f"Model calls: {total.calls}, in {total.seconds:.1f} s\n"
            f"Tokens: {total.input_tokens} in, {total.output_tokens} out\n"
            f"Read from the provider's cache: {cached}\n"
            f"Same bytes as the request before: {prefix}",
            detail="/usage",
        )


def _share(prefix: int, request: int) -> str:
    return f"{prefix / request:.0%}" if request else "no figure"


def _pick(sessions: list[Session], wanted: str) -> Session | None:
    if wanted.isdigit() and 1 <= int(wanted) <= len(sessions):
        return sessions[int(wanted) - 1]
    for session in sessions:
        if session.id == wanted or (session.title or "").casefold() == wanted.casefold():
            return session
    return None


def ago(then: datetime, now: datetime) -> str:
    """How long ago, in words."""
    seconds = max(0, int((now - then.astimezone(UTC)).total_seconds()))
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
