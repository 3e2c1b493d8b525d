"""What a person sees of a turn while it runs: typing, a draft that grows, the names of tools at work.

All of it is cosmetic: an error here is counted and never ends a turn, and nothing of it is shown after
the turn has ended. The one durable thing is the draft's message, which the final answer takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self, assert_never

import structlog

from adapters.errors import AdapterError
from adapters.events import ChatAddress
from adapters.ports import CanEdit, CanStream, CanType, LivePart, PlatformAdapter
from agent_core.events import AgentEvent, StepCommitted, TextDelta, TextReset, ToolEnded, ToolStarted, Waiting
from gateway.arbiter import NoTurn, Priority
from gateway.delivery import Deliveries
from gateway.drafts import Draft
from gateway.keys import chat_queue
from gateway.settled import whole
from state.ids import DeliveryId
from state.records import StoredDelivery, TurnLease

log = structlog.get_logger("gateway.streaming")

STATUS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Typing is shown every `typing_every` seconds, for `typing_longest` at most; a draft begins
    `first_after` seconds after the first text (a short answer needs none); a draft's call that runs at
    the end of the turn gets `unwind` seconds."""

    typing_every: float = 4.0
    typing_longest: float = 3600.0
    typing_call: float = 10.0
    first_after: float = 1.0
    unwind: float = 5.0


class TurnStream:
    """The stream of one turn: an async context manager around the loop.

    Inside it `emit` takes the loop's events. After it nothing is shown any more, and `draft` names the
    draft that the final delivery has to adopt.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        adapter: PlatformAdapter | None,
        *,
        address: ChatAddress,
        reply_to: str,
        lease: TurnLease,
        received_at: datetime | None = None,
        draft: StoredDelivery | None = None,
        hidden: Callable[[str], bool] = lambda _text: False,
        settings: StreamSettings | None = None,
    ) -> None:
        """`adapter` is None where the platform is not served by this process: then nothing is shown.
        A draft whose text so far is `hidden` is not shown yet.
        `received_at` is when the event was accepted, for the time to the first text; `draft` is the open
        draft of a turn that is resumed."""
        self._deliveries = deliveries
        self._adapter = adapter
        self._address = address
        self._reply_to = reply_to
        self._chat = chat_queue(address)
        self._received_at = received_at
        self._hidden = hidden
        self._settings = settings or StreamSettings()
        self._draft: Draft | None = None
        if isinstance(adapter, CanEdit) and not isinstance(adapter, CanStream):
            self._draft = Draft(deliveries, adapter, address=address, reply_to=reply_to, lease=lease, stored=draft)
        self._known = draft.id if draft is not None else None
        self._parts: list[str] = []
        self._before = ""
        """What was streamed before the last reset: it stays visible until there is something new."""
        self._status = ""
        self._changed = asyncio.Event()
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def text(self) -> str:
        """What was streamed: the text of the present attempt, or of the one before while it has none."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else self._before

    @property
    def draft(self) -> DeliveryId | None:
        """The draft that the final delivery must adopt, where one was opened."""
        return self._draft.id if self._draft is not None else self._known

    async def __aenter__(self) -> Self:
        """Show typing at once, and draw from now on."""
        if isinstance(self._adapter, CanType):
            self._tasks.append(asyncio.create_task(self._type(self._adapter), name=f"typing:{self._chat}"))
        if self._draft is not None:
            self._tasks.append(asyncio.create_task(self._draw(self._draft), name=f"draft:{self._chat}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything that is shown, by whatever path the turn has ended. Bounded."""
        self._over = True
        _, cancelled = await whole(self._close(), f"stream-end:{self._chat}")
        if cancelled and error is None:
            raise asyncio.CancelledError

    def emit(self, event: AgentEvent) -> None:
        """Take an event of the loop. Never blocks and never raises."""
        if self._over:
            return
        try:
            if isinstance(self._adapter, CanStream):
                self._forward(self._adapter, event)
            self._take(event)
        except Exception:  # the boundary to what is only shown: no defect of it ends a turn
            log.exception("stream.defect", chat=self._chat)
            self._count()

    # events --------------------------------------------------------------------------------------

    def _take(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text):
                if self._received_at is not None:
                    waited = (self._deliveries.clock.utc() - self._received_at).total_seconds()
                    self._deliveries.metrics.first_text(max(0.0, waited))
                    self._received_at = None  # only the first text counts
                self._parts.append(text)
                self._status = ""
            case TextReset() | StepCommitted():
                self._before, self._parts = self.text, []
            case ToolStarted(summary=summary, name=name):
                self._status = _line(summary or name)
            case ToolEnded():
                self._status = ""
            case Waiting(text=text):
                self._status = _line(text)
            case _:
                assert_never(event)
        self._changed.set()

    def _forward(self, adapter: CanStream, event: AgentEvent) -> None:
        parts: list[LivePart] = []
        match event:
            case TextDelta(text=text):
                parts.append(LivePart(kind="text", text=text))
            case TextReset():
                parts.append(LivePart(kind="reset", text=""))
            case StepCommitted(text=text):
                # what was said beside the calls is no part of the answer
                if self._parts:
                    parts.append(LivePart(kind="reset", text=""))
                if text.strip():
                    parts.append(LivePart(kind="status", text=_line(text)))
            case ToolStarted(summary=summary, name=name):
                parts.append(LivePart(kind="tool", text=_line(summary or name)))
            case ToolEnded(summary=summary, name=name, status=status):
                parts.append(LivePart(kind="tool", text=_line(f"{summary or name} ({status.value})")))
            case Waiting(text=text):
                parts.append(LivePart(kind="status", text=_line(text)))
            case _:
                assert_never(event)
        for part in parts:
            adapter.live(self._address, self._reply_to, part)

    # what is shown -------------------------------------------------------------------------------

    async def _draw(self, draft: Draft) -> None:
        """Show the newest state whenever there is one, no oftener than the platform likes."""
        assert self._adapter is not None
        every = self._adapter.renderer.limits.edits_in(self._address.chat_kind)
        pause = every if draft.has_message else self._settings.first_after
        while not draft.ended:
            await self._changed.wait()
            await asyncio.sleep(pause)
            self._changed.clear()
            try:
                shown = await draft.show(self._view)
            except Exception:  # the boundary to what is only shown
                log.exception("draft.defect", chat=self._chat)
                self._count()
                return
            if shown:
                pause = every
            elif self._wants_more():
                self._changed.set()  # not shown this time: try again after the same pause

    def _wants_more(self) -> bool:
        return not self._over and self._draft is not None and self._draft.behind

    def _view(self) -> str:
        """The draft's text as it would be shown now; empty where there is nothing worth a message."""
        if self._over:
            return ""
        text = self.text
        if self._draft is not None and not self._draft.has_message and text.strip() and self._hidden(text):
            return ""
        if self._status and (text or not isinstance(self._adapter, CanType)):
            return f"{heal(text)}\n\n⏳ `{self._status}`".strip()
        return heal(text)

    async def _type(self, adapter: CanType) -> None:
        clock, settings = self._deliveries.clock, self._settings
        until = clock.monotonic() + settings.typing_longest
        pause = settings.typing_every
        while clock.monotonic() < until:
            served = self._deliveries.reach.adapter(self._address.platform, self._address.account) is not None
            if served and self._deliveries.arbiter.held_for(self._chat) <= 0:
                try:
                    await self._type_once(adapter)
                    pause = settings.typing_every
                except (AdapterError, TimeoutError) as error:
                    log.debug("typing.failed", chat=self._chat, error=str(error))
                    self._count()
                    pause = min(pause * 2, 60.0)  # a platform that refuses it need not be asked every time
                except Exception:  # the boundary to what is only shown
                    log.exception("typing.defect", chat=self._chat)
                    self._count()
                    return
            await asyncio.sleep(pause)

    async def _type_once(self, adapter: CanType) -> None:
        turn = self._deliveries.arbiter.turn(self._chat, Priority.TYPING, patience=self._settings.typing_every)
        with contextlib.suppress(NoTurn):
            async with turn, asyncio.timeout(self._settings.typing_call):
                await adapter.typing(self._address, self._reply_to or None)

    async def _close(self) -> None:
        """Typing and waiting are cut off; a draft's call that is under way is let come to its end."""
        for task in self._tasks:
            if self._draft is None or not self._draft.in_call or task.get_name().startswith("typing:"):
                task.cancel()
        if self._draft is not None and self._draft.in_call:
            await self._draft.quiet(self._settings.unwind)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.unwind)

    def _count(self) -> None:
        self._deliveries.metrics.cosmetic_failure(self._address.platform)


def heal(text: str) -> str:
    """Half-written markdown made whole: an open fence is closed, an open code span or bold text too."""
    fence = ""
    tail: list[str] = []
    for line in text.split("\n"):
        stripped = line.lstrip(" ")
        mark = _fence_of(stripped) if len(line) - len(stripped) < 4 else ""
        if fence:
            if mark.startswith(fence) and not stripped[len(mark) :].strip():
                fence, tail = "", []
        elif mark:
            fence = mark
        elif line.strip():
            tail.append(line)
        else:
            tail = []  # inline marks do not reach over a paragraph
    if fence:
        return f"{text.rstrip()}\n{fence}"
    last = "\n".join(tail)
    if last.count("`") % 2:
        return f"{text}`" if not text.endswith("`") else text[:-1]
    if last.count("**") % 2:
        return f"{text.rstrip()}**" if not text.rstrip().endswith("**") else text.rstrip()[:-2]
    return text


def _fence_of(line: str) -> str:
    for mark in "`~":
        length = len(line) - len(line.lstrip(mark))
        if length >= 3 and (mark == "~" or "`" not in line[length:]):
            return mark * length
    return ""


def _line(text: str) -> str:
    flat = " ".join(text.split()).replace("`", "'")
    return flat if len(flat) <= STATUS else f"{flat[: STATUS - 1]}…"
