"""How answers look: streamed into one message, completed after a crash, long, with files, in code, never pinging."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.counterparts.model_script import Step
from tests.crash.harness import rows
from tests.e2e.test_conversations import Scene, scene

__all__ = ["scene"]

WORDS = " ".join(f"word{number}" for number in range(60))


async def test_a_streamed_answer_is_one_message(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    scene.model.script(Step(text=WORDS, chunks=12, delay=0.4))
    side.say(side.private, "tell me much")
    await scene.sees(side.private, "word59")
    side.say(side.private, "/whoami")
    seen = await scene.sees(side.private, side.owner())
    assert seen[0] == WORDS
    assert len(seen) == 2
    first, last = side.edits(side.private)
    assert first >= 2, "the answer did not grow"
    assert last == 0


async def test_P8_it_is_shown_that_a_turn_runs_and_never_after_it(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    scene.model.script(Step(text="It took a while.", hold_after=0))
    asked = side.say(side.room, "take your time", mention=True)  # Slack shows it in threads only, and this is one
    await side.until(lambda: side.signs() >= 1, 2.0)
    await side.until(lambda: side.signs() >= 2, 8.0)  # it fades by itself: it is shown again
    scene.model.release()
    await scene.sees(side.answers_to(side.room, asked), "It took a while.")
    shown = side.signs()
    await asyncio.sleep(5.0)  # longer than the pause between two signs
    assert side.signs() == shown


@pytest.mark.parametrize("point", ["mid-stream:9", "sent-unrecorded"])
async def test_a_draft_that_a_crash_has_left_is_completed_not_doubled(scene: Scene, point: str) -> None:
    side = scene.side
    daemon = await scene.start(point)
    scene.model.script(Step(text=WORDS, chunks=12, delay=0.4, times=3))
    side.say(side.private, "tell me much")
    assert await daemon.dead(40) == -9, "the point was not reached"
    await scene.start()
    await scene.sees(side.private, "word59")
    side.say(side.private, "/whoami")
    seen = await scene.sees(side.private, side.owner())
    assert [one for one in seen if "word0" in one] == [WORDS]


async def test_a_long_answer_arrives_whole_and_in_order(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    code = "\n".join(f"line {number:04d} = {'x' * 40}" for number in range(200))
    scene.model.script(f"Here it is:\n\n```py\n{code}\n```\n\nThat was all.")
    side.say(side.private, "show me the code")
    await scene.sees(side.private, "That was all.")
    seen = "\n".join(side.seen(side.private))
    places = [seen.index(f"line {number:04d} = ") for number in range(200)]
    assert places == sorted(places)
    assert len(side.seen(side.private)) <= 8


async def test_nasty_markup_arrives_and_nobody_is_called(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    texts = [
        "file_name is a_b and **antique_identifier** and a lone *",
        "a < b && c > d, [x](, `unclosed",
        "`C:\\\\dir\\\\b` and ```print('`')```",
        "@everyone and @here, <!channel> <!here> <@U0001> <@&1> <@1>, hi @ann",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ]
    for number, text in enumerate(texts):
        scene.model.script(f"{text} END{number}")
        side.say(side.private, f"question {number}")
        await scene.sees(side.private, f"END{number}")
    assert len(side.seen(side.private)) == len(texts)
    unsent = "SELECT count(*) FROM chunks WHERE state <> 'sent'"
    await side.until(lambda: rows(scene.world.home, unsent) == [(0,)])


async def test_a_file_that_the_agent_sends_arrives_once(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    scene.world.work.mkdir(exist_ok=True)
    (scene.world.work / "report.txt").write_bytes(b"all is well\n")
    call = {"name": "send_message", "id": "c1", "arguments": json.dumps({"files": ["report.txt"]})}
    scene.model.script(Step(tool_calls=(call,)), "There it is.")
    side.say(side.private, "send me the report")
    await scene.sees(side.private, "There it is.")
    await side.until(lambda: side.files(side.private))
    assert side.files(side.private) == [("report.txt", b"all is well\n")]
