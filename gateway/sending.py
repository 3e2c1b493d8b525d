"""One delivery from its rows to the platform: what is tried, what is recorded, what each error means.

A chunk is SENDING in the store before the platform hears of it, and SENT right after. Whatever happens
between is *unknown*, is looked up where that can be done, and is otherwise sent once more, marked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any, TypeVar

import structlog

from adapters.errors import (
    AdapterError,
    AuthFailed,
    Gone,
    NoRights,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    TooLong,
    UnparsableMarkup,
)
from adapters.events import ChatAddress, DeliveryKind, Receipt, RenderedChunk
from adapters.ports import CanEdit, CanLookUp, PlatformAdapter
from gateway.arbiter import PRIORITY_OF, Arbiter
from gateway.convert import address_from_json
from gateway.metrics import Metrics
from gateway.reach import Reach
from gateway.settled import whole
from state.clock import Clock
from state.errors import Conflict, StoreBusy, StoreFull
from state.records import Chunk, ChunkState, DeliveryState, NewChunk, StoredDelivery
from state.store import Store

log = structlog.get_logger("gateway.delivery")

T = TypeVar("T")

ROUNDS = 20
"""How often one delivery is read anew in a row; each time something of it has changed."""
KNOWN_TRIES = 5
"""How often a chunk is tried again whose outcome can be told (look-up, idempotent edit)."""
PARTED = 200
"""Characters of a plain part that is parted once more where it is too long: escapes may have made it so."""
SHOWN = 1000


class Step(Enum):
    """How to go on after a try."""

    NEXT = auto()  #: this chunk is through
    AGAIN = auto()  #: the stored state has changed: read it and go on
    STOP = auto()  #: nothing can be done now; somebody wakes the chat later
    ENDED = auto()  #: the delivery is in a final state


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """`call_seconds` bounds one call of an adapter; `unknown_seconds` is the pause before an unknown
    outcome is looked up; a delivery older than `oldest` of which nothing was sent is given up, told;
    a wait of `long_wait` seconds is told to the person when it is over; `lanes` chats are served at once."""

    call_seconds: float = 60.0
    unknown_seconds: float = 2.0
    oldest: timedelta = timedelta(hours=48)
    long_wait: float = 60.0
    lanes: int = 500


class Shown:
    """What streamed drafts show at the moment, by chat and message. Bounded; lost with the process."""

    def __init__(self) -> None:
        self._chunks: OrderedDict[tuple[str, str], RenderedChunk] = OrderedDict()

    def put(self, chat: str, message_id: str, chunk: RenderedChunk) -> None:
        """This is visible now."""
        self._chunks[chat, message_id] = chunk
        self._chunks.move_to_end((chat, message_id))
        while len(self._chunks) > SHOWN:
            self._chunks.popitem(last=False)

    def get(self, chat: str, message_id: str) -> RenderedChunk | None:
        """What is visible, where that is known."""
        return self._chunks.get((chat, message_id))

    def drop(self, chat: str, message_id: str) -> None:
        """It is not a draft any more."""
        self._chunks.pop((chat, message_id), None)


@dataclass(frozen=True, slots=True)
class _Try:
    """One chunk on its way: everything that its handling needs."""

    delivery: StoredDelivery
    chunk: Chunk
    first: bool
    address: ChatAddress
    adapter: PlatformAdapter

    @property
    def key(self) -> dict[str, object]:
        """For the log."""
        return {"delivery": self.delivery.id, "chunk": self.chunk.id, "chat": self.delivery.chat}


class Sender:
    """Carries out deliveries. One call at a time for a chat: its lane sees to that, and the arbiter."""

    def __init__(
        self,
        *,
        store: Store,
        arbiter: Arbiter,
        reach: Reach,
        metrics: Metrics,
        clock: Clock,
        settings: DeliverySettings,
        tell: Callable[[StoredDelivery, str, str], Awaitable[None]],
        auth_failed: Callable[[str, AuthFailed], None],
    ) -> None:
        """`tell(delivery, why, text)` says a notice where the delivery goes, once for each `why`."""
        self._outbox = store.outbox
        self._arbiter = arbiter
        self._reach = reach
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._tell = tell
        self._auth_failed = auth_failed
        self._waited: dict[str, float] = {}
        self.shown = Shown()
        self.closing = False
        """Set when the process stops: a store that stays busy is not waited for without end."""

    async def deliver(self, stored: StoredDelivery) -> Step:
        """Send what is open of a delivery. ENDED or STOP. Cancelling it leaves a stated state behind."""
        began, started = self._clock.utc(), self._clock.monotonic()
        step = await self._rounds(stored)
        self._metrics.spans.done(
            "delivery",
            began=began,
            seconds=self._clock.monotonic() - started,
            parent=f"turn:{stored.turn_id}" if stored.turn_id is not None else "",
            delivery=stored.id,
            turn=stored.turn_id or "",
            platform=stored.platform,
            kind=stored.kind,
            chunks=len(stored.chunks),
            ended=step is Step.ENDED,
        )
        return step

    async def _rounds(self, stored: StoredDelivery) -> Step:
        for _ in range(ROUNDS):
            step = await self._pass(stored)
            if step in (Step.ENDED, Step.STOP):
                return step
            fresh = await self._outbox.get(stored.id)
            if fresh is None or fresh.state is not DeliveryState.READY:
                return Step.ENDED
            stored = fresh
        log.error("delivery.restless", delivery=stored.id, chat=stored.chat)
        await self._arbiter.hold(stored.chat, 30.0)
        return Step.STOP

    async def _pass(self, stored: StoredDelivery) -> Step:
        adapter = self._reach.adapter(stored.platform, stored.account)
        if adapter is None:
            return Step.STOP
        chunks = stored.chunks
        if self._clock.utc() - stored.created_at > self._settings.oldest and all(
            chunk.state is ChunkState.READY for chunk in chunks
        ):
            return await self._too_old(stored)
        address = address_from_json(stored.address_json)
        for number, chunk in enumerate(chunks):
            if chunk.state in (ChunkState.SENT, ChunkState.FAILED, ChunkState.DROPPED):
                continue
            if chunk.state is ChunkState.SENDING:
                return Step.STOP  # another process is at it; when that dies, `recover` makes it unknown
            step = await self._chunk(_Try(stored, chunk, number == 0, address, adapter))
            if step is not Step.NEXT:
                return step
        self._metrics.delivery(stored.platform, "sent")
        waited = self._waited.pop(stored.chat, 0.0)
        if waited > self._settings.long_wait:
            await self._tell(
                stored, "waited", f"(The platform made me wait {_minutes(waited)} before I could send this.)"
            )
        return Step.ENDED

    async def _too_old(self, stored: StoredDelivery) -> Step:
        hours = int(self._settings.oldest.total_seconds() // 3600)
        log.error("delivery.too_old", delivery=stored.id, chat=stored.chat, kind=stored.kind)
        await self._record(lambda: self._outbox.failed(stored.chunks[0].id, f"older than {hours} h"))
        self._metrics.delivery(stored.platform, "failed")
        if stored.kind == DeliveryKind.FINAL.value:
            day = stored.created_at.strftime("%d %B, %H:%M UTC")
            await self._tell(
                stored, "expired", f"An answer of {day} could not be delivered for over {hours} hours and was given up."
            )
        return Step.ENDED

    async def _chunk(self, one: _Try) -> Step:
        chunk, stored = one.chunk, one.delivery
        if chunk.state is ChunkState.UNKNOWN and chunk.edits is None:
            step = await self._clear_up(one)
            if step is not Step.AGAIN:
                return step
        priority = PRIORITY_OF[DeliveryKind(stored.kind)]
        try:
            async with self._arbiter.turn(stored.chat, priority):
                if self._reach.adapter(stored.platform, stored.account) is not one.adapter:
                    return Step.STOP  # it went down while we waited
                if not await self._begin(chunk):
                    return Step.AGAIN
                receipt = await self._effect(one)
                await self._arrived(one, receipt.message_ids)
        except AdapterError as error:
            if chunk.edits is not None:
                return await self._edit_failed(one, chunk.edits, error)
            return await self._failed(one, error)
        self._reach.worked(stored.platform)
        return Step.NEXT

    # what goes out -------------------------------------------------------------------------------

    async def _begin(self, chunk: Chunk) -> bool:
        """Commit that the chunk is being sent. False where somebody else has it."""
        begun, cancelled = await whole(self._persist(lambda: self._outbox.sending(chunk.id)), "outbox:sending")
        if cancelled:
            if begun:
                await self._record(lambda: self._outbox.back(chunk.id, not_before=None, error="stopped before sending"))
            raise asyncio.CancelledError
        return begun

    async def _effect(self, one: _Try) -> Receipt:
        """The one call of this try (two where the markup is refused: the first one sent nothing)."""
        chunk = RenderedChunk(payload=one.chunk.payload, plain=one.chunk.plain)
        try:
            try:
                return await self._send(one, chunk)
            except UnparsableMarkup:
                if not chunk.payload:
                    raise
                log.warning("delivery.markup_refused", **one.key)
                return await self._send(one, RenderedChunk(payload="", plain=chunk.plain))
        except asyncio.CancelledError:
            await self._record(lambda: self._outbox.unknown(one.chunk.id, "the process was stopped while it was sent"))
            raise

    async def _send(self, one: _Try, chunk: RenderedChunk) -> Receipt:
        target = one.chunk.edits
        if target is None:
            reply_to = one.delivery.reply_to if one.first else None
            return await self._call(one.adapter.send(one.address, chunk, key=one.chunk.id, reply_to=reply_to), one)
        if not isinstance(one.adapter, CanEdit):
            raise Gone("the platform does not let us edit any more")
        if self.shown.get(one.delivery.chat, target) != chunk:
            await self._call(one.adapter.edit(one.address, target, chunk), one)
        return Receipt(message_ids=(target,), sent_at=self._clock.utc())

    async def _call(self, call: Coroutine[Any, Any, T], one: _Try) -> T:
        """A bounded call that ends with a result or an `AdapterError`."""
        try:
            async with asyncio.timeout(self._settings.call_seconds):
                return await call
        except AdapterError:
            raise
        except TimeoutError as error:
            raise OutcomeUnknown(f"no answer within {self._settings.call_seconds:g} s") from error
        except Exception as error:  # the boundary to an adapter: what it did before it broke is not known
            log.exception("adapter.defect", **one.key)
            raise OutcomeUnknown(f"the adapter broke: {type(error).__name__}") from error

    # what became of it ---------------------------------------------------------------------------

    async def _arrived(self, one: _Try, message_ids: tuple[str, ...]) -> None:
        if one.chunk.edits is not None:
            self.shown.drop(one.delivery.chat, one.chunk.edits)
        try:
            await self._record(lambda: self._outbox.sent(one.chunk.id, message_ids))
        except Conflict as error:
            log.error("delivery.sent_twice", error=str(error), **one.key)  # noqa: TRY400 - no defect of this place

    async def _failed(self, one: _Try, error: AdapterError) -> Step:
        """What an error of `send` means, by its type."""
        outbox, chunk, stored = self._outbox, one.chunk, one.delivery
        match error:
            case RetryAfter():
                self._waited[stored.chat] = self._waited.get(stored.chat, 0.0) + error.seconds
                await self._record(lambda: outbox.back(chunk.id, not_before=None, error=str(error)))
                return Step.STOP
            case NotReady() | AuthFailed():
                self._unreachable(one, error)
                await self._record(lambda: outbox.back(chunk.id, not_before=None, error=str(error)))
                return Step.STOP
            case OutcomeUnknown():
                return await self._uncertain(one, error)
            case TooLong() if chunk.payload or len(chunk.plain) >= PARTED:
                log.warning("delivery.too_long", **one.key)
                parts = [NewChunk(payload="", plain=part) for part in quarters(chunk.plain)]
                await self._record(lambda: outbox.resplit(chunk.id, parts))
                return Step.AGAIN
            case _:
                return await self._give_up(one, error)

    async def _edit_failed(self, one: _Try, target: str, error: AdapterError) -> Step:
        """What an error of `edit` means: what is visible already need not be shown again (B27)."""
        shown = self.shown.get(one.delivery.chat, target)
        if shown is not None and shown.plain == one.chunk.plain and not isinstance(error, Gone | NoRights):
            self._metrics.cosmetic_failure(one.delivery.platform)
            log.info("delivery.last_edit_failed", error=str(error), **one.key)
            await self._arrived(one, (target,))
            return Step.NEXT
        match error:
            case OutcomeUnknown() if one.chunk.tries >= KNOWN_TRIES:
                return await self._give_up(one, error)
            case Gone():
                pass
            case Rejected() if not isinstance(error, TooLong | NoRights):
                pass
            case _:
                return await self._failed(one, error)
        log.info("delivery.sent_as_new", error=str(error), **one.key)
        await self._record(lambda: self._outbox.unedit(one.chunk.id))
        return Step.AGAIN

    async def _uncertain(self, one: _Try, error: AdapterError) -> Step:
        self._metrics.outcome_unknown(one.delivery.platform)
        log.warning("delivery.outcome_unknown", error=str(error), **one.key)
        await self._record(lambda: self._outbox.unknown(one.chunk.id, str(error)))
        await asyncio.sleep(self._settings.unknown_seconds)
        return Step.AGAIN

    async def _give_up(self, one: _Try, error: AdapterError) -> Step:
        parked = isinstance(error, Gone)
        state = "parked" if parked else "failed"
        log.error("delivery.given_up", state=state, error=str(error), kind=one.delivery.kind, **one.key)
        await self._record(lambda: self._outbox.failed(one.chunk.id, str(error), park=parked))
        self._metrics.delivery(one.delivery.platform, state)
        return Step.ENDED

    def _unreachable(self, one: _Try, error: AdapterError) -> None:
        platform = one.delivery.platform
        if isinstance(error, AuthFailed):
            self._reach.down(platform)
            self._auth_failed(platform, error)
        else:
            pause = self._reach.failed(platform)
            log.info("platform.not_ready", platform=platform, error=str(error), pause=pause)

    async def _clear_up(self, one: _Try) -> Step:
        """A chunk that may have arrived. AGAIN: it is to be sent now (once more, marked, or for sure)."""
        chunk, stored = one.chunk, one.delivery
        if isinstance(one.adapter, CanLookUp):
            try:
                async with self._arbiter.turn(stored.chat, PRIORITY_OF[DeliveryKind(stored.kind)]):
                    receipt = await self._call(one.adapter.look_up(one.address, chunk.id), one)
                    if receipt is not None:
                        await self._make_sure(one, receipt)
            except (NotReady, AuthFailed) as error:
                self._unreachable(one, error)
                return Step.STOP
            except RetryAfter:
                return Step.STOP
            except AdapterError as error:
                log.info("delivery.look_up_failed", error=str(error), **one.key)
            else:
                if receipt is not None:
                    log.info("delivery.found", **one.key)
                    if await self._begin(chunk):
                        await self._arrived(one, receipt.message_ids)
                    return Step.NEXT
                if chunk.tries < KNOWN_TRIES:
                    return Step.AGAIN
        if chunk.tries >= 1:
            return await self._give_up(one, OutcomeUnknown("the outcome was unknown twice"))
        self._metrics.resent(stored.platform)
        log.warning("delivery.resent_with_unknown_outcome", **one.key)
        return Step.AGAIN

    async def _make_sure(self, one: _Try, receipt: Receipt) -> None:
        """What was found may be the draft that this chunk takes over, with less text: edit it."""
        if one.first and len(receipt.message_ids) == 1 and isinstance(one.adapter, CanEdit):
            chunk = RenderedChunk(payload=one.chunk.payload, plain=one.chunk.plain)
            try:
                await self._call(one.adapter.edit(one.address, receipt.message_ids[0], chunk), one)
            except Rejected as error:
                log.warning("delivery.found_not_edited", error=str(error), **one.key)

    # records -------------------------------------------------------------------------------------

    async def _record(self, write: Callable[[], Awaitable[T]]) -> T:
        """Commit what has happened, also when cancelled meanwhile; then the cancellation goes on."""
        result, cancelled = await whole(self._persist(write), "outbox:record")
        if cancelled:
            raise asyncio.CancelledError
        return result

    async def _persist(self, write: Callable[[], Awaitable[T]]) -> T:
        """Try until the store takes it: an outcome that is forgotten would be sent twice."""
        delay = 0.05
        while True:
            try:
                return await write()
            except (StoreBusy, StoreFull) as error:
                if self.closing and delay > 1.0:
                    raise
                log.warning("delivery.store_busy", error=str(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)


def quarters(text: str) -> list[str]:
    """The text in about four parts, cut at the ends of lines or words where there are any; nothing is lost."""
    parts: list[str] = []
    least = max(1, len(text) // 4)
    while len(text) > least:
        cut = max(text.rfind("\n", 1, least), text.rfind(" ", 1, least)) + 1 or least
        if cut < least // 2:
            cut = least
        parts.append(text[:cut])
        text = text[cut:]
    return [part for part in [*parts, text] if part.strip()] or [text]


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
