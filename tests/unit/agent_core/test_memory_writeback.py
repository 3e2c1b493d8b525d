"""What the external memory is told: in order, at least once, with the end of the turn, and not what was undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core.memory.providers.circuit import State
from agent_core.memory.providers.manager import MemoryManager
from agent_core.memory.providers.ports import ProviderAway, ProviderRefused
from agent_core.memory.providers.writeback import LOOK, STUCK, WriteBack
from state import memory_outbox
from state.clock import SteppedClock
from state.ids import SessionId
from state.memory_outbox import CLAIM, NewMemoryWrite, WriteKind
from state.owners import this_process
from state.records import Fate, TurnState
from state.store import Store
from tests.unit.agent_core.memory_rig import FakeProvider, FullProvider, manager_of
from tests.unit.state.rig import Rig, said

LABEL = "p:u"


class Desk:
    """A store, a provider, and the worker between them."""

    def __init__(self, store: Store, provider: FakeProvider) -> None:
        self.store, self.provider, self.rig = store, provider, Rig(store)
        self.slept: list[float] = []
        self.counted: list[str] = []
        self.manager: MemoryManager = manager_of(provider)
        self.worker = WriteBack(store, self.manager, counted=self.counted.append, sleep=self._sleep, bound=0.2)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def turn(self, text: str, state: TurnState = TurnState.ANSWERED) -> str:
        """A whole turn; its id."""
        lease, event_id = await self.rig.begin(text)
        write = NewMemoryWrite(
            provider=self.manager.name,
            key=f"turn:{lease.turn_id}",
            kind=WriteKind.TURN,
            session_id=lease.session_id,
            turn_id=lease.turn_id,
            label=LABEL,
        )
        await self.store.turns.finish(
            lease,
            state=state,
            rows=[said(f"answer to {text}", role="assistant", audience=LABEL)],
            fates=[(event_id, Fate.ANSWERED, "")],
            delivery=None,
            remember=write,
        )
        return lease.turn_id

    async def fact(self, text: str) -> bool:
        write = NewMemoryWrite(
            provider=self.manager.name,
            key=f"fact:{text}",
            kind=WriteKind.MEMORY,
            session_id=SessionId("s"),
            label=LABEL,
            payload={"text": text},
        )
        return await self.worker.add(write)

    async def steps(self) -> None:
        """Until nothing follows at once."""
        while await self.worker.step():
            pass


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with Store.open(tmp_path / "t.db", owner=this_process("test"), clock=SteppedClock()) as store:
        yield Desk(store, FakeProvider())


async def test_turns_are_told_in_order_with_their_words(desk: Desk) -> None:
    keys = [f"turn:{await desk.turn(text)}" for text in ("one", "two", "three")]
    await desk.fact("Ada likes tea.")
    await desk.steps()
    assert [turn.key for turn in desk.provider.turns] == keys
    assert next((turn.said, turn.answered) for turn in desk.provider.turns) == ("one", "answer to one")
    assert [fact.text for fact in desk.provider.facts] == ["Ada likes tea."]
    assert {turn.place for turn in desk.provider.turns} == {desk.manager.place(LABEL)}
    assert not any(turn.again for turn in desk.provider.turns)
    assert await desk.store.memory_outbox.counts("honcho") == (0, 0)
    assert desk.counted == ["sent"] * 4


async def test_a_turn_that_does_not_end_leaves_nothing_to_be_told(desk: Desk) -> None:
    """The row is part of the transaction that ends the turn: what takes that back takes it back, too."""
    await desk.turn("first")
    lease, event_id = await desk.rig.begin("second")
    write = NewMemoryWrite(
        provider="honcho", key="turn:x", kind=WriteKind.TURN, session_id=lease.session_id, label=LABEL
    )
    await desk.store.leases.release(lease)
    with pytest.raises(Exception, match=r"lease|Lease"):
        await desk.store.turns.finish(
            lease,
            state=TurnState.ANSWERED,
            rows=[],
            fates=[(event_id, Fate.ANSWERED, "")],
            delivery=None,
            remember=write,
        )
    assert await desk.store.memory_outbox.counts("honcho") == (1, 0)


async def test_a_provider_that_is_away_gets_it_later_marked_as_told_perhaps(desk: Desk) -> None:
    desk.provider.fault = ProviderAway("HTTP 503")
    await desk.turn("one")
    await desk.turn("two")
    running = asyncio.create_task(desk.worker.run())
    await until(lambda: len(desk.slept) >= 4)
    assert desk.provider.calls == ["turn"] * len(desk.provider.calls), "nothing overtakes the first"
    assert all(earlier < later for earlier, later in zip(desk.slept[:2], desk.slept[1:3], strict=True))
    desk.provider.fault = None
    await until(lambda: len(desk.provider.turns) == 2)
    running.cancel()
    await asyncio.wait([running])
    assert [(turn.said, turn.again) for turn in desk.provider.turns] == [("one", True), ("two", False)]
    assert desk.manager.circuit.state is State.FINE, "writes that fail say nothing about reads"


async def test_what_is_refused_is_set_aside_and_in_nobodys_way(desk: Desk) -> None:
    desk.provider.fault = ProviderRefused("HTTP 422")
    await desk.turn("one")
    await desk.steps()
    desk.provider.fault = None
    await desk.turn("two")
    await desk.steps()
    assert [turn.said for turn in desk.provider.turns] == ["two"]
    assert await desk.store.memory_outbox.counts("honcho") == (0, 1)
    assert await desk.worker.left() == ["1 writes that honcho has refused"]


async def test_one_row_that_a_reachable_provider_never_takes_does_not_block_the_rest(desk: Desk) -> None:
    class Picky(FakeProvider):
        async def on_turn_end(self, turn: object) -> None:
            raise ProviderAway("HTTP 500")

    picky = Picky()
    desk.manager.provider = picky
    await desk.turn("one")
    await desk.fact("two")
    for _ in range(STUCK - 1):
        assert not await desk.worker.step()
    assert await desk.worker.step(), "it is set aside"
    await desk.steps()
    assert [fact.text for fact in picky.facts] == ["two"]
    assert await desk.store.memory_outbox.counts("honcho") == (0, 1)


async def test_what_was_undone_meanwhile_is_not_told(desk: Desk) -> None:
    turn_id = await desk.turn("a secret by mistake")
    rows = await desk.store.transcript.rows_of(turn_id)  # type: ignore[arg-type]
    lease, _ = await desk.rig.begin("next")
    await desk.store.turns.finish(
        lease, state=TurnState.FAILED, rows=[], fates=[], delivery=None, deactivate=[row.id for row in rows]
    )
    await desk.steps()
    assert desk.provider.turns == []
    assert desk.counted == ["gone"]


async def test_a_turn_whose_rows_have_another_audience_is_not_told(desk: Desk) -> None:
    turn_id = await desk.turn("in private")
    (session,) = await desk.store.sessions.list_all(1)
    outbox = desk.store.memory_outbox
    assert await outbox.exchange(session.id, turn_id, LABEL) is not None  # type: ignore[arg-type]
    assert await outbox.exchange(session.id, turn_id, "room:r") is None  # type: ignore[arg-type]


async def test_two_processes_never_tell_the_same_row_at_once(desk: Desk, tmp_path: Path) -> None:
    clock = desk.store.clock
    assert isinstance(clock, SteppedClock)
    await desk.turn("one")
    await desk.turn("two")
    first = await desk.store.memory_outbox.claim("honcho")
    assert first is not None
    async with Store.open(tmp_path / "t.db", owner=this_process("other"), clock=clock) as other:
        assert await other.memory_outbox.claim("honcho") is None, "not even the next one: the order is kept"
        clock.advance(CLAIM + 1)
        taken = await other.memory_outbox.claim("honcho")
        assert taken is not None
        assert (taken.key, taken.attempts) == (first.key, 1)
        await desk.store.memory_outbox.done(first)  # the late one changes nothing
        assert await other.memory_outbox.counts("honcho") == (2, 0)
        await other.memory_outbox.done(taken)
    assert await desk.store.memory_outbox.counts("honcho") == (1, 0)


async def test_the_end_of_the_process_puts_the_row_back(desk: Desk) -> None:
    desk.provider.hang = asyncio.Event()
    await desk.turn("one")
    running = asyncio.create_task(desk.worker.run())
    await until(lambda: desk.provider.calls == ["turn"])
    running.cancel()
    await asyncio.wait([running])
    assert await desk.worker.left() == ["1 writes to the memory honcho, which go on after the next start"]
    desk.provider.hang = None
    await desk.steps()
    assert [turn.again for turn in desk.provider.turns] == [True]


async def test_the_outbox_is_bounded_and_keys_are_identities(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_outbox, "MOST", 2)
    assert [await desk.fact(text) for text in ("a", "a", "b", "c")] == [True, False, True, False]


async def test_every_kind_reaches_its_hook(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "t.db", owner=this_process("test"), clock=SteppedClock()) as store:
        provider = FullProvider()
        desk = Desk(store, provider)
        for kind in (WriteKind.DELEGATION, WriteKind.SESSION_END):
            write = NewMemoryWrite(
                provider="honcho",
                key=f"{kind}:1",
                kind=kind,
                session_id=SessionId("s"),
                label=LABEL,
                payload={"task": "look it up", "text": "found"},
            )
            assert await desk.worker.add(write)
        await desk.steps()
        assert (provider.heard, provider.calls) == (["look it up"], ["delegation", "session end"])
        plain = FakeProvider()
        desk.manager.provider = plain
        assert await desk.worker.add(write)
        await desk.steps()
        assert plain.calls == [], "who keeps nothing by session is not told of its end"


async def test_the_worker_wakes_at_once(desk: Desk) -> None:
    running = asyncio.create_task(desk.worker.run())
    await asyncio.sleep(0)
    await desk.fact("now")
    await asyncio.wait_for(until(lambda: len(desk.provider.facts) == 1), LOOK / 3)
    running.cancel()
    await asyncio.wait([running])


async def until(true: object) -> None:
    async with asyncio.timeout(5):
        while not true():  # type: ignore[operator]
            await asyncio.sleep(0.001)
