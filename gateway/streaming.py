"""What is shown of a turn while it runs: increments, a draft that is edited, progress, typing.

Everything here is cosmetic: an error of a platform is counted and never touches the turn. A draft is a row of
the outbox from before its first message, so that after a crash it is completed and not doubled.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Self, assert_never

import structlog

from adapters.errors import AdapterError
from adapters.events import ChatAddress, Delivery, DeliveryKind, Markdown, RenderedChunk
from adapters.ports import CanEdit, CanStream, CanType, LivePart, PlatformAdapter
from agent_core.events import AgentEvent, StepCommitted, TextDelta, TextReset, ToolEnded, ToolStarted, Waiting
from gateway.arbiter import NoTurn, Priority
from gateway.delivery import Deliveries, with_chunks
from gateway.keys import chat_queue
from gateway.settled import whole
from state.errors import StateError
from state.ids import ChunkId, DeliveryId
from state.records import StoredDelivery, ToolStatus, TurnLease

log = structlog.get_logger("gateway.streaming")

TYPING_EVERY = 4.0
"""Seconds; platforms show it for five or so."""
TYPING_LONGEST = 1800.0
PATIENCE = 30.0
CLOSE = 15.0
"""Seconds that the first message of a draft, once begun, may take to be recorded at the end of the turn."""
CALL = 30.0
UNIT = 4096
"""Characters of a draft where the platform names no limit."""


class TurnStream:
    """Shows one turn. `async with`: what it started has ended when the block is left, by any path.

    `emit` is the loop's sink. `draft` names the outbox row to be adopted by the final delivery, if there is one.
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
    ) -> None:
        self._deliveries = deliveries
        self._adapter = adapter
        self._address = address
        self._reply_to = reply_to
        self._lease = lease
        self._received_at = received_at
        self._chat = chat_queue(address)
        self._draft = None if draft is None else draft.id
        ids = () if draft is None else draft.chunks[0].message_ids
        self._message = ids[0] if ids else None
        self._text = ""
        self._status = ""
        self._visible: str | None = None
        self._dirty = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._open = False

    @property
    def draft(self) -> DeliveryId | None:
        """The draft's row in the outbox, from before its first message was sent."""
        return self._draft

    @property
    def text(self) -> str:
        """What has been streamed of the present answer."""
        return self._text

    async def __aenter__(self) -> Self:
        """Begin to show that we are at work."""
        self._open = True
        if isinstance(self._adapter, CanType):
            self._start(self._type(self._adapter), "typing")
        if isinstance(self._adapter, CanEdit) and not isinstance(self._adapter, CanStream):
            self._start(self._edit(self._adapter, self._adapter), "draft")
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Nothing is shown after this."""
        self._open = False
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=CLOSE)
            for task in stuck:
                log.error("stream.stuck", task=task.get_name())

    def emit(self, event: AgentEvent) -> None:
        """Take an event of the loop. Never blocks and never raises."""
        if not self._open:
            return
        match event:
            case TextDelta(text=text):
                if not self._text and self._received_at is not None:
                    waited = (self._deliveries.clock.utc() - self._received_at).total_seconds()
                    self._deliveries.metrics.first_text(max(0.0, waited))
                self._text += text
                self._status = ""
                self._live("text", text)
            case TextReset(reason=reason):
                self._text = ""
                self._live("reset", reason)
            case StepCommitted():
                self._text = ""
            case ToolStarted(summary=summary, name=name):
                self._status = summary or name
                self._live("tool", self._status)
            case ToolEnded(summary=summary, name=name, status=status):
                word = "" if status is ToolStatus.DONE else f" ({status.value})"
                self._live("tool", f"{summary or name}{word}")
            case Waiting(text=text):
                self._status = text
                self._live("status", text)
            case _:
                assert_never(event)
        self._dirty.set()

    def _live(self, kind: str, text: str) -> None:
        if isinstance(self._adapter, CanStream):
            self._adapter.live(self._address, self._reply_to, LivePart(kind=kind, text=text))

    def _start(self, work: object, what: str) -> None:
        assert asyncio.iscoroutine(work)
        self._tasks.append(asyncio.create_task(work, name=f"{what}:{self._lease.turn_id}"))

    async def _type(self, adapter: CanType) -> None:
        """Show typing until cancelled, or for half an hour at most."""
        clock = self._deliveries.clock
        until = clock.monotonic() + TYPING_LONGEST
        while clock.monotonic() < until:
            try:
                async with self._deliveries.arbiter.turn(self._chat, Priority.TYPING, patience=TYPING_EVERY):
                    async with asyncio.timeout(CALL):
                        await adapter.typing(self._address, self._reply_to)
            except (AdapterError, TimeoutError) as error:
                self._failed("typing", error)
            except NoTurn:
                continue  # the chat is busy with what matters more
            await asyncio.sleep(TYPING_EVERY)

    async def _edit(self, adapter: PlatformAdapter, editor: CanEdit) -> None:
        """Keep the draft at the newest text, at most one call in `edit_every` seconds, until cancelled."""
        every = adapter.renderer.limits.edit_every
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                async with self._deliveries.arbiter.turn(self._chat, Priority.DRAFT, patience=PATIENCE):
                    await self._show(adapter, editor)
            except (AdapterError, StateError, TimeoutError) as error:
                self._failed("draft", error)
            except NoTurn:
                self._dirty.set()
            await asyncio.sleep(every)

    async def _show(self, adapter: PlatformAdapter, editor: CanEdit) -> None:
        """One call that brings the draft to what there is now; none where it shows that already."""
        text = self._newest(adapter)
        if not text or text == self._visible:
            return
        chunk = adapter.renderer.render((Markdown(text=text),))[0]
        if self._message is not None:
            async with asyncio.timeout(CALL):
                await editor.edit(self._address, self._message, chunk)
        elif self._draft is None and self._text:
            _, cancelled = await whole(self._first(adapter, chunk, text), f"draft-first:{self._lease.turn_id}")
            if cancelled:
                raise asyncio.CancelledError
        else:
            return  # a first message whose outcome is not known: the final delivery sees to it
        self._visible = text
        if self._message is not None:
            self._deliveries.shown.put(self._chat, self._message, chunk)

    def _newest(self, adapter: PlatformAdapter) -> str:
        """The text of the draft: what was said so far, and one line about what is going on."""
        limit = (adapter.renderer.limits.text or UNIT) // 2
        text = self._text[:limit]
        return f"{text}\n\n*{self._status}*" if self._status and (text or self._message) else text

    async def _first(self, adapter: PlatformAdapter, chunk: RenderedChunk, text: str) -> None:
        """The first message: committed as a draft, sent, and its id recorded."""
        address = self._address
        delivery = Delivery(
            delivery_id=f"draft-{self._lease.turn_id}-{self._lease.fence}",
            address=address,
            kind=DeliveryKind.FINAL,
            blocks=(Markdown(text=text),),
            created_at=self._deliveries.clock.utc(),
            reply_to=self._reply_to,
        )
        made = with_chunks(delivery, [chunk])
        chunk_id: ChunkId = await self._deliveries.store.outbox.open_draft(self._lease, made)
        self._draft = made.id
        async with asyncio.timeout(CALL):
            receipt = await adapter.send(address, chunk, key=chunk_id, reply_to=self._reply_to)
        self._message = receipt.message_ids[0]
        with suppress(StateError):  # the outcome stays unknown, and the final delivery looks it up
            await self._deliveries.store.outbox.draft_sent(made.id, self._message)

    def _failed(self, what: str, error: BaseException) -> None:
        self._deliveries.metrics.cosmetic_failure(self._address.platform)
        log.info("stream.failed", what=what, turn=self._lease.turn_id, error=str(error) or type(error).__name__)
