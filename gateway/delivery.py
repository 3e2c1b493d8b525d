"""Out: from something to be said to rows in the outbox, and the pump that carries the rows out.

One lane a chat, gone when idle, keeps the order inside the chat; nothing that happens in one chat delays
another. A lane that can do nothing now (held, platform down) ends; it is started again by whoever knows
better: the end of a hold, `resume`, `wake`, or the look at the whole outbox every few seconds.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

import structlog

from adapters import registry
from adapters.errors import AdapterError, AuthFailed, NotReady
from adapters.events import ChatAddress, Delivery, DeliveryKind, Markdown, RenderedChunk
from adapters.ports import PlatformAdapter
from gateway.arbiter import Arbiter, Priority
from gateway.convert import address_from_json, address_to_json, blocks_text, blocks_to_json
from gateway.keys import chat_queue
from gateway.metrics import Metrics
from gateway.reach import Reach
from gateway.sending import DeliverySettings, Sender, Shown, Step
from state import owners
from state.clock import Clock
from state.errors import StateError, StoreClosed
from state.ids import DeliveryId, Owner, SessionId, TurnId
from state.records import DeliveryState, NewChunk, NewDelivery, StoredDelivery
from state.store import Store

log = structlog.get_logger("gateway.delivery")

LONG_TEXT = 8_000
"""Characters from which a text is rendered in a thread."""
PAGE = 200
WIDEST_PAGE = 3_200
LOOK_EVERY = 5.0
"""Seconds after which the outbox is looked at without being asked: other processes put rows there, too."""
SHORT_HOLD = 5.0
"""Seconds for which a lane waits at the arbiter rather than end."""
UNSAVED_EVERY = 600.0
"""Seconds for which one chat is not told again what could not be kept in the store."""


class Deliveries:
    """Says things, durably. Everything is for the event loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        adapters: Mapping[str, PlatformAdapter],
        arbiter: Arbiter,
        metrics: Metrics,
        clock: Clock,
        settings: DeliverySettings | None = None,
        owner_alive: Callable[[Owner], bool | None] = owners.is_alive,
        on_auth_failed: Callable[[str, AuthFailed], None] | None = None,
    ) -> None:
        """`adapters` is the live table by platform name. `on_auth_failed` is told when a platform refuses
        our credentials in a send; nothing more is sent there before `resume`."""
        self.store = store
        self.arbiter = arbiter
        self.metrics = metrics
        self.clock = clock
        self.settings = settings or DeliverySettings()
        self.reach = Reach(adapters, clock)
        self._owner_alive = owner_alive
        self._sender = Sender(
            store=store,
            arbiter=arbiter,
            reach=self.reach,
            metrics=metrics,
            clock=clock,
            settings=self.settings,
            tell=self._tell,
            auth_failed=on_auth_failed or (lambda platform, error: None),
        )
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._backlog: dict[str, None] = {}
        self._held: set[str] = set()
        self._look = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._running = False
        self._unsaved: dict[str, float] = {}
        self.elsewhere: Callable[[str], None] | None = None
        """Told of chats with something to be said that another process serves (a successor). Must not block."""

    @property
    def shown(self) -> Shown:
        """What streamed drafts show: told by the streams, so that a failed last edit is no lost answer."""
        return self._sender.shown

    @property
    def lanes(self) -> int:
        """How many chats are being served."""
        return len(self._lanes)

    # saying --------------------------------------------------------------------------------------

    async def compose(self, delivery: Delivery, *, adopts: DeliveryId | None = None) -> NewDelivery:
        """Render it once and for all. Touches no store."""
        address = delivery.address
        adapter = self.reach.known(address.platform)
        # a turn of a terminal that has died is ended by the daemon, which has no such adapter
        try:
            renderer = adapter.renderer if adapter is not None else registry.renderer_for(address.platform)
        except LookupError as error:
            raise NotReady(f"there is no renderer for the platform {address.platform!r}") from error
        render = renderer.render
        size = sum(len(block.text) for block in delivery.blocks if isinstance(block, Markdown))
        if size > LONG_TEXT:
            chunks = await asyncio.to_thread(render, delivery.blocks)
        else:
            chunks = render(delivery.blocks)
        # a delivery without any message could never be sent, and silence is no answer
        chunks = chunks or render((Markdown(text="(an empty answer)"),))
        return with_chunks(delivery, chunks, adopts=adopts)

    async def say(
        self, delivery: Delivery, *, session_id: SessionId | None = None, turn_id: TurnId | None = None
    ) -> bool:
        """Put it in the outbox and start sending; returns after the commit. False where a delivery of that
        id is known already, or nothing can be rendered for the platform. Raises a `StateError` where it is not kept."""
        try:
            new = await self.compose(delivery)
        except NotReady as error:
            log.error("delivery.nowhere", delivery=delivery.delivery_id, error=str(error))  # noqa: TRY400
            return False
        is_new = await self.store.outbox.enqueue(new, session_id=session_id, turn_id=turn_id)
        self.wake(new.chat)
        return is_new

    async def say_unsaved(self, address: ChatAddress, text: str, reply_to: str | None = None) -> bool:
        """Say that the store cannot keep anything, without the store: one try, once in ten minutes a chat."""
        chat, now = chat_queue(address), self.clock.monotonic()
        adapter = self.reach.adapter(address.platform, address.account)
        if adapter is None or self._unsaved.get(chat, -UNSAVED_EVERY) > now - UNSAVED_EVERY:
            return False
        self._unsaved = {name: at for name, at in self._unsaved.items() if at > now - UNSAVED_EVERY} | {chat: now}
        chunks = adapter.renderer.render((Markdown(text=text),))
        try:
            for chunk in chunks:
                async with asyncio.timeout(self.settings.call_seconds), self.arbiter.turn(chat, Priority.NOTICE):
                    await adapter.send(address, chunk, key=f"u_{secrets.token_hex(10)}", reply_to=reply_to)
        except (AdapterError, TimeoutError) as error:
            log.warning("notice.lost", chat=chat, error=str(error))
            return False
        return True

    async def said(self, delivery_id: DeliveryId) -> StoredDelivery | None:
        """The delivery as it stands."""
        return await self.store.outbox.get(delivery_id)

    async def _tell(self, about: StoredDelivery, why: str, text: str) -> None:
        """A notice about a delivery, to where it goes. Once for each `why`."""
        notice = Delivery(
            delivery_id=f"{why}-{about.id}",
            address=address_from_json(about.address_json),
            kind=DeliveryKind.NOTICE,
            blocks=(Markdown(text=text),),
            created_at=self.clock.utc(),
        )
        await self.say(notice, session_id=about.session_id)

    # waking --------------------------------------------------------------------------------------

    def wake(self, chat: str | None = None) -> None:
        """Something was committed: for this chat (`NewDelivery.chat`), or anywhere. Cheap with a chat."""
        if chat is not None and self.elsewhere is not None:
            self.elsewhere(chat)
        if chat is None or not self._running:
            self._look_soon()
        else:
            self._start(chat)

    def resume(self, platform: str) -> None:
        """The platform is connected (again). Called by the supervisor on every `ready`."""
        self.reach.up(platform)
        self._look_soon()

    def pause(self, platform: str) -> None:
        """The platform is not connected any more. Called by the supervisor when the adapter's run ends."""
        self.reach.down(platform)

    async def unpark(self, platform: str, account: str) -> int:
        """Try again what was parked for an account (the operator asks for it)."""
        count = await self.store.outbox.unparked(platform, account)
        self._look_soon()
        return count

    # the pump ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out what is due until cancelled. A task of the composition root; one a process.

        When cancelled it leaves every chunk in a stated state, within a few seconds."""
        self._sender.closing = False
        await self.arbiter.load()
        self._running = True
        self._look_soon()
        try:
            while True:
                self._look.clear()
                try:
                    await self.store.outbox.recover(self._owner_alive)
                    await self._scan()
                except StoreClosed:
                    raise
                except StateError as error:
                    log.warning("delivery.look_failed", error=str(error))
                self._note_quiet()
                try:
                    async with asyncio.timeout(self._patience()):
                        await self._look.wait()
                except TimeoutError:
                    continue
        finally:
            self._running = False
            await self._stop()

    async def flush(self, bound: float) -> int:
        """Wait up to `bound` seconds until nothing can be sent at the moment; how many chats are still at it."""
        try:
            async with asyncio.timeout(bound):
                await self._quiet.wait()
        except TimeoutError:
            log.warning("delivery.not_flushed", chats=len(self._lanes))
        return len(self._lanes)

    def _look_soon(self) -> None:
        self._look.set()
        if self._running:
            self._quiet.clear()

    def _note_quiet(self) -> None:
        if not self._lanes and not self._look.is_set():
            self._quiet.set()

    def _patience(self) -> float:
        waits = [LOOK_EVERY, *(self.arbiter.held_for(chat) for chat in self._held)]
        pause = self.reach.next_try()
        if pause is not None:
            waits.append(pause)
        return max(0.01, min(waits))

    async def _scan(self) -> None:
        """Start a lane for every chat that has something due and can be served."""
        for chat in [chat for chat in self._held if self.arbiter.held_for(chat) <= 0]:
            self._start(chat)
        accounts, limit = self.reach.accounts(), PAGE
        while accounts:
            rows = await self.store.outbox.due(accounts, limit=limit)
            started = False
            for row in rows:
                if self.arbiter.held_for(row.chat) > SHORT_HOLD:
                    self._held.add(row.chat)
                else:
                    started = started or row.chat not in self._lanes
                    self._start(row.chat)
            if len(rows) < limit:
                return
            if started or limit >= WIDEST_PAGE:
                # there is more than a page: look again as soon as these chats are through
                self._backlog.setdefault("", None)
                return
            limit *= 4  # a page of chats that wait must not hide those that need not

    def _start(self, chat: str) -> None:
        self._held.discard(chat)
        if chat in self._lanes:
            self._again.add(chat)
        elif len(self._lanes) >= self.settings.lanes:
            self._backlog[chat] = None
        else:
            self._quiet.clear()
            self._lanes[chat] = asyncio.create_task(self._lane(chat), name=f"delivery:{chat}")

    async def _lane(self, chat: str) -> None:
        try:
            while True:
                self._again.discard(chat)
                try:
                    await self._serve(chat)
                except StateError as error:
                    log.warning("delivery.store_failed", chat=chat, error=str(error))
                # no await may stand between this test and "gone" below, or a wake is lost
                if chat not in self._again:
                    break
        except Exception:  # the boundary of a lane: one chat never ends the others
            log.exception("delivery.defect", chat=chat)
        finally:
            self._gone(chat)

    def _gone(self, chat: str) -> None:
        self._again.discard(chat)
        del self._lanes[chat]
        if self._running and self._backlog:
            waiting = next(iter(self._backlog))
            del self._backlog[waiting]
            if waiting:
                self._start(waiting)
            else:
                self._look_soon()
        self._note_quiet()

    async def _serve(self, chat: str) -> None:
        """Send everything of one chat, in order, up to where the rest has to wait for something."""
        platform, account = (unquote(part, errors="surrogatepass") for part in chat.split(":")[:2])
        for stored in await self.store.outbox.pending(platform, account, chat):
            if stored.state is not DeliveryState.READY:
                continue
            if self.arbiter.held_for(chat) <= SHORT_HOLD and await self._sender.deliver(stored) is not Step.STOP:
                continue
            if self.arbiter.held_for(chat) > 0:
                self._held.add(chat)
                self._look_soon()  # the pump has to know when this hold ends
            elif self.reach.adapter(platform, account) is None:
                self._look_soon()  # or when the platform may be tried again
            return

    async def _stop(self) -> None:
        self._sender.closing = True
        self._backlog.clear()
        tasks = list(self._lanes.values())
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=15.0)
            for task in stuck:
                log.error("delivery.stuck", task=task.get_name())
        self._quiet.set()


def with_chunks(
    delivery: Delivery, chunks: Sequence[RenderedChunk], *, adopts: DeliveryId | None = None
) -> NewDelivery:
    """The delivery as a row, with these chunks."""
    address = delivery.address
    return NewDelivery(
        id=DeliveryId(delivery.delivery_id),
        platform=address.platform,
        account=address.account,
        chat=chat_queue(address),
        address_json=address_to_json(address),
        kind=delivery.kind.value,
        blocks=blocks_to_json(delivery.blocks),
        chunks=tuple(NewChunk(payload=chunk.payload, plain=chunk.plain) for chunk in chunks),
        reply_to=delivery.reply_to,
        edits=delivery.edits,
        adopts=adopts,
    )


def as_chunk(new: NewChunk) -> RenderedChunk:
    """The chunk as an adapter takes it."""
    return RenderedChunk(payload=new.payload, plain=new.plain)


def text_of(delivery: Delivery) -> str:
    """The words of a delivery, for people who ask what was said."""
    return blocks_text(delivery.blocks)
