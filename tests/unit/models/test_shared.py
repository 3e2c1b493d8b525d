"""The locks that several processes share one server by, and the user's side of a start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from agent_core.errors import ModelKeyBad, ModelUnavailable
from agent_core.models.embedded import host as hosting
from agent_core.models.embedded.host import Host
from agent_core.models.embedded.manifest import SMOLLM2
from agent_core.models.embedded.shared import Busy, Listening, Place

LISTENING = Listening(url="http://127.0.0.1:1", pid=1, context_tokens=8192, key="secret-key")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.prepare()
    return made


def test_the_port_file_is_for_its_owner_only_and_whole(place: Place) -> None:
    assert place.published() is None
    place.publish(LISTENING)
    place.publish(LISTENING)
    assert place.published() == LISTENING
    path = place.folder / "port.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert "secret-key" not in repr(LISTENING)
    path.write_text('{"url": ', "utf-8")
    assert place.published() is None
    place.withdraw()
    place.withdraw()


def test_the_gate_is_for_one(place: Place) -> None:
    with place.gate(1.0), pytest.raises(Busy), place.gate(0.0):
        pass
    with place.gate(0.0):
        pass


def test_alive_is_a_lock_and_no_number(place: Place) -> None:
    assert not place.is_alive()
    descriptor = place.hold_alive(0.0)
    assert place.is_alive()
    with pytest.raises(Busy):
        place.hold_alive(0.0)
    os.close(descriptor)
    assert not place.is_alive()


def test_users_come_and_go(place: Place) -> None:
    assert not place.has_users()
    one, two = place.join(), place.join()
    one.leave()
    one.leave()
    assert place.has_users()
    two.leave()
    assert not place.has_users()
    assert list(place.users.iterdir()) == []


def test_a_user_that_is_killed_is_gone(place: Place, tmp_path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import time
        from pathlib import Path
        from agent_core.models.embedded.shared import Place
        user = Place(Path({str(tmp_path)!r})).join()
        print("in", flush=True)
        time.sleep(60)
        """
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in\n"
        assert place.has_users()
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        assert not place.has_users()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose weights have the right size and no meaning: the server will not load them."""
    path = SMOLLM2.path(tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(SMOLLM2.size)
    return tmp_path


def test_missing_weights_are_told(tmp_path: Path) -> None:
    with pytest.raises(ModelKeyBad, match="not installed") as caught:
        Host(tmp_path, context=512, grace=0.0).ensure()
    assert "tidings model install" in caught.value.told


def test_a_server_that_cannot_start_is_told_and_not_started_at_once_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "START_BOUND", 30.0)
    monkeypatch.setattr(hosting, "FIRST_PAUSE", 100.0)
    host = Host(home, context=512, grace=0.0)
    monkeypatch.setattr(Host, "_command", lambda _self: [sys.executable, "-c", "import sys; sys.exit('no luck')"])
    with pytest.raises(ModelUnavailable, match="no luck"):
        host.ensure()
    with pytest.raises(ModelUnavailable, match="has died") as caught:
        host.ensure()
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 100
    host.leave()


def test_two_that_start_at_once_start_one(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "starts"
    code = textwrap.dedent(
        f"""
        import os, time
        from pathlib import Path
        from agent_core.models.embedded.shared import Listening, Place
        place = Place(Path({str(home)!r}))
        held = place.hold_alive(5.0)
        with open({str(log)!r}, "a") as file:
            file.write("x")
        place.publish(Listening(url="http://127.0.0.1:1", pid=os.getpid(), context_tokens=512, key="k"))
        while True:
            time.sleep(0.05)
            with place.gate(5.0):
                if not place.has_users():
                    place.withdraw()
                    break
        """
    )
    monkeypatch.setattr(Host, "_command", lambda _self: [sys.executable, "-c", code])
    hosts = [Host(home, context=512, grace=0.0) for _ in range(3)]
    found: list[Listening] = []
    threads = [threading.Thread(target=lambda host=host: found.append(host.ensure())) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({listening.pid for listening in found}) == 1
    assert len(found) == 3
    assert log.read_text("ascii") == "x"
    for host in hosts:
        host.leave()
        host.leave()
