"""A terminal that dies: its turn goes on, and the answer is shown when the conversation is taken up again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.counterparts.model_script import Step
from tests.crash.conftest import World
from tests.crash.harness import rows

ROOT = Path(__file__).parents[2]


def start_chat(world: World, *args: str) -> subprocess.Popen[bytes]:
    """`tidings chat` with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "gateway", "chat", "--config", str(world.config), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "MODEL_API_KEY": "k" * 20, "TIDINGS_HTTP_KEY": "k" * 20},
    )


async def finish(chat: subprocess.Popen[bytes], text: str = "") -> tuple[str, str]:
    """Say `text`, close the input, and wait for the end."""
    out, err = await asyncio.to_thread(chat.communicate, text.encode(), 60)
    return out.decode(), err.decode()


async def kill_in_mid_turn(world: World) -> None:
    """A terminal asks, and dies while the model is at work."""
    world.model.script(Step(when="long", silent=True), Step(when="long", text="it was worth the wait", times=3))
    chat = start_chat(world)
    assert chat.stdin is not None
    chat.stdin.write(b"a long question\n")
    chat.stdin.flush()
    await world.model.wait_calls(1)
    chat.send_signal(signal.SIGKILL)
    await finish(chat)
    assert rows(world.home, "SELECT fate FROM inbox") == [("running",)]


async def test_without_a_daemon_the_next_terminal_goes_on(world: World) -> None:
    await kill_in_mid_turn(world)
    chat = start_chat(world, "--continue")
    await asyncio.sleep(0)
    out, err = await finish(chat, "and a short one\n")
    assert "it was worth the wait" in out + err
    assert out.rstrip().endswith("and a short one")  # the model's echo
    assert rows(world.home, "SELECT fate FROM inbox ORDER BY id") == [("answered",), ("answered",)]
    assert rows(world.home, "SELECT DISTINCT state FROM outbox") == [("sent",)]


async def test_with_a_daemon_the_answer_waits_for_the_next_terminal(world: World) -> None:
    await kill_in_mid_turn(world)
    daemon, _ = await world.start()
    async with asyncio.timeout(20):
        while rows(world.home, "SELECT fate FROM inbox") != [("answered",)]:
            await asyncio.sleep(0.05)
    assert rows(world.home, "SELECT state FROM outbox") == [("ready",)]
    out, err = await finish(start_chat(world, "--continue"), "hello again\n")
    assert "it was worth the wait" in out + err
    assert rows(world.home, "SELECT DISTINCT state FROM outbox") == [("sent",)]
    assert await daemon.terminate() == 0


async def test_a_terminal_and_a_daemon_share_the_store_and_no_lock(world: World) -> None:
    _, client = await world.start()
    out, _ = await finish(start_chat(world), "one\ntwo\n")
    assert [line.split(": ", 1)[1] for line in out.split("\n") if line] == ["one", "two"]
    await client.post("three", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"


async def test_two_terminals_on_one_session_never_interleave(world: World) -> None:
    await finish(start_chat(world), "first\n")
    world.model.script(Step(when="slow", text="slow is done", hold_after=1), Step(text="quick is done", times=2))
    one = start_chat(world, "--continue")
    assert one.stdin is not None
    one.stdin.write(b"slow\n")
    one.stdin.flush()
    await world.model.wait_calls(2)
    two = start_chat(world, "--continue")
    assert two.stdin is not None
    two.stdin.write(b"quick\n")
    two.stdin.flush()
    async with asyncio.timeout(20):
        while len(rows(world.home, "SELECT id FROM inbox")) < 3:
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    assert rows(world.home, "SELECT count(*) FROM turns WHERE state = 'running'") == [(1,)]
    world.model.release()
    (_, _), (out, err) = await asyncio.gather(finish(one), finish(two))
    assert "quick is done" in out
    assert "elsewhere" in err or "elsewhere" in out, "the second is told who holds the session"
    turns = rows(world.home, "SELECT turn_id FROM transcript WHERE session_id = (SELECT id FROM sessions) ORDER BY id")
    order = [turn for (turn,) in turns]
    assert order == sorted(order, key=order.index), "rows of two turns are mixed"
