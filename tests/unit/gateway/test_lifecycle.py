"""Signals, the staged stop, the last resort, and what systemd is told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.lifecycle import ExitCode, LastResort, Notifier, Stage, StopRequest, longest_stop, shut_down, signals


async def test_a_signal_asks_and_a_second_one_hurries() -> None:
    stop = StopRequest()
    with signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.asked.wait(), 1)
        assert stop.reason == "SIGTERM received"
        assert stop.code is ExitCode.OK
        assert not stop.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(stop.hurry.wait(), 1)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_B58_a_restart_that_was_asked_for_ends_with_its_own_code() -> None:
    stop = StopRequest()
    stop.ask("asked in a chat", ExitCode.RESTART)
    stop.ask("SIGTERM received")
    assert stop.code == 75
    stop.ask("a bug", ExitCode.FAULT)
    assert stop.code == 1


async def test_stages_run_in_order_and_a_bad_one_does_not_keep_the_next() -> None:
    ran: list[str] = []

    async def good() -> None:
        ran.append("good")

    async def named() -> Sequence[str]:
        ran.append("named")
        return ["turn t_1"]

    async def broken() -> None:
        raise RuntimeError

    async def endless() -> None:
        await asyncio.Event().wait()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ran.append("tidied")

    left = await shut_down(
        [
            Stage(name="a", run=good, seconds=1),
            Stage(name="b", run=named, seconds=1),
            Stage(name="c", run=broken, seconds=1),
            Stage(name="d", run=endless, seconds=0.01),
            Stage(name="e", run=stubborn, seconds=0.01),
            Stage(name="f", run=good, seconds=1),
        ],
        StopRequest(),
    )
    assert ran == ["good", "named", "tidied", "good"]
    assert left == [
        "b: turn t_1", "c: it failed (RuntimeError)", "d: it took too long", "e: it took too long",
    ]  # fmt: skip


async def test_a_stage_that_swallows_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.lifecycle._CANCEL_WAIT", 0.01)
    free = asyncio.Event()

    async def deaf() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    assert await shut_down([Stage(name="x", run=deaf, seconds=0.01)], StopRequest()) == ["x: it does not end"]
    free.set()
    await asyncio.sleep(0)


async def test_hurry_shortens_a_long_stage() -> None:
    stop = StopRequest()
    begun = asyncio.Event()

    async def drain() -> None:
        begun.set()
        await asyncio.Event().wait()

    stages = [Stage(name="drain", run=drain, seconds=3600, hurried=0)]
    task = asyncio.create_task(shut_down(stages, stop), name="stop")
    await begun.wait()
    stop.ask("first")
    stop.ask("second")
    assert await asyncio.wait_for(task, 1) == ["drain: it took too long"]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)


def test_the_last_resort_dumps_the_stacks_and_ends_even_a_blocked_interpreter() -> None:
    done = run(
        "import time\nfrom gateway.lifecycle import LastResort\nLastResort(0.05).arm()\n"
        "def stuck_here():\n    time.sleep(30)\nstuck_here()"
    )
    assert done.returncode == 1
    assert "stuck_here" in done.stderr
    assert "Timeout" in done.stderr


def test_the_last_resort_ends_the_process_although_nobody_reads_standard_error() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(write, True)
    code = (
        "import time\nimport gateway.lifecycle as l\nl._LAST_RESORT_AFTER = 0.05\n"
        "l.LastResort(0.05).arm()\ntime.sleep(30)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=write)
    assert process.wait(timeout=20) == -signal.SIGALRM
    os.close(read)
    os.close(write)


def test_the_last_resort_can_be_called_off() -> None:
    last = LastResort(60)
    last.arm()
    last.disarm()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_third_signal_ends_the_process_at_once() -> None:
    done = run(
        "import asyncio, os, signal\nfrom gateway.lifecycle import StopRequest, signals\n"
        "async def main():\n    with signals(StopRequest()):\n"
        "        for _ in range(3):\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "            await asyncio.sleep(0.01)\n"
        "        await asyncio.sleep(30)\nasyncio.run(main())"
    )
    assert done.returncode == 1
    assert "File" in done.stderr


@pytest.fixture
def systemd(tmp_path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(1)
    return listener


async def test_systemd_is_told(systemd: socket.socket, tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier.from_environ(environ)
    assert environ == {}
    notifier.ready("2 platforms\nof 3")
    notifier.stopping()
    notifier.stopping(longest_stop(30.0))
    assert systemd.recv(100) == b"READY=1\nSTATUS=2 platforms of 3"
    assert systemd.recv(100) == b"STOPPING=1"
    assert systemd.recv(100) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=70000000"
    well = True
    task = asyncio.create_task(notifier.keep_alive(lambda: well), name="watchdog")
    await asyncio.sleep(0.03)
    well = False
    task.cancel()
    systemd.setblocking(False)
    assert systemd.recv(100) == b"WATCHDOG=1"
    systemd.close()


async def test_without_systemd_nothing_is_told_and_nothing_fails() -> None:
    notifier = Notifier.from_environ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"})
    notifier.ready()
    await notifier.keep_alive(lambda: True)
    Notifier("/nowhere/at/all").status("x")
    assert Notifier.from_environ({"WATCHDOG_USEC": "junk"}).watchdog_seconds is None


async def test_the_service_has_a_new_main_process(systemd: socket.socket, tmp_path: Path) -> None:
    place = str(systemd.getsockname())
    environ = {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier.from_environ(environ)
    assert notifier.environ() == {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "4000000"}
    notifier.hand_over(4711)
    assert systemd.recv(100) == b"MAINPID=4711"
    notifier.stopping(5)
    notifier.alive()
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):  # systemd would take it for the end of the service
        systemd.recv(100)
    systemd.close()
    assert Notifier(None).environ() == {}
