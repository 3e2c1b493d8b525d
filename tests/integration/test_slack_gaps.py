"""What was said on Slack while nobody listened is found in the history: once, in order, from a contiguous cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.errors import NotReady
from adapters.events import Attachment, EventKind
from adapters.slack.inbound import order
from adapters.slack.progress import SEEN
from tests.counterparts.small_slack_server import SlackServer
from tests.unit.adapters.slack.rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with SlackServer() as server:
        yield Rig(server, tmp_path)


async def settled(rig: Rig) -> None:
    """Until no further call is made."""
    count = -1
    while count != len(rig.server.calls):
        count = len(rig.server.calls)
        await asyncio.sleep(0.15)


async def once(rig: Rig) -> None:
    """A first run, so that everything is known."""
    async with rig.running():
        await settled(rig)
    rig.renew()


async def test_on_the_first_start_nothing_is_history(rig: Rig) -> None:
    rig.mention("long ago", live=False)
    rig.say("long ago", rig.dm, live=False)
    async with rig.running():
        await settled(rig)
        assert rig.gateway.rows == []
        assert {rig.room.id, rig.dm.id, SEEN} == set(rig.cursors.kept)


async def test_what_came_while_we_were_down_is_found_in_order(rig: Rig) -> None:
    await once(rig)
    root = rig.mention("one", live=False)
    rig.say("in the direct message", rig.dm, live=False)
    rig.say("two", thread_ts=root["ts"], live=False)
    rig.mention("three", live=False)
    async with rig.running():
        await rig.events(4)
        await settled(rig)
        room = [one for one in rig.gateway.events if one.address.chat_id == rig.room.id]
        assert [one.text for one in room] == ["one", "two", "three"]
        assert [one.mentions_us for one in room] == [True, True, True]
        assert all("found in the history after a gap" in str(one.came) for one in rig.gateway.events)
        assert room[1].address.thread_id == root["ts"]
    rig.renew()
    count = rig.gateway.offered
    async with rig.running():  # nothing is fetched twice where nothing is new
        await settled(rig)
        assert rig.gateway.offered == count


async def test_a_lost_socket_is_a_gap(rig: Rig) -> None:
    async with rig.running():
        await settled(rig)
        rig.server.sockets.accepting = True
        await rig.server.sockets.drop()
        rig.mention("into the void")
        (event,) = await rig.events(1)
        assert event.text == "into the void"
        assert event.came is not None


async def test_replies_in_older_threads_are_found(rig: Rig) -> None:
    async with rig.running():
        known = rig.mention("ours")
        await rig.acked(2)
        other = rig.say("theirs")
        await rig.events(2)
        await settled(rig)
    rig.renew()
    rig.say("in ours", thread_ts=known["ts"], live=False)
    rig.mention("in theirs", thread_ts=other["ts"], live=False)
    async with rig.running():
        found = await rig.events(4)
        await settled(rig)
        assert [(one.text, one.mentions_us) for one in found[2:]] == [("in ours", True), ("in theirs", True)]


async def test_edits_of_the_gap_are_found(rig: Rig) -> None:
    async with rig.running():
        message = rig.mention("delete file A", twins=("message",))
        await rig.acked(1)
        await settled(rig)
    rig.renew()
    rig.server.people.edit(rig.room, message, f"<@{rig.server.bot}> delete file B", live=False)
    fresh = rig.mention("and this", live=False)
    rig.server.people.edit(rig.room, fresh, f"<@{rig.server.bot}> and that", live=False)
    rig.cursors.kept[rig.room.id] = f"{float(message['ts']) - 1:.6f}"  # the cursor lags, as it may
    async with rig.running():
        found = await rig.events(3)
        assert [(one.kind, one.text) for one in found[1:]] == [
            (EventKind.EDIT, "delete file B"),
            (EventKind.MESSAGE, "and that"),
        ]


async def test_the_first_direct_message_of_somebody_new_is_found(rig: Rig) -> None:
    await once(rig)
    new = rig.server.dm(rig.bob)
    rig.server.people.say(new, rig.bob, "hello, I am new", live=False)
    late = rig.server.channel("late", rig.bob)
    rig.server.people.say(late, rig.bob, "before we came", live=False)
    async with rig.running():
        (event,) = await rig.events(1)
        await settled(rig)
        assert (event.text, event.sender.id) == ("hello, I am new", rig.bob)
        assert late.id in rig.cursors.kept
        assert len(rig.gateway.rows) == 1


async def test_a_long_gap_is_bounded_by_the_setting(tmp_path: Path) -> None:
    async with SlackServer() as server:
        rig = Rig(server, tmp_path, backfill_messages=5)
        await once(rig)
        for number in range(12):
            rig.say(f"number {number}", live=False)
        async with rig.running():
            await rig.events(5)
            await settled(rig)
            assert [one.text for one in rig.gateway.events] == [f"number {number}" for number in range(7, 12)]
        rig.renew()
        async with rig.running():
            await settled(rig)
            assert len(rig.gateway.rows) == 5


async def test_many_pages_are_read(tmp_path: Path) -> None:
    async with SlackServer() as server:
        rig = Rig(server, tmp_path, backfill_messages=1000)
        await once(rig)
        for number in range(450):
            rig.say(f"number {number}", live=False)
        async with rig.running():
            await rig.events(450)
            assert [one.text for one in rig.gateway.events] == [f"number {number}" for number in range(450)]


async def test_a_wait_that_slack_asks_for_is_obeyed(rig: Rig) -> None:
    await once(rig)
    rig.say("hello", live=False)
    rig.server.fail("conversations.history", retry_after=1)
    async with rig.running():
        await rig.events(1)
        history = rig.server.called("conversations.history")
        assert history[1].at - history[0].at >= 0.95


async def test_the_cursor_stays_while_the_store_takes_nothing(rig: Rig) -> None:
    await once(rig)
    before = dict(rig.cursors.kept)
    rig.say("one", live=False)
    rig.say("two", live=False)
    async with rig.running():
        rig.gateway.faults.extend([NotReady("the disk is full")] * 2)
        await rig.gateway.until(lambda: rig.gateway.offered >= 1)
        assert rig.cursors.kept == before
        rig.say("three")  # live, while the gap is open
        await rig.gateway.until(lambda: len(rig.gateway.rows) == 3, 15)
        await settled(rig)
    assert sorted(one.text for one in rig.gateway.events) == ["one", "three", "two"]
    assert order(rig.cursors.kept[rig.room.id]) > order(before[rig.room.id])


async def test_a_live_message_that_is_not_committed_holds_the_cursor(rig: Rig) -> None:
    async with SlackServer(retry_seconds=60) as server:
        held = Rig(server, rig.folder)
        async with held.running():
            await settled(held)
            held.gateway.faults.append(NotReady("the disk is full"))
            held.say("lost by Slack")  # it would come again in a minute
            held.say("after it")
            found = await held.events(2)  # found in the history at once
            assert {one.text for one in found} == {"lost by Slack", "after it"}


async def test_kill_between_commit_and_cursor_loses_nothing(rig: Rig) -> None:
    async with rig.running():
        rig.say("one")
        await rig.acked(1)
        await settled(rig)
        rig.cursors.broken = True  # what is written from now on is lost, as with a kill
        rig.say("two")
        await rig.acked(2)
    rig.cursors.broken = False
    rig.renew()
    rig.say("three", live=False)
    async with rig.running():
        await rig.events(3)
        assert [one.text for one in rig.gateway.events] == ["one", "two", "three"]


async def test_a_root_in_a_direct_message_stays_in_its_conversation(rig: Rig) -> None:
    await once(rig)
    root = rig.say("root", rig.dm, live=False)
    rig.say("reply", rig.dm, thread_ts=root["ts"], live=False)
    async with rig.running():
        first, second = await rig.events(2)
        assert first.address == rig.address(rig.dm)
        assert second.address == rig.address(rig.dm, root["ts"])


async def test_a_defect_in_one_message_of_the_history_keeps_no_other_waiting(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await once(rig)
    kept: list[str] = []

    async def unreadable(platform: str, account: str, dedup_id: str, raw: str, reason: str) -> None:
        kept.append(dedup_id)

    def broken(message: dict[str, object], limit: int) -> tuple[Attachment, ...]:
        if message.get("text") == "breaks":
            raise RuntimeError("a defect")
        return ()

    monkeypatch.setattr(rig.gateway, "unreadable", unreadable, raising=False)
    monkeypatch.setattr("adapters.slack.inbound.file_list", broken)
    rig.say("breaks", live=False)
    rig.say("and on", live=False)
    async with rig.running() as task:
        (event,) = await rig.events(1)
        await settled(rig)
        assert (event.text, len(kept), task.done()) == ("and on", 1, False)


async def test_a_channel_that_is_gone_keeps_no_other_waiting(rig: Rig) -> None:
    await once(rig)
    rig.server.world.channels.pop(rig.room.id)
    rig.say("hello", rig.dm, live=False)
    async with rig.running():
        (event,) = await rig.events(1)
        await settled(rig)
        assert event.text == "hello"
        assert rig.room.id not in rig.cursors.kept


async def test_own_words_in_the_history_are_not_heard(rig: Rig) -> None:
    async with rig.running():
        await settled(rig)
        for channel in (rig.room, rig.dm):
            await rig.adapter.send(rig.address(channel), rig.chunks("mine")[0], key=channel.id, reply_to=None)
    rig.renew()
    async with rig.running():
        await settled(rig)
        assert rig.gateway.rows == []


async def test_without_the_right_to_list_it_serves_what_it_knows(rig: Rig) -> None:
    await once(rig)
    rig.server.fail("users.conversations", times=4, error="missing_scope", needed="im:read")
    rig.say("hello", live=False)
    async with rig.running() as task:
        await rig.events(1)
        assert not task.done()
