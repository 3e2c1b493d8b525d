"""A daemon that hands over to another one: nothing is lost, nothing is doubled, and what fails changes nothing."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.succession import wire
from tests.counterparts.model_script import Step
from tests.crash.conftest import World
from tests.crash.harness import Client, DaemonProcess, private, rows


async def told(daemon: DaemonProcess, event: str) -> None:
    """Wait for a line of the log."""
    async with asyncio.timeout(30):
        while not daemon.told(event):
            await asyncio.sleep(0.02)


async def ended(daemon: DaemonProcess, seconds: float = 40.0) -> int:
    """Wait for its end by itself."""
    return await daemon.dead(seconds)


class Talk:
    """Somebody who writes all the time, in several conversations, and sends again what found no open ear."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: list[str] = []
        self._task = asyncio.create_task(self._run(), name="talk")

    async def _run(self) -> None:
        while True:
            name = f"m{len(self.sent)}"
            while not await self.client.post(f"message {name}", name, session=f"s{len(self.sent) % 5}"):
                await asyncio.sleep(0.01)
            self.sent.append(name)
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def answered_once(world: World, client: Client, names: list[str], *, killed: bool = False) -> None:
    """Every message has one answer, and the model was asked once for each; a turn in which its process was `killed`
    is taken up again, which may ask the model again."""
    for name in names:
        answer = await client.settled(name)
        assert answer["fate"] == "answered", (name, answer)
    asked = [call.json()["messages"][-1]["content"] for call in world.model.calls]
    times = {name: sum(text.endswith(f"message {name}") for text in asked) for name in names}
    assert min(times.values()) == 1
    again = [name for name, count in times.items() if count > 1]
    assert len(again) <= (5 if killed else 0), again  # one a conversation at most
    finals = "SELECT count(*) FROM inbox i JOIN outbox o ON o.turn_id = i.turn_id AND o.kind = 'final' GROUP BY i.id"
    counts = [row[0] for row in rows(world.home, finals)]
    assert set(counts) == {1}
    said: dict[str, list[str]] = {}
    for session, role in rows(world.home, "SELECT session_id, role FROM transcript WHERE active = 1 ORDER BY id"):
        said.setdefault(session, []).append(role)
    for roles in said.values():  # one turn after the other, also where a dead process had begun the first of them
        assert roles == ["user", "assistant"] * (len(roles) // 2)
    assert len(counts) >= len(names)


async def test_a_successor_takes_over_while_people_write(world: World) -> None:
    old, client = await world.start()
    talk = Talk(client)
    await asyncio.sleep(0.5)
    new = world.successor()
    await told(new, "succession.serving")
    await asyncio.sleep(0.5)
    await talk.stop()
    assert await ended(old) == 0
    assert new.process.poll() is None
    await answered_once(world, client, talk.sent)
    assert len(talk.sent) > 10
    for daemon in (old, new):
        assert not daemon.told("event.orphan")
        assert not daemon.told("event.forgotten")
    in_order = rows(world.home, "SELECT key, id, turn_id FROM inbox ORDER BY id")
    turns = dict(rows(world.home, "SELECT id, seq FROM turns"))
    for key in {row[0] for row in in_order}:
        seqs = [turns[row[2]] for row in in_order if row[0] == key]
        assert seqs == sorted(seqs), "the order within a conversation is kept"
    assert await new.terminate() == 0


async def test_a_long_turn_ends_where_it_began_and_what_follows_waits_for_it(world: World) -> None:
    long = Step(when="long", text="the long answer", chunks=4, hold_after=1)
    world.model.script(long, Step(when="next", text="then"))
    old, client = await world.start()
    await client.post("long", "m1", session="a")
    await world.model.wait_calls(1)
    new = world.successor()
    await told(new, "succession.serving")
    await client.post("next", "m2", session="a")
    await client.post("other", "m3", session="b")
    assert (await client.settled("m3"))["fate"] == "answered", "other conversations go on"
    assert old.process.poll() is None
    assert len(world.model.calls) == 2, "the next message of that conversation waits"
    world.model.release()
    assert (await client.settled("m1"))["text"] == "the long answer"
    assert (await client.settled("m2"))["text"] == "then"
    assert await ended(old) == 0
    assert await new.terminate() == 0
    roles = rows(world.home, "SELECT role, content FROM transcript WHERE session_id = (SELECT min(session_id) FROM"
                 " transcript WHERE content = 'long') ORDER BY id")
    assert [content for _, content in roles] == ["long", "the long answer", "next", "then"]


async def test_a_second_successor_is_refused_and_a_second_daemon_too(world: World) -> None:
    old, client = await world.start()
    sock = await asyncio.to_thread(wire.connect, world.home, 5.0)
    line = wire.Line(sock)
    await line.send({"op": "hello", "owner": "daemon:x:1:1:1:b:t", "pid": 1})
    assert (await line.read(5.0))["op"] == "consent"
    other = world.successor()
    assert await other.dead() == 1
    (why,) = other.told("daemon.cannot_start")
    assert why["reason"] == "a hand-over is under way already"
    plain = world.spawn()
    assert await plain.dead() == 1
    line.close()
    await told(old, "succession.taken_back")
    await client.post("hello", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"
    third = world.successor()
    await told(third, "succession.serving")
    await client.post("hello again", "m2")  # the answer closes the connection to the old one
    assert await ended(old) == 0
    assert await third.terminate() == 0


@pytest.mark.parametrize("point", ["consent", "store", "took", "signed"])
async def test_a_successor_that_dies_at_any_step_leaves_the_old_one_at_work(world: World, point: str) -> None:
    old, client = await world.start()
    talk = Talk(client)
    await asyncio.sleep(0.2)
    new = world.successor(point)
    assert await new.dead() == -signal.SIGKILL
    await told(old, "succession.taken_back")
    await asyncio.sleep(0.3)
    await talk.stop()
    await answered_once(world, client, talk.sent)
    assert old.process.poll() is None
    assert await old.terminate() == 0


@pytest.mark.parametrize("point", ["consented", "gave", "left", "drains"])
async def test_an_old_one_that_dies_at_any_step_is_replaced(world: World, point: str) -> None:
    old = world.spawn(point)
    await old.ready()
    client = world.client(old)
    talk = Talk(client)
    await asyncio.sleep(0.2)
    new = world.successor()
    assert await old.dead() == -signal.SIGKILL
    await told(new, "succession.serving")
    await asyncio.sleep(0.3)
    await talk.stop()
    await answered_once(world, client, talk.sent, killed=True)
    assert await new.terminate() == 0


async def test_a_successor_that_cannot_is_told_and_changes_nothing(world: World, tmp_path: Path) -> None:
    old, client = await world.start()
    await client.post("hello", "m1")
    await client.settled("m1")
    with sqlite3.connect(world.home / "tidings.db") as db:
        db.execute("UPDATE inbox SET payload = '{}'")
    new = world.successor()
    assert await new.dead() == 1
    assert "the rehearsal has failed: event 1: " in new.told("daemon.cannot_start")[0]["reason"]
    world.config.write_text("chat: {busy: sometimes}")
    broken = world.successor()
    assert await broken.dead() == 78
    await client.post("still there?", "m2")
    assert (await client.settled("m2"))["fate"] == "answered"
    assert await old.terminate() == 0


def upgrade(world: World, environment: Path) -> subprocess.CompletedProcess[str]:
    """`tidings upgrade`, as a person runs it."""
    return subprocess.run(
        [sys.executable, "-m", "gateway", "upgrade", "--to", str(environment), "--config", str(world.config)],
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2], env=None, check=False,
    )  # fmt: skip


async def test_the_command_upgrades_and_tells_how_it_went(world: World, tmp_path: Path) -> None:
    environment = tmp_path / "environment" / "bin"
    environment.mkdir(parents=True)
    command = environment / "tidings"
    command.write_text(f'#!/bin/sh\ncd {Path(__file__).parents[2]} && exec {sys.executable} -m gateway "$@"\n')
    command.chmod(0o755)
    nobody = await asyncio.to_thread(upgrade, world, environment.parent)
    assert nobody.returncode == 1
    assert "no daemon that can hand over" in nobody.stderr
    old, client = await world.start()
    done = await asyncio.to_thread(upgrade, world, environment.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("upgraded: process ")
    pid = int(done.stdout.split()[2])
    assert await ended(old) == 0
    await client.post("hello", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"
    command.write_text("#!/bin/sh\nexit 3\n")
    failed = await asyncio.to_thread(upgrade, world, environment.parent)
    assert failed.returncode == 1
    assert "the running daemon goes on: the new process has ended with code 3" in failed.stderr
    stopped = await asyncio.to_thread(
        lambda: subprocess.run(
            [sys.executable, "-m", "gateway", "stop", "--config", str(world.config)],
            capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2], check=False,
            env={**private(world.config), "PATH": "/usr/bin"},
        )
    )  # fmt: skip
    assert stopped.returncode == 0, stopped.stderr
    assert str(pid) in stopped.stdout, "the commands find the new process"
