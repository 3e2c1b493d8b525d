"""A changed configuration under a running daemon: taken over whole, or not at all."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

from tests.crash.conftest import World
from tests.crash.harness import Client, DaemonProcess


async def told(daemon: DaemonProcess, event: str, count: int = 1) -> dict[str, Any]:
    """Wait for the `count`-th line of an event."""
    async with asyncio.timeout(20):
        while len(found := daemon.told(event)) < count:
            assert daemon.process.poll() is None, daemon.log.read_text()[-3000:]
            await asyncio.sleep(0.02)
    return found[count - 1]


async def begun(world: World) -> tuple[DaemonProcess, Client]:
    """A daemon that serves."""
    daemon, client = await world.start()
    await told(daemon, "adapter.connected")
    return daemon, client


async def test_SIGHUP_takes_over_what_is_safe_and_names_what_is_not(world: World) -> None:
    world.configure(access={"owners": [], "pairing": False}, log={"level": "debug"})
    daemon, client = await begun(world)
    await client.post("/restart", "m1")
    assert (await client.settled("m1"))["fate"] == "refused", "not an owner yet"
    world.configure(
        access={"owners": ["http:default"], "pairing": False},
        log={"level": "info"},
        limits={"message_chars": 2000},
        platforms={"http": {"enabled": True, "host": "127.0.0.1", "port": 9, "key": "${TIDINGS_HTTP_KEY}"}},
    )
    config = json.loads(world.config.read_text())
    world.config.write_text(json.dumps({**config, "home": str(world.home / "elsewhere")}))
    daemon.process.send_signal(signal.SIGHUP)
    line = await told(daemon, "config.reloaded")
    assert line["changed"] == ["access.owners", "limits.message_chars", "log.level"]
    assert line["needs_restart"] == ["home", "platforms.http.port"]
    assert line["platforms"] == []
    await client.post("/whoami", "m2")
    assert "owner" in (await client.settled("m2"))["text"]
    await client.post("x" * 2001, "m3")
    assert (await client.settled("m3"))["fate"] == "refused"
    daemon.process.send_signal(signal.SIGHUP)
    again = await told(daemon, "config.reloaded", 2)
    assert again["changed"] == []
    assert again["needs_restart"] == ["home", "platforms.http.port"], "said again for as long as it is so"
    assert await daemon.terminate() == 0


async def test_a_faulty_file_leaves_the_daemon_exactly_as_it_is(world: World) -> None:
    daemon, client = await begun(world)
    config = json.loads(world.config.read_text())
    config["log"]["level"] = "error"
    config["chat"] = {"busy": "sometimes", "nmes": ["tidings"]}
    world.config.write_text(json.dumps(config, indent=1))
    daemon.process.send_signal(signal.SIGHUP)
    line = await told(daemon, "config.not_reloaded")
    assert len(line["faults"]) == 2
    assert all(fault.startswith("config.yaml:") for fault in line["faults"])
    assert any("chat.busy" in fault for fault in line["faults"])
    world.config.write_text("{")
    daemon.process.send_signal(signal.SIGHUP)
    await told(daemon, "config.not_reloaded", 2)
    world.config.unlink()
    daemon.process.send_signal(signal.SIGHUP)
    await told(daemon, "config.not_reloaded", 3)
    await client.post("hello", "m1")
    assert (await client.settled("m1"))["fate"] == "answered"
    assert daemon.told("event.settled"), "the level of the log is what it was"
    assert await daemon.terminate() == 0


async def test_a_running_turn_is_not_disturbed_and_the_next_one_has_the_new_model(world: World) -> None:
    from tests.counterparts.model_script import Step

    world.model.script(Step(when="slow", text="the end", chunks=4, hold_after=1))
    daemon, client = await begun(world)
    await client.post("slow", "m1", session="a")
    await world.model.wait_calls(1)
    before = json.loads(world.config.read_text())["model"]
    world.configure(model={**before, "name": "other"}, models={"old": before})
    daemon.process.send_signal(signal.SIGHUP)
    line = await told(daemon, "config.reloaded")
    assert "model.name" in line["changed"]
    world.model.release()
    assert (await client.settled("m1"))["text"] == "the end"
    await client.post("again", "m2", session="a")
    await client.settled("m2")
    await client.post("new", "m3", session="b")
    await client.settled("m3")
    models = [call.json()["model"] for call in world.model.calls]
    assert models == ["scripted", "scripted", "other"], "a begun session keeps its model while that is configured"
    world.configure(model={**before, "name": "other"})
    daemon.process.send_signal(signal.SIGHUP)
    await told(daemon, "config.reloaded", 2)
    await client.post("once more", "m4", session="a")
    await client.settled("m4")
    assert world.model.calls[-1].json()["model"] == "other"
    boundary = daemon.told("prompt.frozen")[-1]
    assert boundary["reason"] == "model changed from scripted to other", "the change is declared, with its reason"
    assert await daemon.terminate() == 0


async def test_an_owner_reloads_from_a_chat_and_nobody_else(world: World) -> None:
    daemon, client = await begun(world)
    world.configure(log={"level": "info"})
    await client.post("/reload", "m1")
    answer = await client.settled("m1")
    assert answer["fate"] == "command"
    assert answer["text"] == "Taken over: log.level."
    world.config.write_text("nonsense: [")
    await client.post("/reload", "m2")
    assert "Nothing was taken over" in (await client.settled("m2"))["text"]
    world.configure(access={"owners": [], "pairing": False})
    await client.post("/reload", "m3")
    await client.settled("m3")
    await client.post("/reload", "m4")
    assert (await client.settled("m4"))["fate"] == "refused"
    assert await daemon.terminate() == 0


async def test_a_storm_of_reloads_loses_no_message_and_makes_none_twice(world: World) -> None:
    daemon, client = await begun(world)
    for number in range(40):
        world.configure(log={"level": "debug" if number % 2 else "info"}, limits={"queue_per_chat": 50 + number})
        if number % 5 == 4:
            world.config.write_text("nonsense: [")
        daemon.process.send_signal(signal.SIGHUP)
        assert await client.post(f"message {number}", f"m{number}", session=f"s{number % 4}")
    for number in range(40):
        assert (await client.settled(f"m{number}"))["fate"] == "answered"
    assert await daemon.terminate() == 0
    assert len(world.model.calls) == 40
    assert not daemon.told("config.reload_defect")
    assert not daemon.told("adapter.waiting")
