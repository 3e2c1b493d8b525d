"""`deploy/quickstart` as a script: what it starts it ends, and nothing else; one line an error.

Its environment is made to be this interpreter's, so that nothing is installed; the model is a script.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest

from gateway import locks
from tests.weights import home_with_weights

ROOT = Path(__file__).parents[2]
BOUND = 30.0


def hears_hangups() -> None:
    """For a child: whoever runs the tests may ignore SIGHUP (nohup does), and a shell cannot trap what it
    was born to ignore."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A checkout whose environment is there already, and a home with a scripted model."""

    root: Path
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "TIDINGS_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    @property
    def script(self) -> str:
        return str(self.root / "deploy" / "quickstart")

    def start(self, *, stdin: int = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", self.script],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            preexec_fn=hears_hangups,  # noqa: PLW1509 - it only sets a signal, before there are threads
        )

    def say(self, *lines: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", self.script],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            env=self.environ,
            timeout=BOUND,
            check=False,
        )

    def daemon(self) -> int | None:
        holder = locks.holder(locks.daemon_lock_path(self.home))
        return None if holder is None else holder.pid

    def configure(self, port: int) -> None:
        (self.home / "script.json").write_text(json.dumps(["first answer", "second answer", "third answer"]))
        config = {
            "home": str(self.home),
            "model": {"provider": "scripted", "script": str(self.home / "script.json")},
            "platforms": {
                "http": {"enabled": True, "host": "127.0.0.1", "port": port, "key": f"file:{self.home / 'http.key'}"}
            },
        }
        (self.home / "config.yaml").write_text(json.dumps(config))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy", root / "deploy")
    shutil.copy(ROOT / "pyproject.toml", root)
    for name in ("python", "tidings"):
        file = root / ".venv" / "bin" / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        file.chmod(0o755)
    made = "me=x; . deploy/environment.sh; made_from"
    stamp = subprocess.run(["bash", "-c", made], cwd=root, capture_output=True, text=True, check=True).stdout
    (root / ".venv" / "tidings-dev,anthropic,embedded,telegram,discord,slack.stamp").write_text(stamp)
    home = home_with_weights(tmp_path)
    home.chmod(0o700)
    key = home / "http.key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    found = Checkout(root=root, home=home)
    found.configure(0)
    return found


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def _running(checkout: Checkout) -> Iterator[subprocess.Popen[str]]:
    """A daemon that somebody else has started."""
    daemon = subprocess.Popen(
        [sys.executable, "-m", "gateway", "run"], env=checkout.environ, stderr=subprocess.DEVNULL, text=True
    )
    try:
        _until(lambda: checkout.daemon() == daemon.pid)
        yield daemon
    finally:
        daemon.terminate()
        daemon.wait(BOUND)


@pytest.mark.embedded
def test_piped_it_writes_only_answers_resumes_the_session_and_ends_its_daemon(checkout: Checkout) -> None:
    first = checkout.say("one", "two")
    assert (first.returncode, first.stdout) == (0, "first answer\nsecond answer\n"), first.stderr
    assert checkout.daemon() is None
    again = checkout.say("/sessions")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("s_") == 1
    assert "one" in again.stdout
    assert checkout.daemon() is None


@pytest.mark.embedded
def test_a_daemon_that_runs_is_left_alone(checkout: Checkout) -> None:
    with _running(checkout) as daemon:
        said = checkout.say("one")
        assert (said.returncode, said.stdout) == (0, "first answer\n"), said.stderr
        assert "a daemon runs already" in said.stderr
        assert checkout.daemon() == daemon.pid
        assert daemon.poll() is None


@pytest.mark.embedded
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_conversation_and_the_daemon(checkout: Checkout, sent: signal.Signals, code: int) -> None:
    script = checkout.start()
    assert script.stdin is not None
    assert script.stdout is not None
    try:
        script.stdin.write("one\n")
        script.stdin.flush()
        assert script.stdout.readline() == "first answer\n"
        assert checkout.daemon() is not None
        script.send_signal(sent)
        assert script.wait(BOUND) == code
        assert checkout.daemon() is None
        assert script.stdout.read() == ""
    finally:
        script.kill()
        script.communicate()


@pytest.mark.embedded
def test_a_closed_terminal_ends_the_daemon(checkout: Checkout) -> None:
    terminal = pexpect.spawn(
        "bash",
        [checkout.script],
        env=checkout.environ,  # type: ignore[arg-type]
        encoding="utf-8",
        timeout=BOUND,
        preexec_fn=hears_hangups,
    )
    try:
        terminal.expect("a daemon runs until you leave")
        terminal.sendline("one")
        terminal.expect("first answer")
        assert checkout.daemon() is not None
        terminal.ptyproc.fileobj.close()  # the kernel sends SIGHUP
        _until(lambda: checkout.daemon() is None)
        _until(lambda: not terminal.isalive())
    finally:
        terminal.kill(signal.SIGKILL)


@pytest.mark.embedded
def test_a_port_in_use_is_told_in_one_line(checkout: Checkout) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        checkout.configure(port)
        said = checkout.say("one")
    assert said.returncode == 1
    assert said.stdout == ""
    assert len(said.stderr.splitlines()) == 1, said.stderr
    assert said.stderr.startswith("deploy/quickstart: the daemon does not start: ")
    assert str(port) in said.stderr


@pytest.mark.embedded
def test_a_faulty_configuration_is_named_with_its_path(checkout: Checkout) -> None:
    (checkout.home / "config.yaml").write_text("modle: {}\n")
    said = checkout.say("one")
    assert said.returncode == 1
    assert said.stdout == ""
    assert "config.yaml:1: modle" in said.stderr
    assert said.stderr.splitlines()[-1].startswith("deploy/quickstart: mend ")
    assert "Traceback" not in said.stderr


def _shell(root: Path, text: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -u; me=deploy/x; . deploy/environment.sh; {text}"],
        cwd=root,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )


def test_only_a_whole_environment_counts_as_made(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "tidings"):
        (tmp_path / ".venv" / "bin" / name).touch(mode=0o755)

    def is_made(extras: str) -> bool:
        return _shell(tmp_path, f'is_made {extras} "$(made_from)"').returncode == 0

    assert not is_made("embedded")
    stamp = tmp_path / ".venv" / "tidings-dev,embedded.stamp"
    stamp.write_text(_shell(tmp_path, "made_from").stdout)
    assert is_made("embedded")
    assert is_made("dev,embedded")
    assert not is_made("anthropic,embedded")
    (tmp_path / "pyproject.toml").write_text("# another version\n")
    assert not is_made("embedded")


def test_a_python_that_is_too_old_is_told_in_one_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    old = tmp_path / "bin"
    old.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        (old / name).write_text("#!/bin/sh\nexit 1\n")
        (old / name).chmod(0o755)
    said = _shell(tmp_path, "make_venv", PATH=f"{old}:{os.environ['PATH']}")
    assert said.returncode == 1
    assert said.stderr == "deploy/x: Python 3.11 or newer is needed (set TIDINGS_PYTHON to one)\n"


def test_a_command_that_fails_leaves_its_last_error_as_the_reason(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    text = 'with_progress "trying" log sh -c "echo ERROR: no such package; echo more; exit 3"; echo "$? $(reason log)"'
    said = _shell(tmp_path, text)
    assert said.stdout == "3 ERROR: no such package\n"
