"""A store on a fresh file, with a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from state.clock import SteppedClock
from state.owners import this_process
from state.store import Store
from tests.unit.state.rig import Rig


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "tidings.db"


@pytest.fixture
async def store(path: Path, clock: SteppedClock) -> AsyncIterator[Store]:
    async with Store.open(path, owner=this_process("test"), clock=clock) as opened:
        yield opened


@pytest.fixture
async def rig(store: Store) -> Rig:
    return Rig(store)
