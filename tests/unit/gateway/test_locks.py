"""Locks: with real processes, because the kernel is what they rest on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import locks
from gateway.locks import LockHeld, LockUnusable, daemon_lock, daemon_lock_path, holder, token_lock

HOLD = """
import sys, pathlib
from gateway.locks import daemon_lock, LockHeld
try:
    lock = daemon_lock(pathlib.Path(sys.argv[1]))
except LockHeld as exc:
    print("held", exc, flush=True)
    raise SystemExit(1)
print("locked", flush=True)
sys.stdin.read()
"""


def start(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=10)


def test_B59_after_kill_9_the_next_start_succeeds_at_once(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        assert first_line(process) == "locked"
        with pytest.raises(LockHeld, match=f"a daemon with process {process.pid}, running since 20") as caught:
            daemon_lock(tmp_path)
        assert caught.value.holder is not None
        assert caught.value.holder.pid == process.pid
        there = holder(daemon_lock_path(tmp_path))
        assert there is not None
        assert there.pid == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    finally:
        end(process)
    assert holder(daemon_lock_path(tmp_path)) is None
    daemon_lock(tmp_path).release()


@pytest.mark.parametrize("note", [None, "", "garbage", "{}", '{"pid": PID}'])
def test_B59_what_a_dead_daemon_left_behind_locks_nobody_out(tmp_path: Path, note: str | None) -> None:
    path = daemon_lock_path(tmp_path)
    path.parent.mkdir(parents=True)
    if note is not None:
        path.write_text(note.replace("PID", str(os.getpid())))  # a recycled pid: that process lives
    assert holder(path) is None
    lock = daemon_lock(tmp_path)
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()
    lock.release()


def test_B59_of_simultaneous_starts_exactly_one_wins_and_the_others_name_it(tmp_path: Path) -> None:
    started = [start(tmp_path) for _ in range(4)]
    try:
        said = [first_line(process) for process in started]
        winners = [process for process, line in zip(started, said, strict=True) if line == "locked"]
        assert len(winners) == 1
        for process, line in zip(started, said, strict=True):
            if process is not winners[0]:
                assert f"with process {winners[0].pid}, running since" in line
                assert process.wait(timeout=10) == 1
    finally:
        for process in started:
            end(process)


def test_a_holder_without_a_note_is_still_a_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_NOTE_WAIT", 0.02)
    lock = daemon_lock(tmp_path)
    lock.path.write_text("")
    with pytest.raises(LockHeld, match="another process"):
        daemon_lock(tmp_path)
    there = holder(lock.path)
    assert there is not None
    assert there.pid == 0
    lock.release()


def test_a_deleted_lock_file_does_not_make_two_daemons_unnoticed(tmp_path: Path) -> None:
    """The lock that is taken is on the file that others will find."""
    lock = daemon_lock(tmp_path)
    lock.path.unlink()
    second = daemon_lock(tmp_path)
    with pytest.raises(LockHeld):
        daemon_lock(tmp_path)
    lock.release()
    second.release()


def test_one_token_in_two_homes_is_refused(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    token = "1:very-secret-token"
    first = token_lock("p", token, home=tmp_path / "a", environ=environ)
    with pytest.raises(LockHeld, match=r"the token of platforms.p is in use by a daemon on .*/a with process"):
        token_lock("p", token, home=tmp_path / "b", environ=environ)
    token_lock("q", token, home=tmp_path / "b", environ=environ).release()
    token_lock("p", token + "x", home=tmp_path / "b", environ=environ).release()
    first.release()
    token_lock("p", token, home=tmp_path / "b", environ=environ).release()
    for path in (tmp_path / ".local/state/tidings/locks").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert token not in path.name + path.read_text()


def test_a_lock_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file where the folder should be")
    with pytest.raises(LockUnusable, match="cannot be made"):
        daemon_lock(tmp_path)


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = daemon_lock(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        lock.release()
        daemon_lock(tmp_path).release()
    finally:
        child.communicate(b"\n", timeout=10)
