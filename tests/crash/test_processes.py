"""Several processes, stopped processes, stale locks, a foreign hand on the database (B06, B54, B59, B64, B67)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from tests.counterparts.model_script import Step
from tests.crash.conftest import World
from tests.crash.harness import rows
from tests.crash.test_kill import check_ledger


async def test_stopped_past_the_expiry_of_its_lease_a_turn_still_has_one_answer(world: World) -> None:
    world.model.script(
        Step(when="work", text="one answer", chunks=4, hold_after=2, times=1), Step(text="one answer", times=5)
    )
    daemon, client = await world.start(TEST_LEASE_TTL="2")
    await client.post("work", "m1")
    await world.model.wait_calls(1)
    await asyncio.sleep(0.3)
    daemon.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(3.0)
    world.model.release()
    daemon.process.send_signal(signal.SIGCONT)
    found = await client.settled("m1")
    assert found["fate"] == "answered"
    assert found["text"] == "one answer"
    assert await daemon.terminate() == 0
    check_ledger(world.home, 1)


async def test_B59_of_two_daemons_on_one_home_the_second_refuses_and_names_the_first(world: World) -> None:
    first, client = await world.start()
    second = world.spawn()
    assert await second.dead() == 1
    (line,) = second.told("daemon.cannot_start")
    assert str(first.process.pid) in line["reason"]
    await client.post("still there?", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"


async def test_B59_two_starts_at_the_same_instant_give_one_daemon(world: World) -> None:
    both = [world.spawn(), world.spawn()]
    async with asyncio.timeout(20):
        while not any(daemon.process.poll() is not None for daemon in both):
            await asyncio.sleep(0.05)
    (winner,) = [daemon for daemon in both if daemon.process.poll() is None]
    await winner.ready()


async def test_B59_a_recycled_pid_in_the_lock_keeps_nobody_out(world: World) -> None:
    daemon, _ = await world.start()
    daemon.kill()
    lock = world.home / "locks" / "daemon.lock"
    note = json.loads(lock.read_text())
    lock.write_text(json.dumps({**note, "pid": os.getpid()}))  # a living process, but not the daemon
    _, client = await world.start()
    await client.post("hello", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"


async def test_B64_a_foreign_lock_of_five_seconds_stalls_nothing_and_fails_nothing(world: World) -> None:
    daemon, client = await world.start()
    await client.post("first", "m0")
    await client.settled("m0")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys, time\n"
            "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "db.execute('PRAGMA busy_timeout = 5000')\n"
            "db.execute('BEGIN IMMEDIATE')\n"
            "print('held', flush=True)\n"
            "time.sleep(5)\n"
            "db.execute('COMMIT')\n",
            str(world.home / "tidings.db"),
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
    posts = [asyncio.create_task(client.post(f"during {n}", f"m{n}", session=f"s{n}")) for n in range(1, 6)]
    slowest = 0.0
    for _ in range(40):  # the loop answers all the while
        began = time.monotonic()
        status, _ = await client.raw("/healthz")
        slowest = max(slowest, time.monotonic() - began)
        assert status == 200
        await asyncio.sleep(0.1)
    holder.wait(10)
    holder.stdout.close()
    assert all(await asyncio.gather(*posts))
    for number in range(1, 6):
        assert (await client.settled(f"m{number}"))["fate"] == "answered"
    _, metrics = await client.raw("/metrics")
    assert "tidings_loop_lag_seconds_count" in metrics
    over = _above(metrics, "tidings_loop_lag_seconds", 0.05)
    assert over <= 1, f"the event loop stalled {over} times for more than 50 ms (slowest request {slowest:.3f} s)"
    assert await daemon.terminate() == 0
    check_ledger(world.home, 6)


def _above(metrics: str, name: str, bound: float) -> int:
    """How many samples of a histogram were above `bound`."""
    count = below = 0.0
    for line in metrics.splitlines():
        if line.startswith(f"{name}_count"):
            count = float(line.split()[-1])
        elif line.startswith(f'{name}_bucket{{le="{bound}"}}'):
            below = float(line.split()[-1])
    return int(count - below)


async def test_B54_stop_frees_a_session_whose_model_never_answers(world: World) -> None:
    world.model.script(Step(when="hang", silent=True))
    _, client = await world.start()
    await client.post("hang", "m1")
    await world.model.wait_calls(1)
    await client.post("/stop", "m2")
    assert (await client.settled("m1", 10))["fate"] == "cancelled"
    assert (await client.settled("m2", 10))["fate"] == "command"
    await client.post("hello", "m3")
    assert (await client.settled("m3"))["fate"] == "answered"


async def test_no_child_process_outlives_the_daemon(world: World) -> None:
    call = {"name": "terminal", "arguments": {"command": "echo $$ > pid; sleep 300"}, "id": "c1"}
    world.model.script(Step(tool_calls=(call,)), Step(text="ended", times=3))
    daemon, client = await world.start()
    await client.post("run it", "m1")
    pid_file = world.work / "pid"
    async with asyncio.timeout(15):
        while not pid_file.exists() or not pid_file.read_text().strip():
            await asyncio.sleep(0.05)
    pid = int(pid_file.read_text())
    daemon.kill()
    async with asyncio.timeout(10):
        while os.path.exists(f"/proc/{pid}"):
            await asyncio.sleep(0.05)
    daemon, client = await world.start()
    assert (await client.settled("m1"))["text"].startswith("ended")
    assert rows(world.home, "SELECT tool_status FROM transcript WHERE role = 'tool'") == [("unknown",)]


async def test_the_database_is_sound_after_many_kills_at_random_moments(world: World) -> None:
    sent = 0
    for round_number in range(4):
        daemon, client = await world.start()
        for _ in range(5):
            sent += 1
            await client.post(f"question {sent}", f"m{sent}", session=f"s{sent % 3}")
        await asyncio.sleep(0.013 * (round_number + 1))
        daemon.kill()
        daemon, client = await world.start()  # an event that has ended the process twice would be given up
        for number in range(1, sent + 1):
            await client.settled(f"m{number}")
        daemon.kill()
    daemon, client = await world.start()
    for number in range(1, sent + 1):
        assert (await client.settled(f"m{number}"))["fate"] == "answered"
    assert await daemon.terminate() == 0
    with sqlite3.connect(world.home / "tidings.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check_ledger(world.home, sent)


async def test_a_port_that_is_taken_is_told_in_one_line(world: World) -> None:
    first, _ = await world.start()
    other = World(world.home.parent / "other" / "home", world.model, world._session)
    http = {"enabled": True, "host": "127.0.0.1", "port": first.port, "key": "${TIDINGS_HTTP_KEY}"}
    other.configure(platforms={"http": http})
    second = other.spawn()
    assert await second.dead() == 1
    second.kill()
    (line,) = second.told("daemon.cannot_start")
    assert f"127.0.0.1:{first.port}" in line["reason"]
    assert "exception" not in line
