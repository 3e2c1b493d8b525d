"""The Telegram adapter when the line breaks, the token is refused, or another program polls with it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from adapters.errors import AuthFailed, NotReady, OutcomeUnknown, RetryAfter
from adapters.telegram.settings import TelegramSettings
from tests.counterparts.telegram_server import TelegramServer
from tests.unit.adapters.telegram.rig import QUICK, Rig


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as found:
        yield found
        assert found.violations == []


@pytest.fixture
def rig(server: TelegramServer, tmp_path: Path) -> Rig:
    return Rig(server, tmp_path)


async def ended(rig: Rig, seconds: float = 10.0) -> BaseException | None:
    assert rig.task is not None
    await asyncio.wait({rig.task}, timeout=seconds)
    assert rig.task.done()
    return None if rig.task.cancelled() else rig.task.exception()


async def closed_down_to(server: TelegramServer, connections: int) -> None:
    async with asyncio.timeout(5):
        while server.open_connections > connections:
            await asyncio.sleep(0.01)


# the line


async def test_B62_a_poll_that_hangs_is_given_up_and_the_backlog_heard(server: TelegramServer, tmp_path: Path) -> None:
    rig = Rig(server, tmp_path, timing=replace(QUICK, poll=1, grace=0.2, outage=30))
    with structlog.testing.capture_logs() as logs:
        async with rig.running() as task:
            await server.until(lambda: server.updates.polling == 1)
            server.hang("getUpdates")  # taken, never answered; the first poll that is under way ends by itself
            server.say(rig.chat, rig.ann, "before")
            await rig.events(1)
            await server.until(lambda: len(server.called("getUpdates")) >= 4)
            server.say(rig.chat, rig.ann, "during")
            ports = [call.connection for call in server.called("getUpdates")[1:4]]
            assert len(set(ports)) == 3, "each time over a fresh connection"
            began = asyncio.get_running_loop().time()
            server.heal()
            await rig.events(2)
            assert asyncio.get_running_loop().time() - began < 1 + 2 * 0.2 + 1
            await server.until(lambda: rig.readies == 2)
            assert not task.done()
    told = [one for one in logs if one["log_level"] == "warning"]
    assert [one["event"] for one in told] == ["telegram.poll_interrupted"]
    assert [event.text for event in rig.gateway.events] == ["before", "during"]


async def test_B62_a_long_outage_is_reported_and_told_once(rig: Rig) -> None:
    with structlog.testing.capture_logs() as logs:
        async with rig.running() as task:
            rig.server.fail("getUpdates", status=502, times=None)
            rig.server.drop_connections()
            with pytest.raises(NotReady):
                await asyncio.wait_for(asyncio.shield(task), 10)
        with pytest.raises(NotReady):
            async with rig.running() as task:  # the supervisor tries again: the same episode
                await asyncio.shield(task)
        rig.server.heal()
        rig.server.say(rig.chat, rig.ann, "after it")
        async with rig.running():
            await rig.events(1)
    assert [one["event"] for one in logs if one["log_level"] == "warning"] == ["telegram.poll_interrupted"]
    assert [one["event"] for one in logs if one["event"] == "telegram.poll_resumed"] == ["telegram.poll_resumed"]


async def test_a_hundred_drops_leave_nothing_open(server: TelegramServer, tmp_path: Path) -> None:
    rig = Rig(server, tmp_path, timing=replace(QUICK, outage=60))
    async with rig.running() as task:
        await rig.server.until(lambda: rig.server.updates.polling == 1)
        tasks = len(asyncio.all_tasks())
        for number in range(100):
            polls = len(rig.server.called("getUpdates"))
            rig.server.drop_connections()
            await rig.server.until(lambda polls=polls: len(rig.server.called("getUpdates")) > polls)
            if number % 20 == 0:
                rig.server.say(rig.chat, rig.ann, f"m{number}")
        await rig.events(5)
        await rig.settled()
        await closed_down_to(rig.server, 3)
        assert len(asyncio.all_tasks()) <= tasks + 4  # those of the server's connections
        assert not task.done()
    await closed_down_to(rig.server, 0)
    assert not [one for one in asyncio.all_tasks() if "adapter" in one.get_name()]


async def test_a_send_under_way_may_end_before_everything_is_closed(rig: Rig) -> None:
    rig.server.hang("sendMessage", times=1)
    async with rig.running() as task:
        sending = asyncio.create_task(rig.say(rig.chat, "hi"), name="sending")
        await rig.server.until(lambda: rig.server.called("sendMessage"))
        task.cancel()
        await asyncio.sleep(0.05)
        with pytest.raises(NotReady):
            await rig.say(rig.chat, "too late")
        rig.server.heal()
        assert len(await sending) == 1
    assert [one.text for one in rig.server.shown(rig.chat)] == ["hi"]


async def test_telegram_cannot_be_reached_at_the_start(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        rig = Rig(server, tmp_path)
    rig.start()
    error = await ended(rig)
    assert isinstance(error, NotReady)
    assert rig.adapter.account == ""
    assert rig.readies == 0


async def test_a_flood_at_the_start_and_at_a_poll_is_waited_for(rig: Rig) -> None:
    for method in ("getMe", "deleteWebhook", "getUpdates"):
        rig.server.flood(method, 44)
        rig.start()
        error = await ended(rig)
        assert isinstance(error, RetryAfter)
        assert error.seconds == 44


# the token


async def test_B65_a_refused_token_parks_at_the_start_and_at_run_time(rig: Rig) -> None:
    rig.server.revoke()
    rig.start()
    error = await ended(rig)
    assert isinstance(error, AuthFailed)
    assert rig.server.token not in "".join(traceback.format_exception(error))
    assert rig.readies == 0
    rig.server.heal()
    async with rig.running() as task:
        await rig.server.until(lambda: rig.server.updates.polling == 1)
        rig.server.revoke()
        with pytest.raises(AuthFailed):
            await rig.say(rig.chat, "hi")
        rig.server.updates.end_poll("x")  # the poll that waits comes to its end
        assert isinstance(await ended(rig), AuthFailed)
        assert task.done()


async def test_B60_a_short_conflict_passes_by_itself(rig: Rig) -> None:
    rig.server.fail("getUpdates", status=409, times=2)
    rig.server.say(rig.chat, rig.ann, "hello")
    async with rig.running() as task:
        await rig.events(1)
        assert not task.done()
    assert rig.readies == 1


@pytest.mark.parametrize("alternating", [False, True])
async def test_B60_a_long_or_alternating_conflict_is_a_visible_state(rig: Rig, alternating: bool) -> None:
    if alternating:
        asked = 0
        original = rig.server.updates.poll

        async def poll(*args: object) -> object:
            nonlocal asked
            asked += 1
            if asked % 2:
                return []
            rig.server.updates.end_poll("x")
            from tests.counterparts.telegram_rules import Refused

            raise Refused("terminated by other getUpdates request", 409)

        rig.server.updates.poll = poll  # type: ignore[method-assign,assignment]
    else:
        rig.server.fail("getUpdates", status=409, times=None)
    with structlog.testing.capture_logs() as logs:
        rig.start()
        error = await ended(rig)
        assert isinstance(error, NotReady)
        assert "Another program" in error.told
        readies = rig.readies
        rig.start()  # the supervisor tries again: it is not called ready before the other one is gone
        assert isinstance(await ended(rig), NotReady)
        assert rig.readies == readies
        if alternating:
            rig.server.updates.poll = original  # type: ignore[method-assign]
        rig.server.heal()
        rig.server.say(rig.chat, rig.ann, "hello")
        async with rig.running():
            assert rig.readies == readies + 1
            await rig.events(1)
    events = [one["event"] for one in logs]
    assert events.count("telegram.conflict") == 1
    assert events.count("telegram.conflict_over") == 1


def test_B60_the_token_is_what_only_one_daemon_may_use() -> None:
    assert TelegramSettings.model_validate({"token": "1:x"}).exclusive() == ("1:x",)
    assert TelegramSettings.model_validate({}).exclusive() == ()
    assert TelegramSettings.model_validate({"home_chat": -5}).home() == "-5"


async def test_B77_the_token_is_in_no_line_and_no_error(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    with structlog.testing.capture_logs() as logs:
        async with rig.running():
            rig.server.send_document(rig.chat, rig.ann, b"x", cut=True)
            (event,) = await rig.events(1)
            told.append(str(await rig.adapter.fetch(event)))
            await rig.say(rig.chat, "hi")
            rig.server.accept_then_drop("sendMessage")
            with pytest.raises(OutcomeUnknown) as caught:
                await rig.say(rig.chat, "hi")
            told.append("".join(traceback.format_exception(caught.value)))
        async with TelegramServer() as other:
            away = Rig(other, rig.folder)
        away.start()
        error = await ended(away)
        assert error is not None
        told.append("".join(traceback.format_exception(error)))
    everything = "\n".join([*told, caplog.text, str(logs), repr(rig.adapter), str(rig.adapter.__dict__)])
    secret = rig.server.token.partition(":")[2]
    assert secret not in everything
    assert "the words" not in caplog.text
