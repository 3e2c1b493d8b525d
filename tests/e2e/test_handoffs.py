"""A terminal session goes to a thread of each platform by the command line, and comes back (P7, B88)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.counterparts.model_script import Step
from tests.crash.harness import private, rows
from tests.e2e.test_conversations import Scene, scene

__all__ = ["scene"]


async def command(scene: Scene, *args: str, stdin: str = "") -> tuple[int, str, str]:
    """Run `tidings ARGS` beside the daemon."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *args, "--config", str(scene.world.config),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **private(scene.world.config), **scene.side.env()},
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def active(scene: Scene, session: str) -> list[Any]:
    """The places that lead to a session now."""
    return rows(scene.world.home, "SELECT key FROM bindings WHERE session_id = ? AND state = 'active'", (session,))


async def test_from_the_terminal_into_a_thread_and_back(scene: Scene) -> None:
    side, model = scene.side, scene.model
    await scene.start()
    model.script("I am here.")
    place = side.answers_to(side.forum, side.say(side.forum, "are you there?", mention=True))
    await scene.sees(place, "I am here.")
    model.script("Blue it is.")
    code, out, err = await command(scene, "chat", "-p", "my colour is blue")
    assert (code, out.strip()) == (0, "Blue it is."), err
    before = side.threads(side.forum)

    target = f"{side.name}:{side.chat_id(side.forum)}"
    code, _, err = await command(scene, "handoff", target, "--last")
    assert code == 1
    assert "--confirm" in err  # a room has other readers
    model.script(Step(text="Hello from the thread.", when="moved here just now"))
    code, out, err = await command(scene, "handoff", target, "--last", "--confirm", "--json")
    assert code == 0, err
    moved = json.loads(out)
    assert moved["state"] == "done"
    (thread,) = [one for one in side.threads(side.forum) if one not in before]
    await scene.sees(thread, "Hello from the thread.")
    assert len(active(scene, moved["session"])) == 1

    # a first human reply, without a mention where threads are ours, lands in the session that was handed off
    model.script("Blue, you said.")
    side.say(thread, "what is my colour?", who="ben", mention=side.name == "telegram")
    await scene.sees(thread, "Blue, you said.")
    assert "my colour is blue" in model.calls[-1].body.decode()

    code, _, err = await command(scene, "handoff", target, "--last", "--confirm")
    assert code == 1
    assert "has moved to" in err
    model.script("Back again, and blue.")
    code, out, err = await command(scene, "chat", "--continue", "-p", "and now?")
    assert (code, out.strip()) == (0, "Back again, and blue."), err
    assert len(active(scene, moved["session"])) == 1
    await scene.sees(thread, "goes on in the terminal")
    assert "what is my colour?" in model.calls[-1].body.decode()


async def test_without_a_daemon_nothing_is_left_behind(scene: Scene) -> None:
    daemon = await scene.start()
    scene.model.script("yes")
    await command(scene, "chat", "-p", "hello")
    assert await daemon.terminate() == 0
    code, _, err = await command(scene, "handoff", f"{scene.side.name}:1", "--last")
    assert code == 1
    assert "No daemon runs" in err
    assert rows(scene.world.home, "SELECT * FROM handoffs") == []


async def test_a_thread_that_is_not_there_is_found_out_before_anything_moves(scene: Scene) -> None:
    side = scene.side
    await scene.start()
    scene.model.script("I am here.", "Blue it is.", "Still here.")
    place = side.answers_to(side.forum, side.say(side.forum, "are you there?", mention=True))
    await scene.sees(place, "I am here.")
    await command(scene, "chat", "-p", "my colour is blue")
    target = f"{side.name}:{side.chat_id(side.forum)}:17"
    code, _, err = await command(scene, "handoff", target, "--last", "--confirm")
    assert code == 1
    assert "does not exist" in err, err
    assert (await command(scene, "chat", "--continue", "-p", "and now?"))[1].strip() == "Still here."
