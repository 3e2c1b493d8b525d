"""The terminal as a platform: one line of conversation, one person, one front end."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.errors import NotReady, RetryAfter
from adapters.events import (
    Action,
    Attachment,
    Button,
    ChatAddress,
    EventKind,
    MessageEvent,
    Receipt,
    RenderedChunk,
    Sender,
)
from adapters.ports import Answer, CanStream, Conversations, HearsFates, Inbox, LivePart, PlatformAdapter, Renderer
from adapters.render import Said, read_said
from adapters.terminal.attach import COMMAND, files_of, told
from adapters.terminal.front import ANSWERED, OPEN, FrontEnd, HungUp, Outcome, SaidKind, Talk
from adapters.terminal.render import TerminalRenderer

PLATFORM = "terminal"
PATIENCE = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses, in seconds, before a message is offered again to a store that is busy."""
LOOK_EVERY = 5.0
"""Seconds after which the store is asked for a fate of which nothing was heard."""
SHOWN_WITHIN = 5.0
"""Seconds within which the delivery of an answer comes after its end; then it is shown without."""
RECEIPTS = 1000
"""Receipts that are kept for sends that are tried again."""

_COMMAND = re.compile(r"/[A-Za-z][A-Za-z0-9_-]{0,31}(?:\s|\Z)")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Question:
    """A message of this terminal whose end is awaited."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    shown: asyncio.Event = field(default_factory=asyncio.Event)
    """Its answer has been shown."""
    covered: bool = False
    """It was shown without its delivery, which must not show it again."""


class TerminalAdapter:
    """Implements `PlatformAdapter`, `CanStream`, `HearsFates`, and `Talk` for its front end.

    `run` returns when the person leaves; `exit_code` is then what the process should end with.
    """

    def __init__(
        self,
        front: FrontEnd,
        *,
        chat_id: str,
        sender: Sender,
        conversations: Conversations,
        title: str = "",
        commands: Sequence[tuple[str, str]] = (),
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """`chat_id` names the line of conversation; the same id later goes on with it."""
        self.exit_code = 0
        self._front = front
        self._address = ChatAddress(platform=PLATFORM, account=chat_id, chat_id=chat_id)
        self._sender = sender
        self._conversations = conversations
        self._title = title
        self._commands = (*commands, COMMAND)
        self._attached: list[Attachment] = []
        self._now = now
        self._renderer = TerminalRenderer()
        self._inbox: Inbox | None = None
        self._run_id = secrets.token_hex(6)
        self._count = 0
        self._gone = False
        """Nobody sees what is shown any more."""
        self._questions: dict[str, _Question] = {}
        self._receipts: dict[str, Receipt] = {}

    @property
    def platform(self) -> str:
        """The platform's name."""
        return PLATFORM

    @property
    def account(self) -> str:
        """One a line of conversation: several terminals over one store serve each its own."""
        return self._address.account

    @property
    def renderer(self) -> Renderer:
        """One chunk a delivery."""
        return self._renderer

    @property
    def address(self) -> ChatAddress:
        """The line of conversation."""
        return self._address

    @property
    def title(self) -> str:
        """The name of the conversation."""
        return self._title

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """The slash commands."""
        return self._commands

    async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
        """Serve the front end until the person leaves or the caller cancels."""
        self._inbox = inbox
        try:
            ready()
            self.exit_code = await self._front.run(self)
        except HungUp:
            self.exit_code = 1
        finally:
            self._inbox = None
            await self._front.close()

    # -- what is typed -------------------------------------------------------------------------------

    async def attach(self, line: str) -> Sequence[str]:
        """See `Talk`."""
        found, faults = await asyncio.to_thread(files_of, line)
        if not found and not faults:
            self._attached.clear()
        self._attached += found
        return told(self._attached, faults)

    async def say(self, text: str) -> str:
        """See `Talk`."""
        kind = EventKind.COMMAND if _COMMAND.match(text) else EventKind.MESSAGE
        files = () if kind is EventKind.COMMAND else tuple(self._attached)
        message_id = await self._hand_over(kind, text, None, files)
        if files:
            del self._attached[: len(files)]
        return message_id

    async def press(self, button: Button) -> str:
        """See `Talk`."""
        return await self._hand_over(EventKind.ACTION, "", Action(button_id=button.id, value=button.value))

    async def _hand_over(
        self, kind: EventKind, text: str, action: Action | None, files: tuple[Attachment, ...] = ()
    ) -> str:
        self._count += 1
        message_id = f"{self._run_id}-{self._count}"
        now = self._now()
        event = MessageEvent(
            dedup_id=message_id,
            kind=kind,
            message_id=message_id,
            address=self._address,
            sender=self._sender,
            received_at=now,
            sent_at=now,
            text=text,
            attachments=files,
            action=action,
            mentions_us=True,
        )
        self._questions[message_id] = _Question()
        try:
            await self._accept(event)
        except NotReady:
            del self._questions[message_id]
            raise
        return message_id

    async def _accept(self, event: MessageEvent) -> None:
        """Offer the event until the store has it: a database that is locked for some seconds is no fault."""
        for pause in (*PATIENCE, None):
            if self._inbox is None:
                raise NotReady("the terminal is closed")
            try:
                await self._inbox.accept(event)
            except (NotReady, RetryAfter) as error:
                if pause is None:
                    raise NotReady(str(error), told=error.told) from error
                await asyncio.sleep(pause)
            else:
                return

    async def outcome(self, message_id: str) -> Outcome:
        """See `Talk`."""
        question = self._questions[message_id]
        answer = await self._end_of(message_id, question)
        if answer is None:
            return Outcome(message_id=message_id, fate="failed", detail="the store does not know it", text="")
        if answer.text and answer.fate not in {"merged", "steered"}:
            try:
                async with asyncio.timeout(SHOWN_WITHIN):
                    await question.shown.wait()
            except TimeoutError:
                question.covered = True
                await self._front.show(Said(text=answer.text), _kind(answer), message_id)
        if self._gone:
            raise HungUp
        if not question.covered:
            del self._questions[message_id]
        return Outcome(
            message_id=message_id,
            fate=answer.fate,
            detail=answer.detail,
            text=answer.text,
            session_id=answer.session_id,
            turn_id=answer.turn_id,
            finish_reason=answer.finish_reason,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
        )

    async def _end_of(self, message_id: str, question: _Question) -> Answer | None:
        """Wait until the message has ended; another process may have ended it, so the store is asked too.

        Raises `HungUp` where the front end has gone meanwhile.
        """
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await question.ended.wait()
            except TimeoutError:
                pass
            if self._gone:
                raise HungUp
            answer = await self._conversations.answer(self._address, message_id)
            if answer is None or answer.fate not in OPEN:
                return answer
            question.ended.clear()

    # -- what is said --------------------------------------------------------------------------------

    async def send(self, address: ChatAddress, chunk: RenderedChunk, *, key: str, reply_to: str | None) -> Receipt:
        """Show the chunk. Raises `NotReady` where nobody is there to see it: it is shown another time."""
        if key in self._receipts:
            return self._receipts[key]
        if self._inbox is None or address != self._address:
            raise NotReady("this line of conversation is not open in the terminal")
        said = read_said(chunk)
        question = self._questions.get(reply_to or "")
        kind = await self._kind_of(said, reply_to, question)
        if question is not None and question.covered and kind in {"answer", "failure"}:
            del self._questions[reply_to or ""]
        else:
            try:
                await self._front.show(said, kind, reply_to)
            except HungUp as error:
                self._gone = True
                for waiting in self._questions.values():
                    waiting.ended.set()
                    waiting.shown.set()
                raise NotReady("the terminal is closed") from error
        receipt = Receipt(message_ids=(key,), sent_at=self._now())
        self._receipts[key] = receipt
        if len(self._receipts) > RECEIPTS:
            del self._receipts[next(iter(self._receipts))]
        if question is not None and kind in {"answer", "failure"}:
            question.shown.set()
        return receipt

    async def _kind_of(self, said: Said, reply_to: str | None, question: _Question | None) -> SaidKind:
        if reply_to is None:
            return "notice"
        if question is None:
            return "earlier"
        answer = await self._conversations.answer(self._address, reply_to)
        # The end of an event and its answer are one transaction: an open event has no answer yet.
        if answer is None or answer.fate in OPEN or answer.text.strip() != said.text.strip():
            return "notice"
        return _kind(answer)

    def live(self, address: ChatAddress, reply_to: str, part: LivePart) -> None:
        """A part of a running turn, for the front end."""
        if address == self._address and reply_to in self._questions:
            self._front.live(reply_to, part)

    def attended(self, address: ChatAddress, reply_to: str) -> bool:
        """Whether somebody can choose: nobody can where a pipe is read, or where the terminal has gone."""
        return self._front.attended and address == self._address

    def settled(self, address: ChatAddress, message_id: str, fate: str, detail: str) -> None:
        """An event has ended: whoever waits for it looks it up."""
        if question := self._questions.get(message_id):
            question.ended.set()


def _kind(answer: Answer) -> SaidKind:
    return "answer" if answer.fate in ANSWERED else "failure"


if TYPE_CHECKING:

    def _conforms(adapter: TerminalAdapter) -> None:
        _adapter: PlatformAdapter = adapter
        _streams: CanStream = adapter
        _hears: HearsFates = adapter
        _talks: Talk = adapter
