"""What a tool is given: a real folder, a recording ledger, an answering person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_core.tools.ports import Rights, ToolContext
from state.ids import SessionId, TurnId


@dataclass
class Person:
    """Answers as told and notes what was asked."""

    allows: bool = True
    answer: str | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[], object] | None = None

    async def approve(self, call_id: str, what: str) -> bool:
        self.asked.append((call_id, what))
        if self.before is not None:
            self.before()
        await asyncio.sleep(0)
        return self.allows

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        self.asked.append((call_id, f"{question} {list(options)}"))
        await asyncio.sleep(0)
        return self.answer


@dataclass
class Ledger:
    """Notes the groups, in order. `fails` is raised instead of a commit."""

    notes: list[tuple[object, ...]] = field(default_factory=list)
    fails: Exception | None = None
    at_start: Callable[[int, int], object] | None = None

    async def started(self, call_id: str, pgid: int, start_ticks: int) -> None:
        await asyncio.sleep(0.01)
        if self.at_start is not None:
            self.at_start(pgid, start_ticks)
        if self.fails is not None:
            raise self.fails
        self.notes.append(("started", call_id, pgid, start_ticks))

    async def ended(self, pgid: int, start_ticks: int) -> None:
        self.notes.append(("ended", pgid, start_ticks))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / ".env").write_text("TOKEN=of-the-daemon\n")
    return folder


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def context(root: Path, home: Path, person: Person, ledger: Ledger) -> ToolContext:
    return ToolContext(
        session_id=SessionId("s_1"),
        turn_id=TurnId("t_1"),
        call_id="call_1",
        rights=Rights(role="owner", tools=frozenset({"files", "terminal", "web", "todo", "clarify"})),
        root=root,
        home=home,
        ask=person,
        processes=ledger,
    )
