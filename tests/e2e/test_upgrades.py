"""An upgrade while people write on the platforms: every message has one answer, whenever it was sent."""

from __future__ import annotations

import asyncio

from tests.counterparts.model_script import Step
from tests.crash.harness import rows
from tests.e2e.test_conversations import Scene, scene

__all__ = ["scene"]


async def test_messages_at_any_moment_of_an_upgrade_are_answered_once(scene: Scene) -> None:
    side, count = scene.side, 0
    old = await scene.start()

    async def talk() -> None:
        nonlocal count
        while True:
            count += 1
            scene.model.script(Step(when=f"question {count}.", text=f"answer {count}."))
            side.say(side.private, f"question {count}.")
            await asyncio.sleep(0.3)  # platforms take some five messages in five seconds

    task = asyncio.create_task(talk(), name="talk")
    await asyncio.sleep(0.3)
    new = scene.world.successor(**side.env())
    await side.until(lambda: new.told("succession.serving"), 40.0)
    await asyncio.sleep(0.4)
    task.cancel()
    await scene.sees(side.private, *[f"answer {number}." for number in range(1, count + 1)])
    assert await old.dead(40.0) == 0
    seen = side.seen(side.private)
    for number in range(1, count + 1):
        assert sum(f"answer {number}." in one for one in seen) == 1, (number, seen)
    assert rows(scene.world.home, "SELECT fate FROM inbox WHERE fate IN ('waiting', 'running')") == []
    assert await new.terminate() == 0


async def test_a_turn_that_runs_across_an_upgrade_is_answered_by_the_new_process(scene: Scene) -> None:
    side = scene.side
    old = await scene.start()
    scene.model.script(Step(when="long", text="the beginning and the end of it", chunks=4, hold_after=2))
    side.say(side.private, "long")
    await scene.model.wait_calls(1)
    new = scene.world.successor(**side.env())
    await side.until(lambda: new.told("succession.serving"), 40.0)
    scene.model.script(Step(when="after", text="what came after"))
    side.say(side.private, "after")
    await asyncio.sleep(0.5)
    scene.model.release()
    await scene.sees(side.private, "the end of it", "what came after")
    seen = side.seen(side.private)
    assert len([one for one in seen if "the beginning" in one]) == 1, seen
    assert [index for index, one in enumerate(seen) if "the end of it" in one] < [
        index for index, one in enumerate(seen) if "what came after" in one
    ]
    assert await old.dead(40.0) == 0
    assert await new.terminate() == 0
