"""A restart that was asked for in a chat (B57, B58)."""

from __future__ import annotations

from tests.counterparts.model_script import Step
from tests.crash.conftest import World
from tests.crash.harness import rows


async def test_B58_a_restart_from_a_chat_blocks_on_nobody_and_is_answered_there_once(world: World) -> None:
    world.configure(limits={"drain_seconds": 0.5})
    world.model.script(Step(when="long", silent=True), Step(when="long", text="it went on", times=3))
    daemon, client = await world.start()
    await client.post("long work", "m1", session="b")
    await world.model.wait_calls(1)
    await client.post("/restart", "m2", session="a")
    assert await daemon.dead(20) == 75, "a service manager with Restart=on-failure must start it again"
    daemon, client = await world.start()
    assert (await client.settled("m2"))["fate"] == "command"
    assert (await client.settled("m1"))["text"] == "it went on"
    assert await daemon.terminate() == 0
    daemon, client = await world.start()
    assert await daemon.terminate() == 0
    back = rows(world.home, "SELECT chat, state FROM outbox WHERE id LIKE 'd-back-%'")
    assert len(back) == 1
    assert back[0][1] == "sent"


async def test_B57_a_restart_that_is_read_again_is_not_carried_out_again(world: World) -> None:
    daemon, client = await world.start()
    await client.post("/restart", "m1")
    assert await daemon.dead(20) == 75
    daemon, client = await world.start()
    await client.post("/restart", "m1")  # the platform delivers the same event once more
    await client.post("hello", "m2")
    assert (await client.settled("m2"))["fate"] == "answered"
    assert daemon.process.poll() is None


async def test_only_an_owner_restarts(world: World) -> None:
    world.configure(access={"owners": [], "pairing": False})
    daemon, client = await world.start()
    await client.post("/restart", "m1")
    assert (await client.settled("m1"))["fate"] == "refused"
    assert daemon.process.poll() is None
