"""The pump: every error by its remedy, nothing doubled, nothing lost, one chat never delays another."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

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
from adapters.events import Delivery, DeliveryKind, Markdown
from adapters.limits import Limits
from adapters.memory.adapter import BareMemoryAdapter, MemoryAdapter
from state.clock import SteppedClock
from state.errors import StoreBusy
from state.records import ChunkState, DeliveryState
from tests.unit.gateway.rig import SETTINGS, connect, process, queue, room

THREE = "one " * 2 + "\n\n" + "two " * 2 + "\n\n" + "three " * 2


def small() -> Limits:
    return Limits(text=14, edit_every=0.01)


def sends(adapter: BareMemoryAdapter) -> int:
    return sum(1 for name, _ in adapter.room.calls if name == "send")


async def test_said_once_and_in_order(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        assert await rig.say("d1", "first", room(), reply_to="in-1")
        assert not await rig.say("d1", "first again", room())
        await rig.say("d2", "second", room())
        await rig.quiet()
        assert adapter.room.texts() == ["first", "second"]
        assert adapter.room.messages["m1"].reply_to == "in-1"
        assert (await rig.state("d1")).state is DeliveryState.SENT


async def test_B25_what_was_committed_before_the_crash_is_sent_after_it(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(limits=small()), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock, pump=False) as rig:
            await rig.say("d1", THREE, room(thread="T"))
            await rig.say("d2", "after", room(thread="T"))
        async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
            await rig.quiet()
            assert [text.strip() for text in adapter.room.texts()] == ["one one", "two two", "three three", "after"]
            assert {one.address.thread_id for one in adapter.room.shown()} == {"T"}
        async with process(tmp_path / "db", adapter, clock=clock, name="three") as rig:
            await rig.quiet()
            assert sends(adapter) == 4


async def test_B25_an_answer_of_another_day_is_given_up_and_told(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock, resume=False) as rig:
            await rig.say("d1", "stale", room())
        clock.advance(SETTINGS.oldest.total_seconds() + 1)
        async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
            await rig.quiet()
            assert (await rig.state("d1")).state is DeliveryState.FAILED
            [text] = adapter.room.texts()
            assert "could not be delivered" in text
            assert "stale" not in text


@pytest.mark.parametrize("arrived", [True, False])
async def test_p4_killed_between_sending_and_sent_with_look_up(tmp_path: Path, arrived: bool) -> None:
    adapter, clock = MemoryAdapter(limits=small()), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock, pump=False) as rig:
            await rig.say("d1", THREE, room())
            first = (await rig.state("d1")).chunks[0]
            assert await rig.store.outbox.sending(first.id)
            if arrived:
                await adapter.send(room(), _rendered(first), key=first.id, reply_to=None)
        async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
            await rig.quiet()
            assert [text.strip() for text in adapter.room.texts()] == ["one one", "two two", "three three"]
            assert sends(adapter) == 3
            assert rig.metrics.value("resends_of_unknown_total", {"platform": "memory"}) == 0


def _rendered(chunk):  # type: ignore[no-untyped-def]
    from adapters.events import RenderedChunk

    return RenderedChunk(payload=chunk.payload, plain=chunk.plain)


async def test_B26_an_unknown_outcome_is_resent_once_marked_and_never_again(tmp_path: Path) -> None:
    adapter, clock = BareMemoryAdapter(), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock, pump=False) as rig:
            await rig.say("d1", "hello", room())
            assert await rig.store.outbox.sending((await rig.state("d1")).chunks[0].id)
        adapter.room.fail("send", OutcomeUnknown())
        for name in ("two", "three", "four"):
            async with process(tmp_path / "db", adapter, clock=clock, name=name) as rig:
                await rig.quiet()
                assert (await rig.state("d1")).state is DeliveryState.FAILED
                assert sends(adapter) == 1
                if name == "two":
                    assert rig.metrics.value("resends_of_unknown_total", {"platform": "memory"}) == 1
                    assert rig.metrics.value("deliveries_total", {"platform": "memory", "state": "failed"}) == 1


async def test_b_anchor_the_second_of_three_chunks_fails_and_no_other_is_doubled(tmp_path: Path) -> None:
    adapter = MemoryAdapter(limits=small())
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        first = asyncio.Event()
        adapter.room.fail("send", hold=first)
        adapter.room.fail("send", NotReady())
        await rig.say("d1", THREE, room())
        first.set()
        await rig.quiet()
        assert [text.strip() for text in adapter.room.texts()] == ["one one"]
        await rig.later(2.0)
        assert [text.strip() for text in adapter.room.texts()] == ["one one", "two two", "three three"]
        assert sends(adapter) == 4  # one of them was refused


@pytest.mark.parametrize("arrives", [True, False])
async def test_p4_an_answer_that_was_lost_on_the_way_is_looked_up(tmp_path: Path, arrives: bool) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", OutcomeUnknown(), arrives=arrives)
        await rig.say("d1", "hello", room())
        await rig.quiet()
        assert adapter.room.texts() == ["hello"]
        assert sends(adapter) == (1 if arrives else 2)
        assert rig.metrics.value("sends_unknown_total", {"platform": "memory"}) == 1
        assert rig.metrics.value("resends_of_unknown_total", {"platform": "memory"}) == 0


async def test_B30_no_call_before_retry_after_has_passed_three_times(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", RetryAfter(30.0), times=3)
        await rig.say("d1", "held", room("c"))
        await rig.say("d2", "behind it", room("c"))
        await rig.quiet()
        for tries in (1, 2, 3):
            assert sends(adapter) == tries
            await rig.nearly(29.0)
            assert sends(adapter) == tries
            await rig.later(1.0)
        assert adapter.room.texts()[:2] == ["held", "behind it"]
        assert rig.metrics.value("retry_after_total", {"platform": "memory"}) == 3
        # 90 s of waiting are told when they are over
        assert "made me wait 90 seconds" in adapter.room.texts()[2]


async def test_B30_a_hold_outlives_a_restart_and_a_wall_clock_that_is_set_back(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock) as rig:
            adapter.room.fail("send", RetryAfter(3600.0))
            await rig.say("d1", "held", room())
            await rig.quiet()
        clock.advance(600.0)
        async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
            await rig.quiet()
            assert sends(adapter) == 1
            assert 2990 < rig.arbiter.held_for(queue()) <= 3000
        clock.step_wall(-7200.0)
        async with process(tmp_path / "db", adapter, clock=clock, name="three") as rig:
            await rig.quiet()
            assert sends(adapter) == 1
            assert rig.arbiter.held_for(queue()) <= 3600
            await rig.later(3600.0)
            assert adapter.room.texts() == ["held"]


async def test_B30_other_chats_are_not_delayed_unless_the_account_is_meant(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", RetryAfter(300.0))
        await rig.say("d1", "held", room("c1"))
        await rig.quiet()
        await rig.say("d2", "free", room("c2"))
        await rig.quiet()
        assert adapter.room.texts() == ["free"]
        adapter.room.fail("send", RetryAfter(600.0, everywhere=True))
        await rig.say("d3", "all held", room("c3"))
        await rig.quiet()
        await rig.say("d4", "too", room("c4"))
        await rig.later(301.0)
        assert adapter.room.texts() == ["free"]
        await rig.later(300.0)
        assert {"held", "free", "all held", "too"} <= set(adapter.room.texts())


async def test_B28_a_platform_that_is_down_for_long_loses_nothing(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(), SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock, resume=False) as rig:
        await rig.say("d1", "kept", room())
        for _ in range(5):
            await rig.later(3600.0)
        assert sends(adapter) == 0
        async with connect(adapter):
            rig.deliveries.resume("memory")
            await rig.quiet()
            assert adapter.room.texts() == ["kept"]
            rig.deliveries.pause("memory")
            await rig.say("d2", "kept too", room())
            await rig.quiet()
            assert adapter.room.texts() == ["kept"]
            rig.deliveries.resume("memory")
            await rig.quiet()
            assert adapter.room.texts() == ["kept", "kept too"]


async def test_B28_an_adapter_that_says_not_ready_is_asked_more_and_more_seldom(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", NotReady(), times=4)
        await rig.say("d1", "kept", room())
        await rig.quiet()
        for tries, pause in enumerate((1.0, 2.0, 4.0, 8.0), 1):
            assert sends(adapter) == tries
            await rig.nearly(pause - 0.1)
            assert sends(adapter) == tries
            await rig.later(0.2)
        assert adapter.room.texts() == ["kept"]


async def test_B28_a_defect_of_the_adapter_is_no_final_refusal(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", KeyError("surprise"))
        await rig.say("d1", "kept", room())
        await rig.quiet()
        assert adapter.room.texts() == ["kept"]


@pytest.mark.parametrize(
    ("error", "state"),
    [(Rejected(), DeliveryState.FAILED), (NoRights(), DeliveryState.FAILED), (Gone(), DeliveryState.PARKED)],
)
async def test_B28_a_real_refusal_is_final_recorded_and_counted(
    tmp_path: Path, error: AdapterError, state: DeliveryState
) -> None:
    adapter = MemoryAdapter(limits=small())
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", error)
        await rig.say("d1", THREE, room())
        await rig.say("d2", "the next", room())
        await rig.quiet()
        stored = await rig.state("d1")
        assert stored.state is state
        assert stored.chunks[0].error == str(error)
        assert adapter.room.texts() == ["the next"]
        assert rig.metrics.value("deliveries_total", {"platform": "memory", "state": state.value}) == 1
        if state is DeliveryState.PARKED:
            assert await rig.deliveries.unpark("memory", "bot") == 1
            await rig.quiet()
            assert (await rig.state("d1")).state is DeliveryState.SENT


async def test_refused_markup_falls_back_to_plain_text_once(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", UnparsableMarkup())
        await rig.say("d1", "some **bold** text", room())
        await rig.quiet()
        assert adapter.room.texts() == ["some bold text"]
        adapter.room.fail("send", UnparsableMarkup(), times=2)
        await rig.say("d2", "some *other* text", room())
        await rig.quiet()
        assert (await rig.state("d2")).state is DeliveryState.FAILED
        assert sends(adapter) == 4


async def test_too_long_is_split_smaller_once(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        words = " ".join(f"word{n}" for n in range(40))
        adapter.room.fail("send", TooLong())
        await rig.say("d1", words, room())
        await rig.say("d2", "after", room())
        await rig.quiet()
        *parts, last = adapter.room.texts()
        assert len(parts) >= 4
        assert "".join(parts).split() == words.split()
        assert last == "after"
        adapter.room.fail("send", TooLong(), times=2)
        await rig.say("d3", words, room())
        await rig.quiet()
        assert (await rig.state("d3")).state is DeliveryState.FAILED


async def test_B35_a_part_that_is_still_too_long_is_parted_once_more(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        words = " ".join(f"word{n}" for n in range(300))
        adapter.room.fail("send", TooLong(), times=2)
        await rig.say("d1", words, room())
        await rig.quiet()
        assert (await rig.state("d1")).state is DeliveryState.SENT
        assert "".join(adapter.room.texts()).split() == words.split()


async def test_refused_credentials_stop_the_platform_until_it_is_back(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        adapter.room.fail("send", AuthFailed())
        await rig.say("d1", "kept", room())
        await rig.quiet()
        await rig.later(600.0)
        assert (sends(adapter), rig.refused) == (1, ["memory"])
        rig.deliveries.resume("memory")
        await rig.quiet()
        assert adapter.room.texts() == ["kept"]


async def test_one_platform_never_delays_another(tmp_path: Path) -> None:
    one, two = MemoryAdapter(), MemoryAdapter(platform="other")
    async with connect(one, two), process(tmp_path / "db", one, two) as rig:
        stuck = asyncio.Event()
        one.room.fail("send", hold=stuck)
        await rig.say("d1", "slow", room())
        await rig.say("d2", "quick", room(platform="other"))
        await two.room.until(lambda: two.room.texts() == ["quick"])
        assert one.room.texts() == []
        stuck.set()
        await rig.quiet()
        assert one.room.texts() == ["slow"]


async def test_a_call_without_an_answer_is_bounded(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    settings = replace(SETTINGS, call_seconds=0.02)
    async with connect(adapter), process(tmp_path / "db", adapter, settings=settings) as rig:
        adapter.room.fail("send", hold=asyncio.Event())
        await rig.say("d1", "hello", room())
        await rig.quiet()
        assert adapter.room.texts() == ["hello"]
        assert rig.metrics.value("sends_unknown_total", {"platform": "memory"}) == 1


async def test_p4_an_arrived_chunk_is_recorded_although_the_store_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        real, fails = rig.store.outbox.sent, [StoreBusy(), StoreBusy()]

        async def sent(chunk_id, message_ids):  # type: ignore[no-untyped-def]
            if fails:
                raise fails.pop()
            await real(chunk_id, message_ids)

        monkeypatch.setattr(rig.store.outbox, "sent", sent)
        await rig.say("d1", "hello", room())
        await rig.quiet()
        assert (await rig.state("d1")).state is DeliveryState.SENT
        assert sends(adapter) == 1
        assert not fails


async def test_p4_stopped_in_the_middle_of_a_send_is_unknown_and_looked_up(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(), SteppedClock()
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock) as rig:
            adapter.room.fail("send", hold=asyncio.Event())
            await rig.say("d1", "hello", room())
            while sends(adapter) == 0:
                await asyncio.sleep(0.001)
        async with process(tmp_path / "db", adapter, clock=clock, name="two", pump=False) as rig:
            assert (await rig.state("d1")).chunks[0].state is ChunkState.UNKNOWN
        async with process(tmp_path / "db", adapter, clock=clock, name="three") as rig:
            await rig.quiet()
            assert adapter.room.texts() == ["hello"]


async def test_B41_everything_goes_to_the_thread_also_after_a_restart(tmp_path: Path) -> None:
    adapter, clock = MemoryAdapter(limits=Limits(text=60)), SteppedClock()
    here = room(thread="T")
    async with connect(adapter):
        async with process(tmp_path / "db", adapter, clock=clock) as rig:
            adapter.room.fail("send", RetryAfter(100.0))
            for kind in (DeliveryKind.PROGRESS, DeliveryKind.NOTICE, DeliveryKind.APPROVAL, DeliveryKind.FINAL):
                await rig.say(f"d-{kind}", f"{kind} " * 20, here, kind=kind)
            await rig.quiet()
            assert adapter.room.texts() == []
            await rig.later(100.0)  # the notice about the wait goes there too
        async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
            await rig.quiet()
            assert len(adapter.room.shown()) >= 8
            assert {one.address for one in adapter.room.shown()} == {here}


async def test_lanes_are_bounded_gone_when_idle_and_no_chat_is_forgotten(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    settings = replace(SETTINGS, lanes=3)
    async with connect(adapter), process(tmp_path / "db", adapter, settings=settings, resume=False) as rig:
        for n in range(40):
            await rig.say(f"d{n}", f"text {n}", room(f"c{n}"))
        rig.deliveries.resume("memory")
        await rig.quiet()
        assert len(adapter.room.texts()) == 40
        assert rig.deliveries.lanes == 0
        assert len(rig.arbiter) == 0


async def test_a_page_of_held_chats_does_not_hide_a_free_one(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter, resume=False) as rig:
        for n in range(205):
            await rig.arbiter.hold(queue(f"c{n}"), 500.0)
            await rig.say(f"d{n}", "held", room(f"c{n}"))
        await rig.say("free", "free", room("free"))
        rig.deliveries.resume("memory")
        await rig.quiet()
        assert adapter.room.texts() == ["free"]
        await rig.later(500.0)
        assert len(adapter.room.texts()) == 206


async def test_an_unserved_platform_and_an_empty_answer_are_told(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        assert not await rig.say("d1", "hello", room(platform="nowhere"))
        await rig.say("d2", "  \n ", room())
        await rig.quiet()
        assert adapter.room.texts() == ["(an empty answer)"]


async def test_what_cannot_be_kept_is_said_once_without_the_store(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        assert await rig.deliveries.say_unsaved(room(), "the disk is full", "in-1")
        assert not await rig.deliveries.say_unsaved(room(), "the disk is full", "in-1")
        assert adapter.room.texts() == ["the disk is full"]
        rig.clock.advance(601.0)
        assert await rig.deliveries.say_unsaved(room(), "the disk is full", "in-1")


async def test_a_long_text_is_committed_whole_before_the_first_chunk_goes_out(tmp_path: Path) -> None:
    adapter = MemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter, pump=False) as rig:
        text = "\n\n".join(f"paragraph {n} " + "x" * 200 for n in range(100))
        new = await rig.deliveries.compose(
            Delivery(
                delivery_id="d1",
                address=room(),
                kind=DeliveryKind.FINAL,
                blocks=(Markdown(text=text),),
                created_at=rig.clock.utc(),
            )
        )
        assert len(new.chunks) > 4
        await rig.store.outbox.enqueue(new)
        stored = await rig.state("d1")
        assert [(one.payload, one.plain) for one in stored.chunks] == [(one.payload, one.plain) for one in new.chunks]
        assert sends(adapter) == 0
