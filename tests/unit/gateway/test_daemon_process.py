"""Finding the daemon from outside: nobody else is ever signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import locks
from gateway.daemon_process import NoDaemon, NotReachable, RunningDaemon, home_of, successor

HOLD = """
import sys, time
from pathlib import Path
from gateway import locks
lock = locks.daemon_lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `tmp_path`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def rewrite(home: Path, **changes: object) -> None:
    path = locks.daemon_lock_path(home)
    note = json.loads(path.read_text())
    path.write_text(json.dumps({**note, **changes}))


def test_the_process_that_holds_the_lock_is_signalled_and_waited_for(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with RunningDaemon.find(tmp_path) as daemon:
        assert daemon.holder.pid == other.pid
        assert not daemon.ended(0)
        daemon.send(signal.SIGTERM)
        assert daemon.ended(10)
        assert other.wait(10) == -signal.SIGTERM
        with pytest.raises(NoDaemon):
            daemon.send(signal.SIGTERM)
    with pytest.raises(NoDaemon):
        RunningDaemon.find(tmp_path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pid": os.getppid()}, "is not the daemon|another user|cannot be looked at"),
        ({"pid": 2**22 - 3}, "no process"),
        ({"pid": 0}, "in use by"),
        ({"host": "elsewhere"}, "on elsewhere"),
        ({"boot_id": "an-earlier-one"}, "earlier boot"),
    ],
)
def test_a_note_that_does_not_prove_itself_leads_to_nobody(
    tmp_path: Path, other: subprocess.Popen[str], changes: dict[str, object], why: str
) -> None:
    rewrite(tmp_path, **changes)
    with pytest.raises(NotReachable, match=why):
        RunningDaemon.find(tmp_path)
    assert other.poll() is None


def test_a_note_left_behind_is_nobody(tmp_path: Path) -> None:
    locks.daemon_lock(tmp_path).release()
    assert locks.daemon_lock_path(tmp_path).exists()
    with pytest.raises(NoDaemon):
        RunningDaemon.find(tmp_path)


def test_the_successor_is_another_process(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    holder = locks.holder(locks.daemon_lock_path(tmp_path))
    assert holder is not None
    assert successor(tmp_path, holder, 0.0) is None
    rewrite(tmp_path, pid=1)
    found = successor(tmp_path, holder, 1.0)
    assert found is not None
    assert found.pid == 1


def test_the_home_is_found_although_the_file_is_broken(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    environ = {"HOME": str(tmp_path / "nobody")}
    config = tmp_path / "config.yaml"
    config.write_text("access: [unclosed")
    assert home_of(config, environ) == tmp_path
    config.write_text("home: /somewhere\nunknown: key\n")
    assert home_of(config, environ) == tmp_path, "nobody holds /somewhere"
    assert home_of(tmp_path / "missing.yaml", environ) == tmp_path
    assert home_of(None, environ) == tmp_path / "nobody/.tidings"
