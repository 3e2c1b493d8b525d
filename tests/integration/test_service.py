"""The command of the unit as a process, with this test in the place of systemd."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.lifecycle import longest_stop
from gateway.units import Scope, UnitSpec, render


class Manager:
    """What systemd does for `Type=notify`: a socket that hears, variables, a command without a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "state of 100%"
        self.home.mkdir(parents=True, mode=0o700)
        self.configure(drain_seconds=1.0)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        self._socket.settimeout(30)

    def configure(self, **limits: object) -> None:
        (self.home / "script.json").write_text("[]")
        config = {
            "model": {"provider": "scripted", "script": str(self.home / "script.json")},
            "tools": {"root": str(self.folder / "work")},
            "limits": limits,
            "platforms": {"http": {"enabled": False, "port": 0}},
        }
        (self.home / "config.yaml").write_text(json.dumps(config))

    def start(self) -> subprocess.Popen[str]:
        unit = render(
            UnitSpec(
                scope=Scope.USER,
                name="tidings",
                python=Path(sys.executable),
                config=self.home / "config.yaml",
                home=self.home,
                root=self.folder / "work",
                environment=self.home / "environment",
                stop_seconds=longest_stop(1.0),
            )
        )
        lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
        plain = {key: value.replace("%%", "%") for key, value in lines.items()}
        program, *args = shlex.split(plain["ExecStart"])
        given = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "200000"}
        own = dict(word.split("=", 1) for word in shlex.split(plain["Environment"]))
        return subprocess.Popen(
            [program.removeprefix(":"), *args],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **own, **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def hear(self) -> str:
        """The next message."""
        return self._socket.recv(4096).decode()

    def hear_until(self, begin: str) -> str:
        """The next message that begins so; signs of life before it are passed over."""
        while not (said := self.hear()).startswith(begin):
            assert said in ("WATCHDOG=1",), said
        return said

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path)
    yield found
    found.close()


def test_systemd_hears_ready_signs_of_life_and_how_long_the_stop_may_take(manager: Manager) -> None:
    process = manager.start()
    try:
        assert manager.hear_until("READY=1") == "READY=1\nSTATUS=serving nothing but health"
        for _ in range(3):
            assert manager.hear() == "WATCHDOG=1"
        process.terminate()
        assert manager.hear_until("STOPPING=1").endswith(f"EXTEND_TIMEOUT_USEC={longest_stop(1.0) * 1e6:.0f}")
        log = process.communicate(timeout=30)[1]
        assert process.returncode == 0, log
    finally:
        process.kill()
        process.communicate()


def test_the_watchdogs_signal_leaves_the_stacks(manager: Manager) -> None:
    process = manager.start()
    try:
        manager.hear_until("READY=1")
        process.send_signal(signal.SIGABRT)
        log = process.communicate(timeout=30)[1]
        assert process.returncode == -signal.SIGABRT
        assert "Fatal Python error: Aborted" in log
        assert "asyncio" in log
    finally:
        process.kill()
        process.communicate()


def test_a_configuration_that_cannot_be_used_is_not_tried_again(manager: Manager) -> None:
    manager.configure(drain_second=1.0)
    process = manager.start()
    log = process.communicate(timeout=30)[1]
    assert process.returncode == 78
    assert "limits.drain_second" in log
