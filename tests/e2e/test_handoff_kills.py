"""A hand-off whose daemon is killed at every step: it is done or failed, the session has one place, and is usable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.crash.conftest import World
from tests.crash.harness import rows
from tests.e2e.sides import SIDES
from tests.e2e.test_conversations import Scene
from tests.e2e.test_handoffs import active, command

(DISCORD,) = [one for one in SIDES if one.name == "discord"]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """One platform on which threads are made: what is tried is the state machine, and that is the same for all."""
    side, timeout = DISCORD(), aiohttp.ClientTimeout(total=30)
    async with ModelServer() as model, aiohttp.ClientSession(timeout=timeout) as session, side.open():
        made = Scene(side, World(tmp_path / "home", model, session))
        made.configure()
        try:
            yield made
        finally:
            for daemon in made.world.started:
                daemon.kill()
        side.check()


async def introduced(scene: Scene) -> None:
    """The bot knows the room, since somebody has spoken with it there."""
    side = scene.side
    scene.model.script("I am here.")
    place = side.answers_to(side.forum, side.say(side.forum, "are you there?", mention=True))
    await scene.sees(place, "I am here.")


POINTS = (
    "handoff-claimed",
    "handoff-thread",
    "handoff-recorded",
    "handoff-moving",
    "handoff-moved",
    "handoff-greeted",
)


@pytest.mark.parametrize("point", POINTS)
async def test_B87_a_kill_at_any_step_ends_in_done_or_failed_with_one_owner(scene: Scene, point: str) -> None:
    side, model = scene.side, scene.model
    daemon = await scene.start(point)
    await introduced(scene)
    model.script("Blue it is.")
    code, _, err = await command(scene, "chat", "-p", "my colour is blue")
    assert code == 0, err
    before = side.threads(side.forum)
    target = f"{side.name}:{side.chat_id(side.forum)}"
    model.script(Step(text="Hello from the thread.", when="moved here just now", times=2))
    asked = asyncio.create_task(command(scene, "handoff", target, "--last", "--confirm"), name="handoff")
    assert await daemon.dead() == -9
    await scene.start()
    code, _, err = await asked
    ((session, state, reason),) = rows(scene.world.home, "SELECT session_id, state, reason FROM handoffs")
    assert state == ("done" if point in ("handoff-moved", "handoff-greeted") else "failed")
    assert code == (0 if state == "done" else 1), err
    assert len(active(scene, session)) == 1
    if state == "done":
        (thread,) = [one for one in side.threads(side.forum) if one not in before]
        await scene.sees(thread, "Hello from the thread.")
        model.script("Blue, you said.")
        side.say(thread, "what is my colour?", who="ben")
        await scene.sees(thread, "Blue, you said.")
        assert sum("Hello from the thread." in one for one in side.seen(thread)) == 1
    else:
        assert reason, "it says why"
        assert reason.split()[0] in err
        model.script("Still here, and blue.")
        code, out, err = await command(scene, "chat", "--continue", "-p", "and now?")
        assert (code, out.strip()) == (0, "Still here, and blue."), err
        code, _, err = await command(scene, "handoff", target, "--last", "--confirm")
        assert code == 0, f"the next try is free: {err}"
    assert "my colour is blue" in model.calls[-1].body.decode()


async def test_B88_a_chat_is_told_what_became_of_it_although_the_daemon_died_in_between(scene: Scene) -> None:
    side = scene.side
    daemon = await scene.start("handoff-failed")
    await introduced(scene)
    scene.model.script("hello, Ann")
    side.say(side.private, "hello")
    await scene.sees(side.private, "hello, Ann")
    chat = side.chat_id(side.forum)
    side.server.people.delete_channel(side.forum.chat)
    ((session,),) = rows(scene.world.home, "SELECT session_id FROM transcript WHERE content = 'hello, Ann'")
    asked = await command(scene, "handoff", f"{side.name}:{chat}", "--session", session, "--confirm")
    assert daemon.process.poll() == -9, asked
    assert not any("hand-off" in one for one in side.seen(side.private))
    await scene.start()
    await scene.sees(side.private, "failed")
    side.say(side.private, "and you?")
    scene.model.script("still here")
    await scene.sees(side.private, "still here")
    told = [one for one in side.seen(side.private) if "Nothing has moved" in one]
    assert len(told) == 1
