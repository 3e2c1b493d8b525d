"""deploy/Dockerfile, step by step in a clean folder, and the daemon in what comes out of it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.image import DOCKERFILE, ROOT, CannotBuild, Workshop, build, context, stages

UID = 10001
KEY = "a-key-for-the-tests-of-the-image"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """The stages, built once."""
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("ensurepip is missing: apt-get install python3-venv")
    sent = tmp_path_factory.mktemp("context")
    context(ROOT, sent)
    try:
        workshop = Workshop(tmp_path_factory.mktemp("image"))
    except CannotBuild as reason:
        pytest.skip(str(reason))
    try:
        build(workshop, sent)
        yield workshop
    finally:
        workshop.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Container:
    """The image's own command as its own user: a read-only root, a volume, a /tmp, and no rights."""

    def __init__(self, image: Workshop, volume: Path, port: int) -> None:
        final = stages(DOCKERFILE.read_text(encoding="utf-8"))[-1]
        self.health = final.last("HEALTHCHECK").json()
        self.variables = {
            **final.environment(),
            "TIDINGS_PROBE": f"http://127.0.0.1:{port}/healthz",
            "TIDINGS_HTTP_KEY": KEY,
        }
        self.program = final.last("ENTRYPOINT").json()
        self.log = volume.parent / "container.log"
        self._out = self.log.open("w")
        self.home = final.environment()["TIDINGS_HOME"]
        lines = [
            *image.mounted(final.name),
            f'mount --bind {shlex.quote(str(volume))} "$root{self.home}"',
            'mount -o remount,ro "$root"',
            f'exec chroot "$root" {self._as_user([*self.program, *final.last("CMD").json()])}',
        ]
        self.process = image.run(lines, stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT)

    def _as_user(self, command: list[str]) -> str:
        words = [f"{name}={value}" for name, value in self.variables.items()]
        drop = ["--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
        return shlex.join(["setpriv", *drop, "env", "-i", f"--chdir={self.home}", *words, *command])

    def exec(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as `docker exec` does."""
        inside = ["nsenter", f"--target={self.process.pid}", "--mount", "--root"]
        text = f"exec {shlex.join(inside)} {self._as_user(list(command))}"
        return subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=False)

    def wait_until_healthy(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.exec(*self.health).returncode != 0:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.2)

    def stop(self) -> int:
        """As `docker stop` does: SIGTERM, and kill after the grace period."""
        self.process.terminate()
        try:
            return self.process.wait(80)
        finally:
            self.process.kill()
            self._out.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_image_serves_with_a_read_only_root_and_no_rights(image: Workshop, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o700)
    port = free_port()
    config = {
        "model": {"provider": "scripted", "script": "/var/lib/tidings/script.json"},
        "access": {"owners": ["http:default"]},
        "platforms": {"http": {"enabled": True, "port": port, "key": "${TIDINGS_HTTP_KEY}"}},
    }
    (volume / "config.yaml").write_text(json.dumps(config))
    (volume / "script.json").write_text('["Good morning."]')
    for path in (volume, *volume.iterdir()):
        os.chown(path, UID, UID)

    container = Container(image, volume, port)
    try:
        container.wait_until_healthy(60)
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/messages",
            data=b'{"text": "Hello", "stream": false}',
            headers={"Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["text"] == "Good morning."
        status = container.exec("tidings", "status", "--json")
        assert status.returncode == 0, status.stderr
        assert json.loads(status.stdout)["ready"]["status"] == "ready"
        who = container.exec("sh", "-c", "id -u; grep -c 'CapBnd:.*0000000000000000' /proc/self/status")
        assert who.stdout.split() == [str(UID), "1"]
        for place in ("/opt/tidings/x", "/etc/x", "/x"):
            assert container.exec("touch", place).returncode != 0, place
        assert container.exec("touch", "/tmp/x", "/var/lib/tidings/x").returncode == 0
    finally:
        code = container.stop()
    assert code == 0, container.log.read_text()[-3000:]
    assert (volume / "tidings.db").stat().st_uid == UID
    assert container.exec(*container.health).returncode != 0  # nobody is there any more


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_image_holds_the_product_and_only_pinned_packages(image: Workshop) -> None:
    site = next(image.path("build/up/opt/tidings/lib").glob("python3.*/site-packages"))
    for name in ("gateway", "adapters", "agent_core", "state"):
        assert (site / name / "__init__.py").exists(), name
    assert (site / "gateway/config.example.yaml").exists()
    extras = next(step.text for step in stages(DOCKERFILE.read_text(encoding="utf-8"))[0].steps if step.verb == "ARG")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [one for extra in extras.partition("=")[2].split(",") for one in project["optional-dependencies"][extra]]
    found = dict(info.stem.rpartition("-")[::2] for info in site.glob("*.dist-info"))
    found = {plain(name): version for name, version in found.items()}
    assert {plain(re.split(r"[<>=]", one)[0]) for one in wanted} <= set(found)
    pins = (line.split("==") for line in (ROOT / "deploy/constraints").read_text().splitlines() if "==" in line)
    pinned = {plain(name): version for name, version in pins}
    for name in set(found) - {"pip", "setuptools", "tidings"}:
        assert pinned.get(name) == found[name], f"{name} {found[name]} is not pinned"


def plain(name: str) -> str:
    """The name of a package in its one form."""
    return re.sub(r"[-_.]+", "-", name).lower()
