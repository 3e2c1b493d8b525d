"""What is shown of a running turn: typing, the draft, live parts. Cosmetic, bounded, ended with the turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.errors import AdapterError, Gone, NotReady, OutcomeUnknown, Rejected, RetryAfter, UnparsableMarkup
from adapters.events import Delivery, DeliveryKind, Markdown
from adapters.limits import Limits
from adapters.memory.adapter import BareMemoryAdapter, LiveMemoryAdapter, MemoryAdapter
from agent_core.events import StepCommitted, TextDelta, TextReset, ToolEnded, ToolStarted, Waiting
from gateway.streaming import StreamSettings, TurnStream, heal
from state.clock import SteppedClock
from state.ids import RowId
from state.records import DeliveryState, StoredDelivery, ToolStatus, TurnLease
from tests.unit.gateway.rig import Rig, connect, process, queue, room

QUICK = StreamSettings(typing_every=0.01, first_after=0.0, unwind=0.5)
HERE = room(thread="T")


@pytest.fixture
async def adapter() -> AsyncIterator[MemoryAdapter]:
    one = MemoryAdapter(limits=Limits(text=200, edit_every=0.005))
    async with connect(one):
        yield one


def stream(
    rig: Rig, lease: TurnLease, draft: StoredDelivery | None = None, settings: StreamSettings = QUICK
) -> TurnStream:
    return TurnStream(
        rig.deliveries,
        rig.adapters["memory"],
        address=HERE,
        reply_to="in-1",
        lease=lease,
        draft=draft,
        settings=settings,
    )


async def final(rig: Rig, lease: TurnLease, text: str, turn: TurnStream) -> None:
    new = await rig.deliveries.compose(
        Delivery(
            delivery_id=f"d-{lease.turn_id}",
            address=HERE,
            kind=DeliveryKind.FINAL,
            blocks=(Markdown(text=text),),
            created_at=rig.clock.utc(),
            reply_to="in-1",
        ),
        adopts=turn.draft,
    )
    await rig.finish(lease, new)
    await rig.quiet()


def calls(adapter: BareMemoryAdapter, name: str) -> int:
    return sum(1 for one, _ in adapter.room.calls if one == name)


async def test_a_draft_grows_and_becomes_the_answer(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="The answer "))
            await adapter.room.until(lambda: [text.strip() for text in adapter.room.texts()] == ["The answer"])
            turn.emit(TextDelta(text="is forty-two"))
            await adapter.room.until(lambda: "forty-two" in adapter.room.texts()[0])
        await final(rig, lease, "The answer is forty-two.", turn)
        [message] = adapter.room.shown()
        assert message.text == "The answer is forty-two."
        assert (message.reply_to, message.address) == ("in-1", HERE)
        assert calls(adapter, "send") == 1


async def test_edits_are_throttled_by_time_and_coalesced(tmp_path: Path) -> None:
    adapter = MemoryAdapter(limits=Limits(text=4000, edit_every=0.05))
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            for n in range(500):
                turn.emit(TextDelta(text=f"word{n} "))
                if n % 50 == 0:
                    await asyncio.sleep(0.01)
            await adapter.room.until(lambda: "word499" in "".join(adapter.room.texts()))
        assert calls(adapter, "edit") <= 5


async def test_B27_what_is_visible_already_is_not_said_again(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Answer."))
            await adapter.room.until(lambda: adapter.room.texts() == ["Answer."])
            await asyncio.sleep(0.02)
        edits = calls(adapter, "edit")
        await final(rig, lease, "Answer.", turn)
        assert adapter.room.texts() == ["Answer."]
        assert (calls(adapter, "send"), calls(adapter, "edit")) == (1, edits)  # no call was needed at all
        assert (await rig.state(f"d-{lease.turn_id}")).state is DeliveryState.SENT


@pytest.mark.parametrize("error", [RetryAfter(30.0), NotReady(), Rejected(), OutcomeUnknown()])
async def test_B27_a_failed_cosmetic_last_edit_is_no_failed_delivery(
    tmp_path: Path, adapter: MemoryAdapter, error: AdapterError
) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="An *answer*"))
            await adapter.room.until(lambda: adapter.room.texts() == ["An *answer*"])
            await asyncio.sleep(0.02)
        adapter.room.fail("edit", error)
        await final(rig, lease, "An **answer**", turn)  # other marks, the same words
        assert adapter.room.texts() == ["An *answer*"]
        assert (await rig.state(f"d-{lease.turn_id}")).state is DeliveryState.SENT
        assert calls(adapter, "send") == 1


async def test_B27_a_missing_tail_is_sent_when_the_platform_lets_us(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Half of"))
            await adapter.room.until(lambda: adapter.room.texts() == ["Half of"])
            await asyncio.sleep(0.02)
        adapter.room.fail("edit", RetryAfter(30.0))
        await final(rig, lease, "Half of it is not all.", turn)
        assert adapter.room.texts() == ["Half of"]
        await rig.later(30.0)
        assert adapter.room.texts() == ["Half of it is not all."]
        assert calls(adapter, "send") == 1


@pytest.mark.parametrize("error", [Gone(), Rejected()])
async def test_a_draft_that_is_gone_is_sent_as_new(tmp_path: Path, adapter: MemoryAdapter, error: AdapterError) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Draft"))
            await adapter.room.until(lambda: adapter.room.texts() == ["Draft"])
            await asyncio.sleep(0.02)
        await adapter.delete(HERE, "m1")
        if not isinstance(error, Gone):
            adapter.room.fail("edit", error)
        await final(rig, lease, "The whole answer", turn)
        assert adapter.room.texts() == ["The whole answer"]


async def test_p4_after_a_crash_the_draft_is_edited_not_doubled(tmp_path: Path, adapter: MemoryAdapter) -> None:
    clock = SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Half an"))
            await adapter.room.until(lambda: bool(adapter.room.texts()))
            await asyncio.sleep(0.02)
    clock.advance(60.0)
    async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
        again = await rig.store.leases.acquire(lease.session_id, lease.turn_id)
        await rig.store.turns.resume(again, lease.turn_id)
        [draft] = await rig.store.outbox.drafts_of(lease.turn_id)
        async with stream(rig, again, draft) as turn:
            turn.emit(TextDelta(text="Another"))
            await adapter.room.until(lambda: adapter.room.texts() == ["Another"])
        await final(rig, again, "Another answer", turn)
        assert adapter.room.texts() == ["Another answer"]
        assert calls(adapter, "send") == 1


@pytest.mark.parametrize("arrived", [True, False])
async def test_p4_killed_while_the_draft_was_sent(tmp_path: Path, adapter: MemoryAdapter, arrived: bool) -> None:
    clock = SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock) as rig:
        lease = await rig.lease(HERE)
        adapter.room.fail("send", OutcomeUnknown(), arrives=arrived)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Half an"))
            while calls(adapter, "send") == 0:
                await asyncio.sleep(0.001)
        assert turn.draft is not None
    clock.advance(60.0)
    async with process(tmp_path / "db", adapter, clock=clock, name="two") as rig:
        again = await rig.store.leases.acquire(lease.session_id, lease.turn_id)
        await rig.store.turns.resume(again, lease.turn_id)
        [draft] = await rig.store.outbox.drafts_of(lease.turn_id)
        async with stream(rig, again, draft) as turn:
            turn.emit(TextDelta(text="Another"))
        await final(rig, again, "Another answer", turn)
        # the message that was found held half a draft: it holds the answer now
        assert adapter.room.texts() == ["Another answer"]


async def test_a_reset_keeps_the_draft_until_there_is_something_new(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="first try"))
            await adapter.room.until(lambda: adapter.room.texts() == ["first try"])
            turn.emit(TextReset(reason="the answer broke off"))
            assert turn.text == "first try"
            await asyncio.sleep(0.02)
            assert adapter.room.texts() == ["first try"]
            turn.emit(TextDelta(text="second"))
            assert turn.text == "second"
            await adapter.room.until(lambda: adapter.room.texts() == ["second"])
        assert calls(adapter, "send") == 1


async def test_tools_are_named_in_the_draft(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Let me look."))
            turn.emit(StepCommitted(row_id=RowId(1), text="Let me look."))
            turn.emit(ToolStarted(call_id="c1", name="files", summary="reads `a.txt`"))
            await adapter.room.until(lambda: any("reads 'a.txt'" in text for text in adapter.room.texts()))
            turn.emit(ToolEnded(call_id="c1", name="files", status=ToolStatus.DONE, summary="read"))
            await adapter.room.until(lambda: adapter.room.texts() == ["Let me look."])
            turn.emit(Waiting(text="The model cannot be reached."))
            await adapter.room.until(lambda: "cannot be reached" in adapter.room.texts()[0])


async def test_a_draft_shows_the_first_message_of_a_long_answer(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease, text = await rig.lease(HERE), " ".join(f"word{n}" for n in range(200))
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text=text))
            await adapter.room.until(lambda: bool(adapter.room.texts()))
        assert len(adapter.room.shown()) == 1
        assert len(adapter.room.texts()[0]) <= 200
        await final(rig, lease, text, turn)
        assert " ".join(adapter.room.texts()).split() == text.split()


@pytest.mark.parametrize(
    "error",
    [RetryAfter(5.0), NotReady(), Rejected(), Gone(), OutcomeUnknown(), KeyError("surprise"), UnparsableMarkup()],
)
async def test_no_error_of_a_draft_ends_the_turn_or_loses_the_answer(
    tmp_path: Path, adapter: MemoryAdapter, error: Exception
) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        adapter.room.fail("send", error, times=2 if isinstance(error, UnparsableMarkup) else 1)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Half"))
            while calls(adapter, "send") == 0:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
        await rig.later(6.0)
        await final(rig, lease, "The answer", turn)
        await rig.later(6.0)
        assert adapter.room.texts() == ["The answer"]
        assert rig.metrics.value("cosmetic_failures_total", {"platform": "memory"}) >= 1


async def test_a_lost_lease_opens_no_draft(tmp_path: Path, adapter: MemoryAdapter) -> None:
    clock = SteppedClock()
    async with process(tmp_path / "db", adapter, clock=clock) as rig:
        lease = await rig.lease(HERE)
        clock.advance(60.0)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="late"))
            await asyncio.sleep(0.03)
        assert turn.draft is None
        assert calls(adapter, "send") == 0


class Boom(Exception):
    """The provider raises."""


@pytest.mark.parametrize("path", ["answered", "raised", "cancelled", "typing fails", "no reply", "stuck"])
async def test_B39_no_typing_after_the_end_by_any_path(tmp_path: Path, adapter: MemoryAdapter, path: str) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        if path == "typing fails":
            adapter.room.fail("typing", NotReady(), times=100)
        if path == "stuck":
            adapter.room.fail("typing", hold=asyncio.Event())

        async def turn() -> None:
            async with stream(rig, lease) as one:
                while calls(adapter, "typing") == 0:
                    await asyncio.sleep(0.001)
                if path == "answered":
                    one.emit(TextDelta(text="text"))
                if path == "raised":
                    raise Boom
                if path == "cancelled":
                    await asyncio.Event().wait()

        task = asyncio.create_task(turn())
        while calls(adapter, "typing") == 0:
            await asyncio.sleep(0.001)
        if path == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        assert isinstance(task.exception(), Boom) if path == "raised" else task.cancelled() == (path == "cancelled")
        seen = calls(adapter, "typing")
        rig.clock.advance(30.0)
        await asyncio.sleep(0.05)
        assert calls(adapter, "typing") == seen


async def test_B39_typing_has_a_hard_maximum_and_keeps_off_a_held_chat(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease):
            while calls(adapter, "typing") < 3:
                await asyncio.sleep(0.001)
            assert {one.thread_id for one in adapter.room.typing} == {"T"}
            rig.clock.advance(QUICK.typing_longest + 1)
            await asyncio.sleep(0.02)
            seen = calls(adapter, "typing")
            await asyncio.sleep(0.05)
            assert calls(adapter, "typing") == seen
        await rig.arbiter.hold(queue(), 30.0)
        async with stream(rig, lease):
            await asyncio.sleep(0.05)
        assert calls(adapter, "typing") == seen


async def test_live_platforms_get_parts(tmp_path: Path) -> None:
    adapter = LiveMemoryAdapter()
    async with connect(adapter), process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with stream(rig, lease) as turn:
            turn.emit(TextDelta(text="Let me "))
            turn.emit(TextDelta(text="look."))
            turn.emit(StepCommitted(row_id=RowId(1), text="Let me look."))
            turn.emit(ToolStarted(call_id="c1", name="files", summary="reads a.txt"))
            turn.emit(ToolEnded(call_id="c1", name="files", status=ToolStatus.DONE, summary="read"))
            turn.emit(TextReset(reason="broken"))
            turn.emit(Waiting(text="next try in 3 s"))
        turn.emit(TextDelta(text="after the end"))
        assert [(part.kind, part.text) for _, part in adapter.parts] == [
            ("text", "Let me "),
            ("text", "look."),
            ("reset", ""),
            ("status", "Let me look."),
            ("tool", "reads a.txt"),
            ("tool", "read (done)"),
            ("reset", ""),
            ("status", "next try in 3 s"),
        ]
        assert {reply_to for reply_to, _ in adapter.parts} == {"in-1"}
        assert turn.draft is None


async def test_the_time_to_the_first_text_is_counted_once(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease, received = await rig.lease(HERE), rig.clock.utc()
        rig.clock.advance(3.0)
        one = TurnStream(
            rig.deliveries, adapter, address=HERE, reply_to="in-1", lease=lease, received_at=received, settings=QUICK
        )
        async with one as turn:
            turn.emit(TextDelta(text="a"))
            rig.clock.advance(3.0)
            turn.emit(TextDelta(text="b"))
        assert rig.metrics.value("first_text_seconds_count") == 1
        assert rig.metrics.value("first_text_seconds_sum") == 3.0


async def test_without_an_adapter_nothing_is_shown(tmp_path: Path, adapter: MemoryAdapter) -> None:
    async with process(tmp_path / "db", adapter) as rig:
        lease = await rig.lease(HERE)
        async with TurnStream(rig.deliveries, None, address=HERE, reply_to="in-1", lease=lease) as turn:
            turn.emit(TextDelta(text="text"))
        assert (turn.text, turn.draft) == ("text", None)


@pytest.mark.parametrize(
    ("text", "healed"),
    [
        ("plain", "plain"),
        ("```python\nx = 1", "```python\nx = 1\n```"),
        ("```\na\n```\nafter", "```\na\n```\nafter"),
        ("````\n```\n", "````\n```\n````"),
        ("~~~\n```", "~~~\n```\n~~~"),
        ("some `code", "some `code`"),
        ("some **bold", "some **bold**"),
        ("some **", "some "),
        ("an open ` before\n\na new paragraph", "an open ` before\n\na new paragraph"),
        ("", ""),
    ],
)
def test_half_written_markdown_is_made_whole(text: str, healed: str) -> None:
    assert heal(text) == healed
