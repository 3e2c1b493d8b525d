"""Processes that die, platforms that fail, bindings that move: seen from inside (B02, B11, B28, B61, B63)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.errors import AuthFailed, NotReady, OutcomeUnknown
from adapters.memory.adapter import MemoryAdapter
from gateway.health import PlatformState
from gateway.turns import Turns
from state.owners import this_process
from state.records import Fate, TurnState
from state.store import Store
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, dead_owner, process


async def _die_in_mid_turn(home: Path, model: ModelServer, *, drafted: bool = False) -> MemoryAdapter:
    """A process that dies while a turn runs: whatever it committed stays, nothing is parked."""
    model.script(Step(when="long", text="half of it, and the whole", chunks=2, hold_after=2 if drafted else 0))
    platform = MemoryAdapter()
    with pytest.raises(BaseExceptionGroup):  # noqa: PT012
        async with process(home, model, platform=platform, owner=dead_owner()) as run:
            await platform.hear("a long question", message_id="m1")
            await model.wait_calls(1)
            if drafted:
                await run.says("half of it")
            raise RuntimeError("the process dies")
    return platform


@pytest.fixture(autouse=True)
def _no_parking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the harness is a crash, not a planned stop: the turn is left as it is."""

    async def lost(_self: object, _lease: object, _detail: str) -> None:
        return None

    monkeypatch.setattr("state.turns.Turns.park", lost)


@pytest.mark.parametrize("when", ["before", "with", "after"])
async def test_B02_a_resumed_turn_and_a_new_message_are_answered_once_each(
    tmp_path: Path, model: ModelServer, when: str
) -> None:
    await _die_in_mid_turn(tmp_path / "home", model)
    if when == "before":  # it was accepted by the process that died
        async with Store.open(tmp_path / "home" / "tidings.db", owner=dead_owner()) as store:
            (first,) = await store.inbox.find("memory", "bot", "m1")
            from dataclasses import replace

            from gateway.convert import event_from_row, event_to_new

            event = replace(event_from_row(first), dedup_id="m2", message_id="m2", text="next")
            await store.inbox.accept(event_to_new(event, first.key))
    async with process(tmp_path / "home", model) as run:
        if when != "before":
            await run.platform.hear("next", message_id="m2")
        assert (await run.fate("m1"))[0] == "answered"
        assert (await run.fate("m2"))[0] == "answered"
        await run.check_ledger()
        assert len(run.texts()) == 2
        assert sum("next" in str(call.messages()[-1]["content"]) for call in model.calls) == 1


async def test_B11_an_event_whose_handler_failed_is_handled_after_the_restart(
    tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def broken(*_args: object) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("the handler has a defect")
        await asyncio.Event().wait()  # and then the process dies

    with monkeypatch.context() as patch:
        patch.setattr(Turns, "_attempt", broken)
        async with process(tmp_path / "home", model, owner=dead_owner()) as run:
            accepted = await run.platform.hear("a press, say", message_id="m1")
            assert accepted.is_new
            await asyncio.sleep(0.1)
            assert (await run.row("m1")).fate is Fate.WAITING
    async with process(tmp_path / "home", model) as run:
        assert (await run.fate("m1"))[0] == "answered"
        again = await run.platform.hear("a press, say", message_id="m1")
        assert not again.is_new
        await run.check_ledger()
    assert len(model.calls) == 1


async def test_a_draft_that_a_crash_left_is_completed_and_not_doubled(tmp_path: Path, model: ModelServer) -> None:
    platform = await _die_in_mid_turn(tmp_path / "home", model, drafted=True)
    assert len(platform.room.shown()) == 1
    model.script(Step(when="long", text="half of it, and the whole"))
    async with process(tmp_path / "home", model, platform=platform) as run:
        await run.fate("m1")
        await run.says("and the whole")
        await run.check_ledger()
        assert len(run.texts()) == 1


async def test_B28_an_answer_is_kept_until_its_platform_is_up(tmp_path: Path, model: ModelServer) -> None:
    platform = MemoryAdapter()
    async with process(tmp_path / "home", model, platform=platform) as run:
        platform.room.fail("send", NotReady(), times=2)
        await platform.hear("hello", message_id="m1")
        await run.fate("m1")
        await run.says("echo", seconds=15)
        await run.quiet()
        assert len(run.texts()) == 1


async def test_B25_an_unknown_outcome_is_looked_up(run: Process) -> None:
    run.platform.room.fail("send", OutcomeUnknown(), arrives=True)
    await run.platform.hear("hello", message_id="m1")
    await run.says("echo")
    await asyncio.sleep(3.0)
    await run.quiet()
    assert len(run.texts()) == 1


async def test_B61_a_binding_that_another_process_has_moved_counts(run: Process, tmp_path: Path) -> None:
    await run.platform.hear("first", message_id="m1")
    await run.fate("m1")
    row = await run.row("m1")
    async with Store.open(tmp_path / "home" / "tidings.db", owner=this_process("admin")) as other:
        binding, fresh = await other.sessions.rotate(row.key, person="memory:ann", reason="admin")
    await run.platform.hear("second", message_id="m2")
    await run.fate("m2")
    rows = await run.store.transcript.load(fresh.id)
    assert rows[0].content == "second"
    now = await run.store.sessions.binding(row.key)
    assert now is not None
    assert now.session_id == binding.session_id


async def test_B63_a_failing_platform_recovers_alone_and_a_refused_one_is_parked(run: Process) -> None:
    health = run.core.health
    run.platform.lose(NotReady("gone for a while"))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while health.platforms()["memory"].state is not PlatformState.WAITING:
            await asyncio.sleep(0.01)
        while health.platforms()["memory"].state is not PlatformState.CONNECTED:
            await asyncio.sleep(0.01)
    await run.platform.hear("hello", message_id="m1")
    assert (await run.fate("m1"))[0] == "answered"
    run.platform.lose(AuthFailed("revoked"))
    async with asyncio.timeout(10):
        while health.platforms()["memory"].state is not PlatformState.PARKED:
            await asyncio.sleep(0.01)
    ready, body = health.ready()
    assert not ready
    assert "parked" in body["missing"][0] or "parked" in str(body)


async def test_a_defect_of_an_adapter_is_its_own(run: Process) -> None:
    run.platform.lose(RuntimeError("a defect"))
    async with asyncio.timeout(10):
        while not run.platform.connected:
            await asyncio.sleep(0.01)
    await run.platform.hear("hello", message_id="m1")
    assert (await run.fate("m1"))[0] == "answered"


async def test_the_reconciler_mends_what_cannot_be(run: Process) -> None:
    await run.platform.hear("hello", message_id="m1")
    await run.fate("m1")
    row = await run.row("m1")
    await run.store._db.write(lambda tx: tx.execute("UPDATE inbox SET fate = 'running' WHERE id = ?", (row.id,)))
    assert await run.core.fates.reconcile(run.core.recovery._requeue) == 1
    mended = await run.row("m1")
    assert mended.fate is Fate.ANSWERED
    assert mended.turn_id is not None
    turn = await run.store.turns.get(mended.turn_id)
    assert turn is not None
    assert turn.state is TurnState.ANSWERED


async def test_a_defect_that_stays_is_told_and_the_chat_goes_on(run: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_args: object) -> None:
        raise RuntimeError("the handler has a defect")

    with monkeypatch.context() as patch:
        patch.setattr(Turns, "_attempt", broken)
        await run.platform.hear("hello", message_id="m1")
        assert (await run.fate("m1", 20))[0] == "failed"
    await run.says("Something is wrong with me")
    await run.platform.hear("and now?", message_id="m2")
    assert (await run.fate("m2"))[0] == "answered"
    await run.check_ledger()
