"""`tidings reload`, `restart` and `stop` beside a real daemon, and its log file while it is written."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections import Counter
from pathlib import Path

from tests.counterparts.model_script import Step
from tests.crash.conftest import World
from tests.crash.harness import KEY
from tests.crash.test_reload import begun


async def tidings(*args: str) -> tuple[int, str, str]:
    """The command, as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "MODEL_API_KEY": "k" * 20, "TIDINGS_HTTP_KEY": KEY},
        cwd=Path(__file__).parents[2],
    )
    async with asyncio.timeout(60):
        said, told = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode(), told.decode()


async def test_reload_tells_what_was_taken_over_or_what_is_wrong(world: World) -> None:
    daemon, _ = await begun(world)
    world.configure(log={"level": "info"})
    code, said, told = await tidings("reload", "--config", str(world.config))
    assert (code, told) == (0, "")
    assert said == "Taken over: log.level.\n"
    world.configure(log={"level": "info"}, chat={"busy": "sometimes"})
    code, said, told = await tidings("reload", "--config", str(world.config))
    assert code == 78
    assert "config.yaml:1: chat.busy" in told
    assert "goes on with what it had" in told
    code, said, told = await tidings("reload", "--json", "--config", str(world.config))
    assert code == 78
    assert json.loads(said)["pid"] == daemon.process.pid
    assert json.loads(said)["faults"]
    world.config.write_text("home: [")  # not even its home can be read: the daemon beside the file is meant
    code, _, told = await tidings("reload", "--config", str(world.config))
    assert code == 78
    assert stat.S_IMODE((world.home / "reload.json").stat().st_mode) == 0o600
    assert daemon.process.poll() is None


async def test_stop_drains_and_waits_for_the_end(world: World) -> None:
    world.model.script(Step(when="slow", text="the end", chunks=4, hold_after=1))
    daemon, client = await begun(world)
    await client.post("slow", "m1")
    await world.model.wait_calls(1)
    code, _, told = await tidings("stop", "--wait", "0.3", "--config", str(world.config))
    assert code == 1
    assert "has not ended within 0.3 s" in told
    assert daemon.process.poll() is None, "a turn runs: it may end"
    world.model.release()
    assert await daemon.dead() == 0
    code, said, _ = await tidings("stop", "--config", str(world.config))
    assert (code, said) == (0, f"no daemon runs over {world.home}\n")
    for command in ("restart", "reload"):
        code, _, told = await tidings(command, "--config", str(world.config))
        assert (code, told) == (1, f"tidings: no daemon runs over {world.home}\n")


async def test_restart_ends_with_75_and_waits_for_the_next(world: World) -> None:
    daemon, _ = await begun(world)
    asked = asyncio.create_task(tidings("restart", "--config", str(world.config)), name="restart")
    assert await daemon.dead() == 75
    following, client = await begun(world)
    code, said, _ = await asked
    assert (code, said) == (
        0,
        f"restarted: process {daemon.process.pid} has ended, process {following.process.pid} runs\n",
    )
    await client.post("hello", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"
    code, _, told = await tidings("restart", "--back", "0.2", "--config", str(world.config))
    assert code == 1
    assert "nothing has started it again" in told
    assert following.process.wait(5) == 75


async def test_the_log_file_is_turned_over_and_moved_away_under_writes_and_no_line_is_lost(world: World) -> None:
    path = world.home / "logs" / "tidings.log"
    log = {"level": "debug", "file": "logs/tidings.log", "max_bytes": 10_000, "keep": 500}
    world.configure(log=log)
    daemon, client = await begun(world)
    for number in range(40):
        await client.post(f"message {number}", f"m{number}", session=f"s{number % 3}")
        if number == 10:
            path.rename(path.with_name("taken-away"))
        if number == 25:
            path.rename(path.with_name("taken-too"))
            code, said, _ = await tidings("reload", "--config", str(world.config))
            assert (code, said) == (0, "Nothing was to be taken over.\n")
    for number in range(40):
        assert (await client.settled(f"m{number}"))["fate"] == "answered"
    assert await daemon.terminate() == 0
    files = list(path.parent.iterdir())
    assert len(files) > 4
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)
    assert all(one.stat().st_size <= 10_000 for one in files)
    in_files = Counter(line for one in files for line in one.read_text().splitlines())
    on_stderr = Counter(daemon.log.read_text().splitlines())
    assert list((on_stderr - in_files).elements()) == [], "not in the files"
    assert list((in_files - on_stderr).elements()) == [], "not on standard error"
    assert KEY not in "".join(in_files)


async def test_an_owner_drains_the_daemon_from_a_chat_and_nobody_else(world: World) -> None:
    world.configure(access={"owners": [], "pairing": False})
    daemon, client = await begun(world)
    await client.post("/drain", "m1")
    assert (await client.settled("m1"))["fate"] == "refused"
    assert await daemon.terminate() == 0
    world.configure()
    world.model.script(Step(when="slow", text="the end of it", chunks=4, hold_after=1))
    daemon, client = await begun(world)
    await client.post("slow", "m2", session="a")
    await world.model.wait_calls(1)
    await client.post("/drain", "m3", session="b")
    assert "finish what runs" in (await client.settled("m3"))["text"]
    await asyncio.sleep(0.5)
    world.model.release()
    assert await daemon.dead() == 0, "it was asked to end: nothing starts it again by itself"
    daemon, client = await begun(world)
    assert (await client.settled("m2"))["text"] == "the end of it"
    assert len(world.model.calls) == 1, "the turn was finished, not taken up again"
    assert await daemon.terminate() == 0
