"""The external memory's manager: bounded, kept apart by audience, told once, and never in a turn's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_core.memory.providers import circuit as circuits
from agent_core.memory.providers.circuit import Circuit, State
from agent_core.memory.providers.manager import PLACES, TOTAL_CHARS, MemoryManager
from agent_core.memory.providers.ports import ProviderAway, ProviderRefused, place_of
from agent_core.ports import Asked
from state.audience import NOBODY, OPERATOR, PUBLIC, Viewer
from state.ids import SessionId, TurnId
from tests.unit.agent_core.memory_rig import FakeProvider, FullProvider, Spawned, manager_of

ADA = Viewer(persons=("p:ada",), rooms=("room:r1",))
ROOM = Viewer(room="room:r1")
SESSION = SessionId("s-1")


def asked(query: str = "tea?", viewer: Viewer = ADA) -> Asked:
    return Asked(session_id=SESSION, turn_id=TurnId("t-1"), query=query, viewer=viewer)


def knows(**labels: str) -> dict[Any, list[Any]]:
    return {place_of("tidings", label.replace("_", ":", 1)): [text] for label, text in labels.items()}


async def test_a_room_never_recalls_what_was_said_in_private() -> None:
    provider = FakeProvider(known=knows(p_ada="a secret", room_r1="said in the room", public="for all", p_ben="Ben's"))
    manager = manager_of(provider)
    assert await manager.recall(asked()) == "- a secret\n- for all\n- said in the room"
    assert await manager.recall(asked(viewer=ROOM)) == "- said in the room\n- for all"
    assert await manager.recall(asked(viewer=NOBODY)) == "- for all"
    assert await manager.recall(asked(viewer=OPERATOR)) == "", "everything is no audience"


async def test_places_tell_nobody_who_it_is_and_are_bounded() -> None:
    manager = manager_of(FakeProvider())
    places = manager.places(Viewer(persons=("p:ada",), rooms=tuple(f"room:{n}" for n in range(50))))
    assert len(places) == PLACES
    assert places[0] == manager.place("p:ada") == place_of("tidings", "p:ada")
    assert all("ada" not in place and len(place) <= 64 for place in places)
    assert place_of("other", "p:ada") != places[0], "two daemons with one account are kept apart"


async def test_a_hung_provider_costs_one_bound_and_then_nothing_until_it_returns() -> None:
    hang = asyncio.Event()
    provider = FakeProvider(hang=hang, known=knows(p_ada="tea"))
    manager = manager_of(provider)
    watch = asyncio.create_task(manager.watch())
    assert await manager.recall(asked()) == ""
    assert (manager.circuit.state, provider.calls) == (State.HANGS, ["prefetch"])
    for _ in range(20):
        assert await manager.recall(asked()) == ""
        with pytest.raises(ProviderAway):
            await manager.look_up("tea", ADA)
    assert provider.calls == ["prefetch"], "it is not asked while it hangs"
    hang.set()
    await until(lambda: manager.circuit.state is State.FINE)
    assert await manager.recall(asked()) == "- tea"
    watch.cancel()
    await asyncio.wait([watch])


async def test_one_that_never_returns_is_cancelled_and_looked_at_now_and_then() -> None:
    delays: list[float] = []
    ready = asyncio.Event()

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        await asyncio.sleep(0)

    async def look() -> None:
        if len(delays) < 4:
            raise ProviderAway("no")
        ready.set()

    circuit = Circuit("x", look, late=0.01, sleep=sleep)
    watch = asyncio.create_task(circuit.watch())
    with pytest.raises(ProviderAway, match="no answer"):
        await circuit.call(asyncio.Event().wait, "hanging", 0.01)
    await asyncio.wait_for(ready.wait(), 5)
    await until(lambda: circuit.state is State.FINE)
    assert delays == [10.0, 20.0, 40.0, 80.0]
    watch.cancel()
    await asyncio.wait([watch])


async def test_failures_in_a_row_open_the_circuit_and_a_refusal_does_not() -> None:
    provider = FakeProvider(fault=ProviderRefused("HTTP 422"))
    manager = manager_of(provider)
    for _ in range(circuits.FAILURES * 2):
        assert await manager.recall(asked()) == ""
    assert manager.circuit.state is State.FINE
    provider.fault = RuntimeError("a defect of the client, with words that were said")
    for _ in range(circuits.FAILURES):
        assert await manager.recall(asked()) == ""
    assert manager.circuit.state is State.AWAY
    assert "words" not in manager.circuit.reason
    assert manager.circuit.reason == "prefetch: RuntimeError in the client"


@pytest.mark.parametrize(
    "lie", [["x" * 10_000_000], ["y" * 5000] * 1000, "not a list", [1, None, {"a": 1}, b"bytes"], {"a": "b"}, 7]
)
async def test_a_lying_provider_is_cut(lie: Any) -> None:
    manager = manager_of(FakeProvider(answer=lie))
    text = await manager.recall(asked())
    assert len(text) <= TOTAL_CHARS + 200
    assert "bytes" not in text


async def test_the_person_is_told_of_an_outage_once_a_session() -> None:
    manager = manager_of(FakeProvider(hang=asyncio.Event()))
    assert manager.notice(SESSION) == ""
    await manager.recall(asked())
    assert "honcho does not answer" in manager.notice(SESSION)
    assert manager.notice(SESSION) == ""
    assert manager.notice(SessionId("s-2")) != "", "another person has not heard it yet"
    manager.circuit.drop()


async def test_hooks_of_a_turn_and_a_session() -> None:
    provider = FullProvider(known=knows(p_ada="tea"), standing=["Ada is a pilot."])
    spawned = Spawned()
    manager = manager_of(provider, spawn=spawned)
    assert await manager.standing(ADA) == "- Ada is a pilot."
    assert await manager.recall(asked()) == "- tea"
    manager.turn_ended(SESSION, "tea?", ADA)
    await spawned.done()
    assert await manager.recall(asked("and now?")) == "- ahead of tea?\n- tea"
    assert await manager.recall(asked("later")) == "- tea", "what was fetched ahead is used once"
    await manager.before_compression(SESSION, ADA)
    assert provider.calls == [
        *("static", "session start", "turn start", "prefetch", "ahead"),
        *("turn start", "prefetch", "turn start", "prefetch", "compress"),
    ]
    await manager.shutdown()
    assert provider.closed


async def test_what_was_fetched_ahead_for_one_person_is_not_shown_to_a_room() -> None:
    provider, spawned = FullProvider(), Spawned()
    manager = manager_of(provider, spawn=spawned)
    manager.turn_ended(SESSION, "my salary?", ADA)
    await spawned.done()
    assert await manager.recall(asked(viewer=ROOM)) == "", "the session has moved to a room meanwhile"


@pytest.mark.parametrize("mode", ["context", "hybrid", "tools"])
async def test_modes(mode: Any) -> None:
    provider = FullProvider(known=knows(p_ada="tea"), standing=["Ada is a pilot."])
    manager = manager_of(provider, mode=mode)
    shown = (await manager.recall(asked()), await manager.standing(ADA))
    assert shown == (("", "") if mode == "tools" else ("- tea", "- Ada is a pilot."))
    assert list(await manager.look_up("tea", ADA)) == ["tea"]


async def test_an_empty_question_asks_nothing() -> None:
    provider = FakeProvider(known=knows(p_ada="tea"))
    assert await manager_of(provider).recall(asked("  ")) == ""
    assert provider.calls == []


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


async def test_a_cancelled_turn_cancels_its_call() -> None:
    manager: MemoryManager = manager_of(FakeProvider(hang=asyncio.Event()), seconds=5)
    turn = asyncio.create_task(manager.recall(asked()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    turn.cancel()
    await asyncio.wait([turn])
    assert manager.circuit.state is State.FINE
    assert PUBLIC in ADA.labels
