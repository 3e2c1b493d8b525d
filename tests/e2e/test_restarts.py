"""Restarts asked for in a chat, redeliveries, and histories that are none of our business (B14, B17, B18)."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from tests.crash.harness import rows
from tests.e2e.sides import SlackSide
from tests.e2e.test_conversations import Scene, scene

__all__ = ["scene"]


async def test_B18_a_restart_from_a_chat_is_done_once_and_told_once(scene: Scene) -> None:
    side = scene.side
    daemon = await scene.start()
    side.say(side.private, "/restart")
    assert await daemon.dead() == 75  # the supervisor starts it anew
    for _ in range(2):
        daemon = await scene.start()
        side.say(side.private, "/whoami")
        await scene.sees(side.private, side.owner())
        await asyncio.sleep(0.3)
        assert daemon.process.poll() is None, "the restart was repeated"
        assert await daemon.terminate() == 0
    seen = side.seen(side.private)
    assert sum("restart now" in one for one in seen) == 1
    assert sum("back" in one.lower() for one in seen) == 1, seen
    assert rows(scene.world.home, "SELECT count(*) FROM inbox WHERE detail = '/restart'") == [(1,)]


async def test_B17_what_was_said_before_the_first_start_is_no_request(scene: Scene) -> None:
    side = scene.side
    if not side.fills_back:
        pytest.skip("Telegram keeps no history for bots: what waits there was never told, and is served (B12)")
    for place in (side.private, side.room):
        for number in range(5):
            side.say(place, f"an old request {number}", mention=place == side.room, live=False)
    await scene.start()
    scene.model.script("something new")
    asked = side.say(side.room, "a new request", mention=True)
    await scene.sees(side.answers_to(side.room, asked), "something new")
    assert len(scene.model.calls) == 1
    assert rows(scene.world.home, "SELECT count(*) FROM inbox WHERE fate = 'answered'") == [(1,)]


async def test_B14_a_late_acknowledgement_makes_no_second_answer(scene: Scene) -> None:
    """The store is locked for as long as Slack waits for an acknowledgement, so that it tells again and again."""
    side = scene.side
    if not isinstance(side, SlackSide):
        pytest.skip("only Slack tells again after so short a time")
    daemon = await scene.start()
    scene.model.script("the one answer")
    lock = sqlite3.connect(scene.world.home / "tidings.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    side.say(side.private, "once, please")
    await asyncio.sleep(side.server.sockets.retry_seconds * 2.5)
    assert side.server.sockets.acks == []  # nothing is acknowledged before it is committed
    lock.execute("COMMIT")
    lock.close()
    await scene.sees(side.private, "the one answer")
    told = next(one for one in side.server.sockets.sent if one["event"].get("text") == "once, please")
    assert await daemon.terminate() == 0
    await scene.start()
    side.server.sockets.deliver("events_api", told)  # and once more after a restart
    side.say(side.private, "/whoami")
    await scene.sees(side.private, side.owner())
    assert sum("the one answer" in one for one in side.seen(side.private)) == 1
    assert len(scene.model.calls) == 1
