"""The draft of a streamed answer: one message that is edited while the answer grows.

It is an outbox row before it is a message, so that a crash at any moment leaves something that the
resumed turn edits and the final answer takes over, instead of a second copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from adapters.errors import (
    AdapterError,
    AuthFailed,
    Gone,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    UnparsableMarkup,
)
from adapters.events import ChatAddress, Delivery, DeliveryKind, Markdown, RenderedChunk
from adapters.ports import CanEdit, PlatformAdapter
from gateway.arbiter import NoTurn, Priority
from gateway.delivery import LONG_TEXT, Deliveries, with_chunks
from gateway.keys import chat_queue
from gateway.settled import whole
from state.errors import StateError
from state.ids import ChunkId, DeliveryId, new_delivery_id
from state.records import StoredDelivery, TurnLease

log = structlog.get_logger("gateway.streaming")

LONGEST = 20_000
"""Characters of a draft where the platform itself has no limit."""
PATIENCE = 10.0


class Draft:
    """One draft. `show` is called by one task only; errors are counted and end no turn."""

    def __init__(
        self,
        deliveries: Deliveries,
        adapter: CanEdit,
        *,
        address: ChatAddress,
        reply_to: str,
        lease: TurnLease,
        stored: StoredDelivery | None,
    ) -> None:
        """`stored` is the draft of an earlier try of the turn: its message is edited on."""
        assert isinstance(adapter, PlatformAdapter)
        self._deliveries = deliveries
        self._sends: PlatformAdapter = adapter
        self._edits = adapter
        self._address = address
        self._reply_to = reply_to
        self._chat = chat_queue(address)
        self._lease = lease
        self._plain = False
        self._shown: RenderedChunk | None = None
        self._message: str | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.id: DeliveryId | None = None
        """The outbox row, from the moment at which the message may exist."""
        self.ended = False
        """True where this draft can be edited no more (its message is unknown, gone or refused)."""
        self.behind = False
        """True where the last `show` could not show what it was given."""
        if stored is not None:
            self.id = stored.id
            known = [one for chunk in stored.chunks for one in chunk.message_ids]
            self._message = known[-1] if known else None
            self.ended = not known

    @property
    def has_message(self) -> bool:
        """True where people see it."""
        return self._message is not None

    @property
    def in_call(self) -> bool:
        """True while the platform is being called."""
        return not self._idle.is_set()

    async def quiet(self, bound: float) -> None:
        """Wait up to `bound` seconds for the call that is under way."""
        try:
            async with asyncio.timeout(bound):
                await self._idle.wait()
        except TimeoutError:
            log.warning("draft.stuck", chat=self._chat)

    async def show(self, view: Callable[[], str]) -> bool:
        """Show what `view` gives at the moment of the call. False where nothing was shown."""
        if self._deliveries.reach.adapter(self._address.platform, self._address.account) is None:
            self.behind = True
            return False
        try:
            async with self._deliveries.arbiter.turn(self._chat, Priority.DRAFT, patience=PATIENCE):
                # only now: what has come while we waited counts too, and what was waiting is void
                chunk = await self._render(view())
                self.behind = False
                if chunk is None or chunk == self._shown:
                    return False
                self._idle.clear()
                try:
                    await self._put(chunk)
                finally:
                    self._idle.set()
                return True
        except NoTurn:
            self.behind = True
        except (AdapterError, StateError) as error:
            self._judge(error)
        return False

    def _judge(self, error: AdapterError | StateError) -> None:
        log.info("draft.failed", chat=self._chat, error=str(error))
        self._deliveries.metrics.cosmetic_failure(self._address.platform)
        self.behind = isinstance(error, RetryAfter | NotReady)
        passing = self.behind or (isinstance(error, OutcomeUnknown) and self._message is not None)
        self.ended = self.ended or not passing

    async def _render(self, text: str) -> RenderedChunk | None:
        """The first message of the text; the rest of a long answer comes with the final."""
        if not text.strip():
            return None
        renderer = self._sends.renderer
        limit = renderer.limits.text
        cut = text[: LONGEST if limit is None else min(limit * 2, LONGEST)]
        blocks = (Markdown(text=cut),)
        chunks = await asyncio.to_thread(renderer.render, blocks) if len(cut) > LONG_TEXT else renderer.render(blocks)
        if not chunks:
            return None
        return RenderedChunk(payload="", plain=chunks[0].plain) if self._plain else chunks[0]

    async def _put(self, chunk: RenderedChunk) -> None:
        try:
            await self._put_once(chunk)
        except UnparsableMarkup:
            if self._plain:
                raise
            self._plain = True
            chunk = RenderedChunk(payload="", plain=chunk.plain)
            await self._put_once(chunk)
        self._shown = chunk
        if self._message is not None:
            self._deliveries.shown.put(self._chat, self._message, chunk)

    async def _put_once(self, chunk: RenderedChunk) -> None:
        if self._message is None:
            await self._open(chunk)
            return
        try:
            async with asyncio.timeout(self._deliveries.settings.call_seconds):
                await self._edits.edit(self._address, self._message, chunk)
        except BaseException as error:
            if not isinstance(error, RetryAfter | NotReady | Rejected):
                # what is visible now is not known: the final must not rely on it
                self._deliveries.shown.drop(self._chat, self._message)
            if isinstance(error, TimeoutError):
                raise OutcomeUnknown("the edit got no answer") from error
            raise

    async def _open(self, chunk: RenderedChunk) -> None:
        """Commit the row, then send its message, then record the message."""
        outbox = self._deliveries.store.outbox
        delivery = Delivery(
            delivery_id=new_delivery_id(),
            address=self._address,
            kind=DeliveryKind.FINAL,
            blocks=(Markdown(text=chunk.plain),),
            created_at=self._deliveries.clock.utc(),
            reply_to=self._reply_to or None,
        )
        new = with_chunks(delivery, [chunk])
        chunk_id, cancelled = await whole(outbox.open_draft(self._lease, new), "draft:open")
        if cancelled:
            await whole(outbox.drop(new.id), "draft:drop")
            raise asyncio.CancelledError
        self.id = new.id
        await self._send(chunk, chunk_id, new.id)

    async def _send(self, chunk: RenderedChunk, chunk_id: ChunkId, delivery_id: DeliveryId) -> None:
        outbox = self._deliveries.store.outbox
        try:
            async with asyncio.timeout(self._deliveries.settings.call_seconds):
                receipt = await self._sends.send(self._address, chunk, key=chunk_id, reply_to=self._reply_to or None)
        except OutcomeUnknown:
            self.ended = True  # the final takes the row over and finds out
            raise
        except (RetryAfter, NotReady, AuthFailed, Rejected, Gone):
            self.id = None
            await whole(outbox.drop(delivery_id), "draft:drop")
            raise
        except TimeoutError as error:
            self.ended = True
            raise OutcomeUnknown("the draft got no answer") from error
        self._message = receipt.message_ids[-1] if receipt.message_ids else None
        self.ended = self._message is None
        if self._message is not None:
            _, cancelled = await whole(outbox.draft_sent(delivery_id, self._message), "draft:sent")
            if cancelled:
                raise asyncio.CancelledError
