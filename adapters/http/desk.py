"""The desk: takes a request's event in, and follows it to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

import structlog

from adapters.errors import AdapterError
from adapters.events import EventKind, MessageEvent, Sender
from adapters.http.auth import PLATFORM
from adapters.http.errors import HttpProblem
from adapters.http.lines import ACCOUNT, person_of
from adapters.http.waits import Part, Waiter, Waits
from adapters.ports import Answer, Conversations, Inbox

log = structlog.get_logger("adapters.http")

OPEN_FATES = frozenset({"waiting", "running"})
JOINED = frozenset({"merged", "steered"})
"""Fates of an event that another event's turn answers."""
SPOKEN_TO = frozenset({"answered", "command", "failed", "refused"})
"""Fates after which something was said, if not as the answer of a turn."""
PACE = 0.05
"""Seconds between two looks at a stream: increments that come faster are told together."""
GRACE = 1.0
"""Seconds for which words are awaited that the fate promises and that are only in the outbox yet."""


class End(Enum):
    """Why following an event has ended."""

    ANSWER = "answer"
    TIMEOUT = "timeout"
    CLOSING = "closing"
    GONE = "gone"


@dataclass(slots=True)
class Pending:
    """An accepted event that is being followed. `answer` is what is known of it, final once `end` is ANSWER."""

    event: MessageEvent
    waiter: Waiter
    deadline: float
    looked: float = 0.0
    """When the last parts were taken (the loop's clock)."""
    answer: Answer | None = None
    end: End | None = None


class Desk:
    """Accepts events and follows them. `inbox` is set while the adapter runs."""

    def __init__(
        self, conversations: Conversations, waits: Waits, *, wait_seconds: float, now: Callable[[], datetime]
    ) -> None:
        self.inbox: Inbox | None = None
        self.waits = waits
        self.now = now
        self._conversations = conversations
        self._wait_seconds = wait_seconds

    async def accept(self, event: MessageEvent) -> bool:
        """Commit the event; False where it was known. Raises `HttpProblem` where nothing was committed."""
        if self.inbox is None:
            raise _unready("The server is starting or stopping; try again in a moment.")
        try:
            accepted = await self.inbox.accept(event)
        except AdapterError as exc:
            raise _unready("The message could not be stored; nothing was done with it. Try again.") from exc
        return accepted.is_new

    async def begin(self, event: MessageEvent) -> Pending:
        """Accept the event and be ready to follow it. Every `Pending` goes back to `leave`.

        An event that was known is not run again: its own course is followed, or its end told at once.
        """
        # the waiter first: the end may come before `accept` returns
        waiter = self.waits.open(event.address, event.message_id)
        deadline = asyncio.get_running_loop().time() + self._wait_seconds
        pending = Pending(event=event, waiter=waiter, deadline=deadline)
        try:
            if not await self.accept(event):
                await self._join(pending)
        except BaseException:  # whatever ends us, nobody waits any more; it is passed on
            self.waits.close(waiter)
            raise
        return pending

    async def once(self, event: MessageEvent) -> Answer | None:
        """Accept the event and do not wait. What is known of it where it was known already."""
        if await self.accept(event):
            return None
        answer = await self.find(event.sender.id, event.message_id)
        if answer is not None:
            _same_request(event, answer)
        return answer

    def leave(self, pending: Pending) -> None:
        """The request does not follow any more. Idempotent."""
        self.waits.close(pending.waiter)

    async def find(self, name: str, message_id: str) -> Answer | None:
        """What became of a message of the principal `name`; None for what it did not send."""
        return await self._conversations.find_answer(PLATFORM, ACCOUNT, person_of(name), message_id)

    async def step(self, pending: Pending, beat: float) -> list[Part]:
        """The next parts, at the latest after `beat` seconds (then there may be none). Sets `pending.end`
        once there is nothing more to come; parts and the end may come together."""
        waiter, loop = pending.waiter, asyncio.get_running_loop()
        left = pending.deadline - loop.time()
        if not waiter.settled and left > 0 and await waiter.wait(min(beat, left)):
            early = pending.looked + PACE - loop.time()
            if early > 0 and not waiter.settled and not waiter.closing:
                await waiter.pause(early)
        if waiter.settled:
            await self._look(pending, beat)
        if pending.end is None and waiter.closing:
            pending.end = End.CLOSING
        pending.looked = loop.time()
        if pending.end is None and pending.looked >= pending.deadline:
            pending.end = End.TIMEOUT
        return waiter.take()

    async def finish(self, pending: Pending, gone: Callable[[], bool], *, beat: float = 15.0) -> None:
        """Follow to the end without telling parts. `gone` says whether the client has left."""
        while pending.end is None:
            await self.step(pending, beat)
            if pending.end is None and gone():
                pending.end = End.GONE

    async def cancel(self, event: MessageEvent) -> None:
        """Take the message back: its turn is ended if it still runs."""
        await self.accept(
            MessageEvent(
                dedup_id=f"{event.sender.id}/c/{event.message_id}",
                kind=EventKind.DELETE,
                message_id=event.message_id,
                address=event.address,
                sender=event.sender,
                received_at=self.now(),
            )
        )

    async def _join(self, pending: Pending) -> None:
        pending.waiter.joined_late()
        answer = await self.find(pending.event.sender.id, pending.event.message_id)
        if answer is None:
            # known to the inbox and not to this principal: ids are made per principal, so a defect
            raise HttpProblem(422, "This id is known, but nothing can be told about it.", code="id_in_use")
        _same_request(pending.event, answer)
        if answer.address != pending.waiter.address:
            self.waits.move(pending.waiter, answer.address)
        pending.event = replace(pending.event, address=answer.address)
        # asked again: it may have ended before the waiter was in its place
        answer = await self.find(pending.event.sender.id, pending.event.message_id) or answer
        if answer.fate not in OPEN_FATES:
            pending.waiter.settled = True

    async def _look(self, pending: Pending, beat: float) -> None:
        """The event has ended: set the answer, or keep waiting for the turn that it joined."""
        waiter, message_id = pending.waiter, pending.event.message_id
        poked = waiter.poked
        answer = await self._conversations.answer(waiter.address, message_id)
        if answer is None or answer.fate in OPEN_FATES:
            log.warning("http.settled_too_early", message=message_id)
            waiter.settled = False
            return
        if not answer.text and answer.fate in JOINED and not poked:
            if not waiter.closing:
                left = pending.deadline - asyncio.get_running_loop().time()
                await waiter.wait(max(0.0, min(beat, left)))
            if not waiter.poked:
                return
            answer = await self._conversations.answer(waiter.address, message_id) or answer
        if not answer.text and answer.fate in SPOKEN_TO and not waiter.said and not waiter.closing:
            await waiter.words(GRACE)
        if not answer.text and waiter.said:
            answer = replace(answer, text="\n\n".join(waiter.said))
        pending.answer = answer
        pending.end = End.ANSWER


def _unready(message: str) -> HttpProblem:
    return HttpProblem(503, message, code="not_ready", headers={"Retry-After": "2"})


def _same_request(event: MessageEvent, answer: Answer) -> None:
    """Refuse an id that the client has used for something else: the old answer would be a wrong one."""
    before, now = stored(answer).get("hash"), json.loads(event.platform_data or "{}").get("hash")
    if before is not None and now is not None and before != now:
        raise HttpProblem(422, "This id was used for another message.", code="id_in_use", param="id")


def stored(answer: Answer) -> dict[str, object]:
    """What we noted with the event."""
    data = json.loads(answer.platform_data or "{}")
    return data if isinstance(data, dict) else {}


def sender(name: str) -> Sender:
    """The person that a principal is."""
    return Sender(id=name, name=name)


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)
