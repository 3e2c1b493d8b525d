"""The Discord adapter against the counterpart: what is lost on the way is found again, and nothing piles up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.errors import (
    AuthFailed,
    NotReady,
    RetryAfter,
)
from tests.counterparts.discord_server import DiscordServer
from tests.unit.adapters.discord.rig import Rig

MESSAGES = "/channels/*/messages"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with DiscordServer() as server:
        found = Rig(server, tmp_path)
        yield found
        assert server.violations == []


# gaps ----------------------------------------------------------------------------------------------------


async def test_B16_what_was_said_in_a_gap_is_fetched_once_oldest_first(rig: Rig) -> None:
    dm = rig.dm().chat_id
    rig.server.say(rig.server.channel, rig.ann, "before the first start", live=False)
    async with rig.running():
        await rig.quiet()
        assert rig.gateway.events == []  # the first start ingests no history
        rig.server.say(dm, rig.ann, "hello")
        await rig.events(1)
    rig.mention("one")
    rig.mention("two")
    rig.server.say(dm, rig.ann, "three")
    rig.make()
    async with rig.running():
        events = await rig.events(4)
        assert [one.text for one in events if one.address.chat_kind != "private"] == ["one", "two"]
        assert [one.text for one in events if one.address.chat_kind == "private"] == ["hello", "three"]
        assert all(one.came == "found in the history after a gap" for one in events[1:])
        assert all(one.mentions_us for one in events if one.address.chat_kind != "private")
        rig.mention("four")
        assert (await rig.events(5))[-1].came is None
    rig.make()
    async with rig.running():
        await rig.quiet()
        assert len(rig.gateway.events) == 5


async def test_B16_a_session_that_cannot_be_resumed_is_a_gap(rig: Rig) -> None:
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
        rig.server.gateway.hold()
        rig.server.drop_sockets(resumable=False)
        rig.mention("one", live=False)
        rig.server.say(rig.server.channel, rig.ann, "not for us", live=False)
        rig.server.gateway.release()
        await rig.until(lambda: rig.server.identifies == 2)
        assert [one.text for one in await rig.events(3)] == ["zero", "one", "not for us"]


async def test_a_direct_message_of_a_gap_is_found_by_the_same_process(rig: Rig) -> None:
    dm = rig.dm().chat_id
    async with rig.running():
        rig.server.say(dm, rig.ann, "zero")
        await rig.events(1)
        rig.server.say(dm, rig.ann, "one", live=False)
        rig.server.drop_sockets(resumable=False)
        assert [one.text for one in await rig.events(2)] == ["zero", "one"]


async def test_a_thread_that_was_forgotten_is_known_again_when_it_wakes(rig: Rig) -> None:
    async with rig.running():
        thread = rig.server.thread(rig.server.channel, rig.ann, "old")
        rig.server.say(thread, rig.ann, "long ago")
        rig.mention("zero")
        await rig.events(2)
    del rig.cursors.kept[str(thread)]
    rig.server.say(thread, rig.ann, f"<@{rig.server.bot}> awake", live=False)
    rig.make()
    async with rig.running():
        assert [one.text for one in await rig.events(3)] == ["long ago", "zero", "awake"]


async def test_a_resumed_session_is_no_gap(rig: Rig) -> None:
    async with rig.running():
        calls = len(rig.server.called("GET", "/messages"))
        rig.server.drop_sockets()
        rig.mention("meanwhile")
        (event,) = await rig.events(1)
        assert event.came is None
        assert (rig.server.resumes, rig.server.identifies) == (1, 1)
        assert len(rig.server.called("GET", "/messages")) == calls
        await rig.until(lambda: rig.readies == 2)


async def test_an_invalid_session_is_begun_anew_and_filled(rig: Rig) -> None:
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
        rig.server.gateway.refusing_resumes = 1
        rig.server.drop_sockets()
        rig.mention("one", live=False)
        assert [one.text for one in await rig.events(2)] == ["zero", "one"]
        assert rig.server.identifies == 2


async def test_live_messages_do_not_move_the_cursor_over_an_open_gap(rig: Rig) -> None:
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
        await rig.until(lambda: str(rig.server.channel) in rig.cursors.kept)
    missed = rig.mention("missed", live=False)
    hanging = rig.server.hang("GET", MESSAGES)
    rig.make()
    task = asyncio.create_task(rig.adapter.run(rig.gateway, rig._ready))
    try:
        await rig.until(lambda: bool(hanging.met))
        rig.mention("live")
        await rig.events(2)
        await asyncio.sleep(1.2)  # cursors are written once a second
        assert int(rig.cursors.kept[str(rig.server.channel)]) < int(missed["id"])
    finally:
        task.cancel()  # it dies in the middle of the filling
        await asyncio.gather(task, return_exceptions=True)
    hanging.release()
    rig.make()
    async with rig.running():
        events = await rig.events(3)
        assert [one.text for one in events] == ["zero", "live", "missed"]
        last = int(events[1].message_id)
        await rig.until(lambda: int(rig.cursors.kept[str(rig.server.channel)]) >= last)


async def test_the_filling_is_bounded_and_told(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.settings["backfill_messages"] = 120
    rig.make()
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
    for number in range(130):
        rig.server.say(rig.server.channel, rig.ann, f"m{number}", live=False)
    rig.make()
    async with rig.running():
        events = await rig.events(121)
        assert [one.text for one in events[1:]] == [f"m{number}" for number in range(120)]
        assert "gap_not_filled" in capsys.readouterr().out
        pages = [call.query["limit"] for call in rig.server.called("GET", f"/{rig.server.channel}/messages")]
        assert pages[:2] == ["100", "20"]
    rig.make()
    async with rig.running():
        await rig.quiet()
        assert len(rig.gateway.events) == 121


async def test_the_filling_obeys_limits_and_comes_through_faults(rig: Rig) -> None:
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
    rig.mention("one")
    rig.server.fail("GET", MESSAGES, status=429, retry_after=0.2)
    rig.make()
    async with rig.running():
        times = [call.time for call in rig.server.called("GET", f"/{rig.server.channel}/messages")]
        assert times[1] - times[0] >= 0.2
        await rig.events(2)


async def test_threads_and_channels_that_were_made_in_a_gap_are_read_from_their_begin(rig: Rig) -> None:
    old = rig.server.add_channel("old")
    rig.server.say(old, rig.ann, "long ago", live=False)
    async with rig.running():
        rig.mention("zero")
        await rig.events(1)
    thread = rig.server.thread(rig.server.channel, rig.ann, "new one")
    rig.server.say(thread, rig.ann, f"<@{rig.server.bot}> in the thread")
    channel = rig.server.add_channel("fresh")
    rig.server.say(channel, rig.ann, f"<@{rig.server.bot}> in the channel")
    rig.make()
    async with rig.running():
        events = await rig.events(3)
        assert {one.text for one in events[1:]} == {"in the thread", "in the channel"}


async def test_channels_that_are_gone_or_closed_are_forgotten(rig: Rig) -> None:
    closed, deleted = rig.server.add_channel("closed"), rig.server.add_channel("deleted")
    async with rig.running():
        rig.server.say(closed, rig.ann, "a")
        rig.server.say(deleted, rig.ann, "b")
        rig.server.say(rig.server.channel, rig.ann, "c")
        await rig.events(3)
    rig.server.say(closed, rig.ann, "more", live=False)
    rig.server.permit(channel=closed, view_channel=False)
    rig.server.people.delete_channel(deleted)
    rig.make()
    async with rig.running():
        await rig.until(lambda: str(closed) not in rig.cursors.kept and str(deleted) not in rig.cursors.kept)
        assert str(rig.server.channel) in rig.cursors.kept
        rig.server.people.delete_channel(rig.server.channel)
        await rig.until(lambda: str(rig.server.channel) not in rig.cursors.kept)


# the connection ------------------------------------------------------------------------------------------


async def test_B21_a_hundred_drops_leave_nothing_behind(rig: Rig) -> None:
    async with rig.running():
        rig.mention("hello")
        await rig.events(1)
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        for number in range(100):
            rig.server.drop_sockets(resumable=number % 10 != 0)
            await rig.until(lambda number=number: rig.readies >= number + 2)
        await rig.until(lambda: rig.settled)
        rig.server.say(rig.server.channel, rig.ann, "once")
        assert (await rig.events(2))[-1].text == "once"
        await asyncio.sleep(0.3)
        assert rig.server.sockets == 1
        assert len(asyncio.all_tasks()) <= tasks + 2  # those of the counterpart's sockets come and go
        assert threading.active_count() <= threads
    assert rig.server.sockets == 0


async def test_B21_runs_again_and_again(rig: Rig) -> None:
    for number in range(5):
        async with rig.running():
            rig.server.say(rig.server.channel, rig.ann, f"m{number}")
            await rig.events(number + 1)
        assert rig.server.sockets == 0
        assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("discord:")]
        await rig.until(lambda: not [one for one in threading.enumerate() if one.name.startswith("keep-alive")])


async def test_B62_a_connection_that_is_dead_without_a_word_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.discord.link.DEAD_AFTER", 0.5)
    async with DiscordServer(heartbeat_interval=0.2) as server:
        rig = Rig(server, tmp_path)
        async with rig.running():
            server.gateway.acknowledging = False
            await rig.until(lambda: server.resumes >= 1)
            server.gateway.acknowledging = True
            rig.mention("still there?")
            await rig.events(1)


async def test_an_outage_ends_the_run_and_the_session_is_taken_up_where_the_work_has_come_to(rig: Rig) -> None:
    async with rig.running() as task:
        rig.mention("zero")
        await rig.events(1)
        rig.server.gateway.accepting = False
        rig.server.drop_sockets()
        with pytest.raises(NotReady):
            await asyncio.wait_for(asyncio.shield(task), 10)
        rig.mention("meanwhile")
        with pytest.raises(NotReady):
            await rig.send(rig.dm(), "x")
        rig.server.gateway.accepting = True
    async with rig.running():
        assert [one.text for one in await rig.events(2)] == ["zero", "meanwhile"]
        assert (rig.server.identifies, rig.server.resumes) == (1, 1)


async def test_the_api_is_asked_for_the_gateway_and_for_what_is_left_of_the_day(rig: Rig) -> None:
    rig.settings["gateway_url"] = None
    rig.make()
    async with rig.running():
        rig.mention("hello")
        await rig.events(1)
    rig.server.gateway.identifies = 1000
    with pytest.raises(RetryAfter) as caught:
        await rig.adapter.run(rig.gateway, rig._ready)
    assert caught.value.seconds == 86_400


async def test_more_events_than_the_store_can_take_are_fetched_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.discord.adapter.QUEUE", 5)
    async with rig.running() as task:
        rig.gateway.gate.clear()
        for number in range(10):
            rig.server.say(rig.server.channel, rig.ann, f"m{number}")
        with pytest.raises(NotReady):
            await asyncio.wait_for(asyncio.shield(task), 10)
        rig.gateway.gate.set()
    monkeypatch.setattr("adapters.discord.adapter.QUEUE", 100)
    async with rig.running():
        assert [one.text for one in await rig.events(10)] == [f"m{number}" for number in range(10)]
    assert rig.server.identifies == 1


async def test_reconnect_requests_and_invalidations_are_followed(rig: Rig) -> None:
    async with rig.running():
        rig.server.gateway.ask_to_reconnect()
        await rig.until(lambda: rig.server.resumes == 1)
        rig.server.gateway.invalidate(resumable=True)
        await rig.until(lambda: rig.server.resumes == 2)
        rig.server.gateway.invalidate()
        await rig.until(lambda: rig.server.identifies == 2)
        rig.mention("hello")
        await rig.events(1)


async def test_B65_a_refused_token_parks_and_is_never_told(rig: Rig) -> None:
    async with rig.running() as task:
        rig.server.revoke()
        with pytest.raises(AuthFailed) as caught:
            await asyncio.wait_for(asyncio.shield(task), 10)
    token = str(rig.settings.get("token", rig.server._token))
    assert token not in f"{caught.value!r} {caught.value.__cause__!r}"
    with pytest.raises(AuthFailed):
        await rig.adapter.run(rig.gateway, rig._ready)
    rig.server.restore()
    async with rig.running():
        rig.mention("again")
        await rig.events(1)


async def test_B96_a_missing_intent_is_named_and_an_empty_message_is_told_once(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.server.gateway.approved.discard("message_content")
    with pytest.raises(AuthFailed) as caught:
        await asyncio.wait_for(rig.adapter.run(rig.gateway, rig._ready), 10)
    assert "Message Content Intent" in caught.value.told
    assert "intent.missing" in capsys.readouterr().out
    rig.server.gateway.approved.add("message_content")
    async with rig.running():
        said = rig.server.say(rig.server.channel, rig.ann, "x", live=False)
        for identity in ("11", "12"):
            rig.tell("MESSAGE_CREATE", {**said, "id": identity, "content": ""})
        assert [one.text for one in await rig.events(2)] == ["", ""]  # the gateway ends them as empty
        assert capsys.readouterr().out.count("message.without_content") == 1
