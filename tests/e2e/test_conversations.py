"""The daemon as a process, a person on each platform: in private, in a group, in threads, with files, edits,
commands and buttons; killed, restarted, and with messages that came while it was down."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.crash.conftest import World
from tests.crash.harness import rows
from tests.e2e.sides import SIDES, Side


class Scene:
    """One platform, one home, one model, and as many starts of the daemon as the test wants."""

    def __init__(self, side: Side, world: World) -> None:
        self.side = side
        self.world = world
        self.model = world.model

    def configure(self, **changes: Any) -> None:
        """Write the configuration."""
        http = {"enabled": True, "host": "127.0.0.1", "port": 0, "key": "${TIDINGS_HTTP_KEY}"}
        self.world.configure(
            access={"owners": [self.side.owner()], "pairing": True},
            platforms={self.side.name: self.side.section(), "http": http},
            **changes,
        )

    async def start(self, point: str = "none") -> Any:
        """Start the daemon; returns when the platform is connected."""
        daemon, _ = await self.world.start(point, **self.side.env())
        await self.side.until(lambda: self._connected(daemon))
        return daemon

    def _connected(self, daemon: Any) -> bool:
        assert daemon.process.poll() is None, daemon.log.read_text()[-3000:]
        return any(line.get("platform") == self.side.name for line in daemon.told("adapter.connected"))

    async def sees(self, place: Any, *texts: str) -> list[str]:
        """Wait until the bot has said each of the texts there."""
        side = self.side
        try:
            await side.until(lambda: all(any(text in one for one in side.seen(place)) for text in texts))
        except TimeoutError:
            log = self.world.started[-1].log.read_text()[-6000:]
            raise AssertionError(f"not seen: {texts}; seen: {side.seen(place)}; log: {log}") from None
        return side.seen(place)


@pytest.fixture(params=SIDES, ids=lambda one: one.name)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    side: Side = request.param()
    timeout = aiohttp.ClientTimeout(total=30)
    async with ModelServer() as model, aiohttp.ClientSession(timeout=timeout) as session, side.open():
        world = World(tmp_path / "home", model, session)
        made = Scene(side, world)
        made.configure()
        try:
            yield made
        finally:
            for daemon in world.started:
                daemon.kill()
        side.check()
        secrets = [value for value in side.env().values() if value]
        for daemon in world.started:  # B77: no secret in any log
            assert not any(secret in daemon.log.read_text() for secret in secrets)


async def test_a_private_conversation(scene: Scene) -> None:
    side = scene.side
    daemon = await scene.start()
    scene.model.script("**Good** morning, Ann.")
    side.say(side.private, "good morning")
    await scene.sees(side.private, "Good")
    side.say(side.private, "/whoami")
    await scene.sees(side.private, side.owner())
    scene.model.script("I have read it.")
    side.send_file(side.private, "notes.txt", b"the secret ingredient is salt", "what is in this file?")
    await scene.sees(side.private, "I have read it.")
    asked = json.loads(scene.model.calls[-1].body)["messages"]
    assert "the secret ingredient is salt" in str(asked[-1])
    assert "what is in this file?" in str(asked[-1])
    assert await daemon.terminate() == 0
    assert rows(scene.world.home, "SELECT fate FROM inbox WHERE fate IN ('waiting', 'running')") == []


async def test_a_group_hears_only_what_is_asked_of_it(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    side.say(side.room, "shall we have soup?", who="ben")
    scene.model.script("Yes, soup.")
    asked = side.say(side.room, "what shall we eat?", who="ben", mention=True)
    place = side.answers_to(side.room, asked)
    await scene.sees(place, "Yes, soup.")
    assert len(scene.model.calls) == 1
    assert "shall we have soup" not in scene.model.calls[0].body.decode()
    if place != side.room:  # the thread is ours: no mention is needed, and it has the same conversation
        scene.model.script("With bread.")
        side.say(place, "and with it?", who="ben")
        await scene.sees(place, "With bread.")
        assert "what shall we eat?" in scene.model.calls[1].body.decode()


async def test_an_edit_before_its_turn_counts(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    scene.model.script(Step(text="the first answer", hold_after=1, when="first"), Step(text="deleted B", when="file B"))
    side.say(side.private, "first")
    await scene.model.wait_calls(1)
    message = side.say(side.private, "delete file A")
    await side.until(lambda: len(rows(scene.world.home, "SELECT id FROM inbox")) == 2)
    side.edit(side.private, message, "delete file B")
    await side.until(lambda: len(rows(scene.world.home, "SELECT id FROM inbox")) == 3)
    scene.model.release()
    await scene.sees(side.private, "the first answer", "deleted B")
    assert "file A" not in scene.model.calls[-1].body.decode()


async def test_an_approval_by_button_runs_the_command_once(scene: Scene) -> None:
    side = scene.side
    scene.configure(
        tools={"owners": ["terminal"], "guests": [], "members": [], "root": str(scene.world.work), "approvals": "ask"}
    )
    await scene.start()
    call = {"name": "terminal", "arguments": {"command": "echo ran >> effects"}, "id": "call_1"}
    scene.model.script(Step(tool_calls=(call,)), "It is done.")
    side.say(side.private, "do it")
    await scene.sees(side.private, "echo ran >> effects")
    assert not (scene.world.work / "effects").exists()
    side.press(side.private, "Approve")
    await scene.sees(side.private, "It is done.", "Allowed")
    assert (scene.world.work / "effects").read_text() == "ran\n"


@pytest.mark.parametrize("point", ["accept", "user-row", "before-final", "final", "sent"])
async def test_a_kill_loses_nothing_and_doubles_nothing(scene: Scene, point: str) -> None:
    side = scene.side
    daemon = await scene.start(point)
    scene.model.script(*[Step(text="the one answer", times=5)])
    side.say(side.private, "a question")
    assert await daemon.dead() == -9, "the point was not reached"
    await scene.start()
    await scene.sees(side.private, "the one answer")
    side.say(side.private, "/whoami")  # everything before it has been said by then
    seen = await scene.sees(side.private, side.owner())
    assert sum("the one answer" in one for one in seen) == 1
    fates = rows(scene.world.home, "SELECT fate FROM inbox ORDER BY id")
    assert fates == [("answered",), ("command",)]


async def test_B12_B16_what_was_said_while_it_was_down_is_answered_once_in_order(scene: Scene) -> None:
    side = scene.side
    daemon = await scene.start()
    scene.model.script("before")
    side.say(side.private, "zero")
    await scene.sees(side.private, "before")
    scene.model.script("noted")
    place = side.answers_to(side.room, side.say(side.room, "remember this room", mention=True))
    await scene.sees(place, "noted")
    assert await daemon.terminate() == 0
    scene.model.script(*[Step(text=f"answer {name}", when=name) for name in ("one", "two", "three")])
    for name in ("one", "two"):
        side.say(side.private, name, live=False)
    side.say(side.room, "unaddressed talk", who="ben", live=False)
    asked = side.say(side.room, "three", mention=True, live=False)
    await scene.start()
    await scene.sees(side.private, "answer one", "answer two")
    await scene.sees(side.answers_to(side.room, asked), "answer three")
    seen = side.seen(side.private)
    assert [one for one in seen if one.startswith("answer")] == ["answer one", "answer two"]
    said = rows(scene.world.home, "SELECT count(*) FROM inbox WHERE fate = 'answered'")
    assert said == [(5,)]
    if side.fills_back:
        side.say(side.private, "/why")
        await scene.sees(side.private, "did not come live")


async def test_a_stranger_gets_a_code_and_is_let_in_by_it(scene: Scene) -> None:
    side = scene.side
    section = side.section()
    section["allow"] = []
    scene.world.configure(
        access={"owners": [], "pairing": True},
        platforms={side.name: section, "http": {"enabled": True, "port": 0, "key": "${TIDINGS_HTTP_KEY}"}},
    )
    await scene.start()
    side.say(side.private, "hello?")
    (told,) = await scene.sees(side.private, "Give my owner this code")
    assert scene.model.calls == []
    assert "pair approve" in told
