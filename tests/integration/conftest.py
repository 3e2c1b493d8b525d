"""A model peer and a process for tests of the whole gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, process


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def run(tmp_path: Path, model: ModelServer) -> AsyncIterator[Process]:
    async with process(tmp_path / "home", model) as started:
        yield started
