"""The gate on shape refuses what it is there to refuse: each fault is planted in a small tree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
GATE = ROOT / ".ci" / "check_shape.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_shape", GATE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_shape"] = module
    spec.loader.exec_module(module)
    return module


gate = _load()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree without a fault."""
    for package in ("gateway", "agent_core", "adapters", "state", "tests"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text("__pycache__/\n.venv/\n*.egg-info/\n")
    (tmp_path / "README.md").write_text("# x\n")
    (tmp_path / "adapters" / "telegram.py").write_text("NAME = 'telegram'\n")
    return tmp_path


def _faults(tree: Path) -> list[str]:
    return [str(fault) for fault in gate.check(tree)]


def test_a_sound_tree_passes(tree: Path) -> None:
    (tree / "tidings.egg-info").mkdir()
    (tree / "gateway" / "__pycache__").mkdir()
    (tree / "gateway" / "__pycache__" / "x.pyc").write_bytes(b"slack")
    (tree / "gateway" / "config.example.yaml").write_text("slack: {}\n")
    assert _faults(tree) == []


def _function(lines: int) -> str:
    return "def long():\n" + "    x = 1\n" * (lines - 1)


def _class(methods: int) -> str:
    return "class Big:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(methods))


@pytest.mark.parametrize(
    ("path", "allowed", "refused", "told"),
    [
        ("state/a.py", "x = 1\n" * 600, "x = 1\n" * 601, "601 lines, 600 are allowed"),
        ("state/a.sql", "--\n" * 600, "--\n" * 601, "601 lines"),
        ("tests/test_a.py", "x = 1\n" * 600, "x = 1\n" * 601, "601 lines"),
        ("gateway/a.py", _function(80), _function(81), "a.py:1: long has 81 lines, 80 are allowed"),
        ("gateway/a.py", "async " + _function(80), "async " + _function(81), "long has 81 lines"),
        ("gateway/a.py", _class(25), _class(26), "Big has 26 methods, 25 are allowed"),
        ("gateway/a.py", "x = 1\n", "x = 1\n# for Telegram\n", "a.py:2: names the platform Telegram"),
        ("agent_core/a.py", "x = 1\n", "IS_DISCORD = 1\n", "names the platform DISCORD"),
        ("state/a.sql", "--\n", "-- slack\n", "names the platform slack"),
        ("gateway/a.py", "getattr(row, 'x')\n", "getattr(adapter, 'x')\n", "an ability of an adapter is a Protocol"),
        ("adapters/a.py", "hasattr(row, 'x')\n", "hasattr(self._adapter, 'x')\n", "hasattr(self._adapter, ...)"),
        ("gateway/a.py", "getattr(row, 'x')\n", "getattr(self.adapters[name], 'x')\n", "is a Protocol"),
        ("gateway/a.py", "g.create_task(w(), name='w')\n", "g.create_task(w())\n", "py:1: create_task( without name="),
        ("gateway/a.py", "create_task(w(), name='w')\n", "create_task(w())\n", "create_task( without name="),
        ("gateway/a.py", "x = 1\n", "asyncio.ensure_future(w())\n", "ensure_future"),
        ("gateway/a.py", "x = 1\n", "x = (\n", "cannot be parsed"),
    ],
)
def test_a_planted_fault_is_refused(tree: Path, path: str, allowed: str, refused: str, told: str) -> None:
    (tree / path).write_text(allowed)
    assert _faults(tree) == []
    (tree / path).write_text(refused)
    faults = _faults(tree)
    assert len(faults) == 1
    assert told in faults[0]
    assert faults[0].startswith(path)


def test_a_platform_in_the_name_of_a_file_is_refused(tree: Path) -> None:
    (tree / "gateway" / "slack_keys.py").write_text("x = 1\n")
    assert _faults(tree) == ["gateway/slack_keys.py: the file's name holds slack, a platform"]


@pytest.mark.parametrize("name", ["setup.py", "scripts", ".github", "requirements.txt", ".env"])
def test_a_stranger_at_the_top_level_is_refused(tree: Path, name: str) -> None:
    (tree / name).mkdir()
    assert _faults(tree) == [f"{name}: this does not belong to the top level (DESIGN 3)"]


def test_scripts_without_a_suffix_are_measured(tree: Path) -> None:
    (tree / "deploy").mkdir()
    (tree / "deploy" / "test").write_text("#!/bin/sh\n" + ":\n" * 600)
    assert _faults(tree) == ["deploy/test: 601 lines, 600 are allowed"]


def test_the_command_tells_the_median_and_ends_with_the_verdict(tree: Path) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(GATE), str(tree)], capture_output=True, text=True, check=False)

    (tree / "state" / "a.py").write_text("x = 1\n" * 11)
    fine = run()
    assert (fine.returncode, fine.stdout) == (
        0,
        "check_shape: median file 6 lines (6 with the tests), 0 faults\n",
    )
    (tree / "state" / "a.py").write_text("x = 1\n" * 601)
    bad = run()
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[0] == "state/a.py: 601 lines, 600 are allowed"


def test_this_tree_passes() -> None:
    assert [str(fault) for fault in gate.check(ROOT)] == []
